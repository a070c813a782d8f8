//! Settings with which sampling cannot be built, and their errors.

use std::collections::HashMap;
use std::time::Duration;

use breakerbox::sampling::{Poll, SampleError, Sampler, SamplingBuilder};
use breakerbox::store::MemoryStore;
use breakerbox::{Breakerbox, Consistency, Policy, PolicyBuilder, Preset, Sample};

struct Nothing;

#[async_trait::async_trait]
impl Sampler for Nothing {
    async fn sample(&self, _: &Poll) -> Result<HashMap<String, Sample>, SampleError> {
        Ok(HashMap::new())
    }
}

fn with(policy: PolicyBuilder) -> SamplingBuilder {
    Breakerbox::builder().store(MemoryStore::new()).sampling(policy).sampler(Nothing)
}

#[tokio::test]
async fn an_error_names_the_field() {
    let convoy = || Policy::builder().preset(Preset::Convoy);
    let slow = convoy().slow_call(Duration::from_secs(1)).slow_rate(10);
    for (builder, says) in [
        (with(convoy().consecutive_failures(3)), "consecutive_failures: has no input in sampling mode"),
        (with(slow), "slow_rate: has no input in sampling mode"),
        (with(Policy::builder().preset(Preset::Stoplight)), "policy: no trip rule"),
        (with(convoy().recovery_rate(0)), "recovery_rate: must be 1 to 100, but is 0"),
        (with(convoy()).sample_every(Duration::ZERO), "sample_every: must be between 10 ms and 24 h"),
        (with(convoy()).poll_timeout(Duration::MAX), "poll_timeout: must be between 10 ms and 24 h"),
        (Breakerbox::builder().sampling(convoy()), "store: is needed"),
        (
            Breakerbox::builder().consistency(Consistency::Strict).sampling(convoy()),
            "consistency: is of no use",
        ),
    ] {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.starts_with(says), "{error}");
    }
    for policy in [convoy(), Policy::builder(), Policy::builder().preset(Preset::Reminders)] {
        assert!(with(policy).build().is_ok(), "off is what the two rules are by default");
    }
}

#[tokio::test]
async fn a_key_that_can_not_be_is_an_error_and_no_refusal() {
    let sampling = with(Policy::builder()).build().unwrap();
    assert!(sampling.check("").await.is_err());
    assert!(sampling.check(&"x".repeat(2_000)).await.is_err());
    assert!(sampling.check("e1").await.unwrap().is_ok());
    assert!(format!("{sampling:?}").contains("Report"));
}

#[test]
fn without_a_runtime_it_has_a_thread_of_its_own() {
    let sampling = with(Policy::builder()).sample_every(Duration::from_millis(10)).build().unwrap();
    let limit = std::time::Instant::now() + Duration::from_secs(30);
    while sampling.report().ticks == 0 {
        assert!(std::time::Instant::now() < limit, "{:?}", sampling.report());
        std::thread::yield_now();
    }
}
