//! The recovery bound: after an outage of length D, calls flow again within 1.5 s + 0.6 D, twice the longest failed call,
//! and three calls; and never later than the longest cool-off (and those calls).
//!
//! The sweep tries outages from 0.1 s to 12 h, at several traffic rates and latencies, with many seeds.

use std::time::Duration;

use breakerbox_core::{Policy, Timestamp};
use breakerbox_model::delivery::RetrySchedule;

use crate::breakers::Row;
use crate::day::{Recovery, Scenario, run_recovery};
use crate::draws::{generator, uniform};
use crate::faults::{Failure, Faults, Outage};
use crate::measures::percentile;
use crate::population::{Endpoint, Kind};

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(12 * 3_600);
/// Events a second.
pub(crate) const RATES: [f64; 4] = [0.5, 2.0, 20.0, 200.0];
/// How calls fail, and the mean latency of those that do not hang and are not refused.
pub(crate) const CALLS: [(Failure, Duration, &str); 4] = [
    (Failure::Refused, Duration::from_millis(20), "refused, or answered after 20 ms"),
    (Failure::Status, Duration::from_millis(100), "answered after 100 ms"),
    (Failure::Status, Duration::from_secs(1), "answered after 1 s"),
    (Failure::Hang, Duration::from_millis(100), "15 s without an answer, or answered after 100 ms"),
];
/// The number of waiting deliveries from which more make no difference to the circuit.
const ENOUGH: usize = 200;

/// One simulated outage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) outage: Duration,
    pub(crate) rate: f64,
    pub(crate) failure: Failure,
    pub(crate) latency: Duration,
    pub(crate) seed: u64,
}

/// The recoveries from outages of one length.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) outage: Duration,
    pub(crate) runs: usize,
    /// The runs in which the circuit was open at the end of the outage, or opened after it.
    pub(crate) opened: usize,
    /// The median and the longest recovery from outages in which calls failed without hanging.
    pub(crate) median: Option<Duration>,
    pub(crate) worst: Option<Duration>,
    /// The longest recovery from an outage in which calls hung.
    pub(crate) worst_hanging: Option<Duration>,
    /// The largest share of its bound that a recovery took.
    pub(crate) worst_share: f64,
    /// The cases that took longer than their bound, and by how long they took.
    pub(crate) violations: Vec<(Case, Duration, Duration)>,
}

/// Returns the lengths of outages, in logarithmic steps.
pub(crate) fn lengths(steps: u32) -> Vec<Duration> {
    let ratio = LONGEST.as_secs_f64() / SHORTEST.as_secs_f64();
    (0..=steps).map(|step| SHORTEST.mul_f64(ratio.powf(f64::from(step) / f64::from(steps)))).collect()
}

/// Tries one length of outage with every rate, kind of call and seed.
pub(crate) fn step(outage: Duration, policy: &Policy, seeds: u64) -> Step {
    let row = Row::ours("sweep", "", policy.clone());
    let (mut lags, mut hanging) = (Vec::new(), Vec::new());
    let mut step = Step {
        outage,
        runs: 0,
        opened: 0,
        median: None,
        worst: None,
        worst_hanging: None,
        worst_share: 0.0,
        violations: Vec::new(),
    };
    for rate in RATES {
        for (failure, latency, _) in CALLS {
            for seed in 1..=seeds {
                let case = Case { outage, rate, failure, latency, seed };
                let recovery = case.run(&row);
                step.runs += 1;
                let Some(lag) = recovery.lag else { continue };
                let bound = bound(outage, &recovery, policy);
                step.worst_share = step.worst_share.max(lag.as_secs_f64() / bound.as_secs_f64());
                if lag > bound {
                    step.violations.push((case, lag, bound));
                }
                if failure == Failure::Hang { &mut hanging } else { &mut lags }.push(lag);
            }
        }
    }
    step.opened = lags.len() + hanging.len();
    step.median = percentile(&lags, 50);
    step.worst = percentile(&lags, 100);
    step.worst_hanging = percentile(&hanging, 100);
    step
}

/// Returns the longest time that the recovery may take.
fn bound(outage: Duration, recovery: &Recovery, policy: &Policy) -> Duration {
    let calls = 2 * recovery.longest_failed + 3 * recovery.longest_ok;
    plain_bound(outage, policy) + calls
}

/// Returns the bound without the time that calls take.
pub(crate) fn plain_bound(outage: Duration, policy: &Policy) -> Duration {
    (Duration::from_millis(1_500) + outage.mul_f64(0.6)).min(policy.cool_off_max())
}

impl Case {
    fn run(&self, row: &Row) -> Recovery {
        let rng = &mut generator(&[self.seed, 9]);
        // Some calls succeed before, and the outage begins at any time between two of them.
        let from =
            Timestamp::ZERO + Duration::from_secs(5) + uniform(rng, Duration::ZERO, Duration::from_secs(2));
        let until = from + self.outage;
        let outage = Outage { from, until, error_rate: 1.0, failure: self.failure };
        let endpoint = Endpoint {
            kind: Kind::Blipping,
            rate: self.rate,
            latency: self.latency,
            faults: Faults::new(vec![outage], None),
        };
        let scenario = Scenario {
            seed: self.seed,
            endpoints: vec![endpoint],
            length: until.since(Timestamp::ZERO) + Duration::from_secs(1_000),
            in_flight: 64,
            schedule: RetrySchedule::default(),
            enough_waiting: Some(ENOUGH),
        };
        run_recovery(&scenario, row, until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::breakers::{gateway_policy, policy_with};

    #[test]
    fn the_lengths_span_the_range() {
        let lengths = lengths(30);
        assert_eq!(lengths.len(), 31);
        assert_eq!(lengths[0], SHORTEST);
        assert!(lengths[30].abs_diff(LONGEST) < Duration::from_millis(1), "{:?}", lengths[30]);
    }

    #[test]
    fn the_recovery_bound_holds_and_another_policy_violates_it() {
        for outage in lengths(12) {
            let step = step(outage, &gateway_policy(), 3);
            assert!(step.violations.is_empty(), "{:?}: {:?}", step.outage, step.violations.first());
        }
        let slow = policy_with(|builder| builder.cool_off(Duration::from_secs(30)).cool_off_factor(2.0));
        assert!(!step(Duration::from_secs(3), &slow, 1).violations.is_empty());
    }
}
