//! The trip rules: the conditions on a window's totals that trip a circuit.
//!
//! All comparisons include equality and are exact: no rounding, no floating point.

use core::fmt;

use crate::policy::Policy;
use crate::time::micros;
use crate::window::Totals;

/// A rule that can trip a circuit. Rules that the policy does not set are off.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TripRule {
    /// At least `min_calls` calls, of which at least the percentage `failure_rate` failed.
    FailureRate,
    /// At least as many failures as the policy's `failures`.
    Failures,
    /// The latest outcomes are all failures, at least `consecutive_failures` of them, however far apart.
    ConsecutiveFailures,
    /// At least `min_calls` calls, whose mean latency is at least the policy's `mean_latency`.
    MeanLatency,
    /// At least `min_calls` calls, of which at least the percentage `slow_rate` was slow.
    SlowRate,
}

impl TripRule {
    /// All rules, in the order of evaluation. The first rule that is met is reported as the cause.
    pub const ALL: [Self; 5] =
        [Self::FailureRate, Self::Failures, Self::ConsecutiveFailures, Self::MeanLatency, Self::SlowRate];

    /// Returns the name that policy files and reports use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FailureRate => "failure_rate",
            Self::Failures => "failures",
            Self::ConsecutiveFailures => "consecutive_failures",
            Self::MeanLatency => "mean_latency",
            Self::SlowRate => "slow_rate",
        }
    }

    /// Returns the first of the policy's rules that these totals meet; `None` if they meet none.
    #[must_use]
    pub fn first_broken(policy: &Policy, totals: &Totals) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.holds(policy, totals))
    }

    /// Whether a rate or a mean latency is at its limit, regardless of `min_calls`. A sum of totals is at a limit only
    /// if at least one of the summed totals is (the mediant inequality).
    #[must_use]
    pub(crate) fn is_at_limit(policy: &Policy, totals: &Totals) -> bool {
        let calls = totals.calls();
        let is_reached =
            |part: u64, limit: Option<u8>| part > 0 && limit.is_some_and(|limit| reaches(part, calls, limit));
        is_reached(totals.failures, policy.failure_rate())
            || is_reached(totals.slow, policy.slow_rate())
            || mean_is_reached(policy, totals)
    }

    /// Whether further successes, each below the policy's [harmless latency](Policy::harmless_latency), could cause a
    /// rule to be met. This is possible if they bring the number of calls to the `min_calls` that rates and mean
    /// latency need. If false, the caller may count such successes itself and add them later.
    #[must_use]
    pub fn successes_could_break(policy: &Policy, totals: &Totals) -> bool {
        let calls = totals.calls();
        let with_more = policy.min_calls().max(calls.saturating_add(1));
        let could_reach = |part: u64, limit: Option<u8>| {
            part > 0 && limit.is_some_and(|limit| reaches(part, with_more, limit))
        };
        could_reach(totals.failures, policy.failure_rate())
            || could_reach(totals.slow, policy.slow_rate())
            || mean_is_reached(policy, totals)
    }

    /// Whether the `failures` rule is met. Unlike for other rules, further reports cannot make this rule unmet.
    #[must_use]
    pub(crate) fn holds_for_good(policy: &Policy, totals: &Totals) -> bool {
        Self::Failures.holds(policy, totals)
    }

    fn holds(self, policy: &Policy, totals: &Totals) -> bool {
        let calls = totals.calls();
        let enough = calls >= policy.min_calls();
        match self {
            Self::FailureRate => {
                enough && policy.failure_rate().is_some_and(|limit| reaches(totals.failures, calls, limit))
            }
            Self::Failures => policy.failures().is_some_and(|limit| totals.failures >= limit),
            Self::ConsecutiveFailures => {
                policy.consecutive_failures().is_some_and(|limit| totals.failure_run >= limit)
            }
            Self::MeanLatency => enough && mean_is_reached(policy, totals),
            Self::SlowRate => {
                enough && policy.slow_rate().is_some_and(|limit| reaches(totals.slow, calls, limit))
            }
        }
    }
}

impl fmt::Display for TripRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether the mean latency is at least the policy's limit. False without calls.
fn mean_is_reached(policy: &Policy, totals: &Totals) -> bool {
    let calls = totals.calls();
    policy.mean_latency().is_some_and(|limit| {
        calls > 0 && totals.latency_sum.as_micros() >= u128::from(micros(limit)) * u128::from(calls)
    })
}

/// Whether `part` is at least `percent` of `whole`.
pub(crate) fn reaches(part: u64, whole: u64, percent: u8) -> bool {
    u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::policy::{Policy, PolicyBuilder};

    fn only(set: impl FnOnce(PolicyBuilder) -> PolicyBuilder) -> Policy {
        let none = Policy::builder().failure_rate(None).consecutive_failures(None);
        set(none).min_calls(10).build().unwrap()
    }

    fn totals(successes: u64, failures: u64, slow: u64, mean_ms: u64, failure_run: u64) -> Totals {
        let latency_sum = Duration::from_millis(mean_ms) * u32::try_from(successes + failures).unwrap();
        Totals { successes, failures, slow, latency_sum, failure_run }
    }

    #[test]
    fn each_rule_includes_equality_and_respects_min_calls() {
        let rate = only(|p| p.failure_rate(50));
        let failures = only(|p| p.failures(5));
        let run = only(|p| p.consecutive_failures(3));
        let mean = only(|p| p.mean_latency(Duration::from_millis(100)));
        let slow = only(|p| p.slow_call(Duration::from_secs(1)).slow_rate(30));
        let table = [
            ("at the rate", &rate, totals(5, 5, 0, 0, 0), true),
            ("below the rate", &rate, totals(6, 5, 0, 0, 0), false),
            ("rate, too few calls", &rate, totals(0, 9, 0, 0, 9), false),
            ("at the count", &failures, totals(90, 5, 0, 0, 0), true),
            ("below the count", &failures, totals(0, 4, 0, 0, 4), false),
            ("the count needs no min_calls", &failures, totals(0, 5, 0, 0, 5), true),
            ("at the run", &run, totals(97, 3, 0, 0, 3), true),
            ("below the run", &run, totals(0, 9, 0, 0, 2), false),
            ("the run needs no min_calls", &run, totals(0, 3, 0, 0, 3), true),
            ("at the mean", &mean, totals(10, 0, 0, 100, 0), true),
            ("below the mean", &mean, totals(10, 0, 0, 99, 0), false),
            ("mean, too few calls", &mean, totals(9, 0, 0, 500, 0), false),
            ("at the slow rate", &slow, totals(7, 3, 3, 0, 0), true),
            ("below the slow rate", &slow, totals(7, 3, 2, 0, 0), false),
            ("slow rate, too few calls", &slow, totals(9, 0, 9, 0, 0), false),
        ];
        for (what, policy, totals, holds) in table {
            assert_eq!(TripRule::first_broken(policy, &totals).is_some(), holds, "{what}");
        }
    }

    /// Adds many further successes one by one, to verify that the shortcut never returns false if one of them would
    /// trip the circuit.
    #[test]
    fn successes_that_could_break_a_rule_are_foretold() {
        let limit = Duration::from_millis(100);
        let policies = [
            only(|p| p.failure_rate(50)),
            only(|p| p.failure_rate(1)),
            only(|p| p.mean_latency(limit)),
            only(|p| p.slow_call(limit).slow_rate(30)),
            only(|p| p.failures(3).consecutive_failures(3)),
        ];
        let mut foretold = [0, 0];
        for policy in &policies {
            for successes in 0..12 {
                for failures in 0..12 {
                    for slow in [0, failures / 2, failures] {
                        for mean_ms in [0, 99, 100, 150] {
                            let start = totals(successes, failures, slow, mean_ms, failures);
                            if TripRule::first_broken(policy, &start).is_some() {
                                continue;
                            }
                            let trips = (1..40).any(|more| {
                                let latency_sum = start.latency_sum + Duration::from_millis(99) * more;
                                let more = Totals {
                                    successes: successes + u64::from(more),
                                    failure_run: 0,
                                    latency_sum,
                                    ..start
                                };
                                TripRule::first_broken(policy, &more).is_some()
                            });
                            let could = TripRule::successes_could_break(policy, &start);
                            assert!(could || !trips, "{policy:?} {start:?}");
                            foretold[usize::from(could)] += 1;
                        }
                    }
                }
            }
        }
        assert!(foretold[0] > foretold[1], "the shortcut is worth having: {foretold:?}");
    }

    #[test]
    fn an_empty_window_breaks_no_rule() {
        let policy = only(|p| p.failure_rate(1).mean_latency(Duration::from_millis(1)));
        assert_eq!(TripRule::first_broken(&policy, &Totals::default()), None);
    }

    #[test]
    fn the_rule_named_is_the_first_of_the_table() {
        let policy = only(|p| p.failure_rate(50).failures(5).consecutive_failures(5));
        let broken = |t| TripRule::first_broken(&policy, &t);
        assert_eq!(broken(totals(0, 10, 0, 0, 10)), Some(TripRule::FailureRate));
        assert_eq!(broken(totals(0, 5, 0, 0, 5)), Some(TripRule::Failures));
        assert_eq!(broken(totals(5, 4, 0, 0, 4)), None);
    }

    #[test]
    fn comparisons_do_not_overflow() {
        let policy = only(|p| p.failure_rate(100).mean_latency(Duration::from_secs(86_400)));
        let huge = Totals { successes: 1, failures: u64::MAX - 1, ..Totals::default() };
        assert_eq!(TripRule::first_broken(&policy, &huge), None);
    }
}
