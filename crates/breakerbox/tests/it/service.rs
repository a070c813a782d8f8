//! A test service: a registry with a clock that tests set, and a list of all changes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use breakerbox::{
    Breakerbox, BreakerboxBuilder, Circuit, CircuitChange, CircuitStatus, ManualClock, Policy, PolicyBuilder,
};

pub(crate) struct Service {
    pub(crate) breakers: Breakerbox,
    pub(crate) clock: ManualClock,
    changes: Arc<Mutex<Vec<CircuitChange>>>,
}

/// Returns a policy that trips after 3 consecutive failures, closes after one probe, and has no ramp.
pub(crate) fn simple() -> PolicyBuilder {
    let policy =
        Policy::builder().failure_rate(None).consecutive_failures(3).jitter(0).probes(1).ramp_cap(None);
    policy.cool_off(secs(30)).cool_off_factor(2.0)
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Service {
    pub(crate) fn new(policy: &PolicyBuilder) -> Self {
        Self::with(policy, |builder| builder)
    }

    pub(crate) fn with(
        policy: &PolicyBuilder,
        configure: impl FnOnce(BreakerboxBuilder) -> BreakerboxBuilder,
    ) -> Self {
        let clock = ManualClock::new();
        let changes = Arc::new(Mutex::new(Vec::new()));
        let event = Arc::clone(&changes);
        let builder = Breakerbox::builder()
            .policy(policy.build().unwrap())
            .clock(clock.clone())
            .observer(move |change| event.lock().unwrap().push(change.clone()));
        Self { breakers: configure(builder).build(), clock, changes }
    }

    pub(crate) fn circuit(&self, key: &str) -> Circuit {
        self.breakers.circuit(key).unwrap()
    }

    /// Returns a circuit that has just tripped.
    pub(crate) fn tripped(&self, key: &str) -> Circuit {
        let circuit = self.circuit(key);
        fail(&circuit, 3);
        assert_eq!(circuit.status(), CircuitStatus::Open);
        circuit
    }

    /// Returns a circuit whose cool-off is over, so that the next acquire probes.
    pub(crate) fn tripped_and_cooled(&self, key: &str) -> Circuit {
        let circuit = self.tripped(key);
        self.clock.advance(secs(30));
        circuit
    }

    /// Returns the keys and new states of all changes so far.
    pub(crate) fn changes(&self) -> Vec<(String, CircuitStatus)> {
        self.changes.lock().unwrap().iter().map(|c| (c.key.to_string(), c.change.to)).collect()
    }
}

#[track_caller]
pub(crate) fn fail(circuit: &Circuit, times: u32) {
    for _ in 0..times {
        circuit.try_acquire().unwrap().failure();
    }
}

#[track_caller]
pub(crate) fn succeed(circuit: &Circuit, times: u32) {
    for _ in 0..times {
        circuit.try_acquire().unwrap().success();
    }
}
