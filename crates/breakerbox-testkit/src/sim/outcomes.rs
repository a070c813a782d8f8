//! The outcomes of all workers for one circuit, in the order in which they occurred.
//!
//! A fleet in which every process immediately knew every outcome would trip exactly according to these. So they
//! determine whether a trip was right, independently of what the workers reported.

use std::ops::RangeInclusive;
use std::time::Duration;

use breakerbox::Policy;

/// The outcomes of all workers for one circuit.
#[derive(Default)]
pub(super) struct Outcomes(Vec<Outcome>);

#[derive(Clone, Copy)]
struct Outcome {
    at: Duration,
    epoch: u64,
    failed: bool,
}

impl Outcomes {
    pub(super) fn count(&mut self, at: Duration, epoch: u64, failed: bool) {
        self.0.push(Outcome { at, epoch, failed });
    }

    /// Returns whether the outcomes in this epoch met one of the policy's trip conditions (failure rate or
    /// consecutive failures) at any time in this range.
    pub(super) fn broke_a_rule(&self, policy: &Policy, epoch: u64, during: RangeInclusive<Duration>) -> bool {
        let of_epoch: Vec<_> = self.0.iter().filter(|outcome| outcome.epoch == epoch).copied().collect();
        let moments = of_epoch.iter().map(|outcome| outcome.at).filter(|at| during.contains(at));
        moments.chain([*during.start(), *during.end()]).any(|moment| {
            let until = of_epoch.partition_point(|outcome| outcome.at <= moment);
            let before = of_epoch.partition_point(|outcome| outcome.at < moment);
            [&of_epoch[..before], &of_epoch[..until]].into_iter().any(|known| breaks(policy, known, moment))
        })
    }
}

/// Returns whether these outcomes meet one of the policy's trip conditions at `moment`.
fn breaks(policy: &Policy, known: &[Outcome], moment: Duration) -> bool {
    // A window consists of ten buckets, and the oldest leaves it as a whole.
    let window = policy.window();
    let longest = known.partition_point(|outcome| outcome.at + window < moment);
    let shortest = known.partition_point(|outcome| outcome.at + window.mul_f64(0.9) < moment);
    (longest..=shortest).any(|first| {
        let known = &known[first..];
        let (calls, failures) =
            (known.len() as u64, known.iter().filter(|outcome| outcome.failed).count() as u64);
        let run = known.iter().rev().take_while(|outcome| outcome.failed).count() as u64;
        let is_rate = |limit: u8| calls >= policy.min_calls() && failures * 100 >= u64::from(limit) * calls;
        policy.failure_rate().is_some_and(is_rate)
            || policy.consecutive_failures().is_some_and(|limit| run >= limit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_rule_is_broken_by_all_outcomes_together_and_only_then() {
        let policy = Policy::builder().window(ms(10_000)).min_calls(4).failure_rate(60_u64);
        let policy = policy.consecutive_failures(3_u64).build().expect("within the bounds");
        // Outcomes at 1 s, 1.1 s, ..., and whether a trip condition was met at any time between 1.2 s and 2 s.
        for (outcomes, expected) in [
            ("FF", false),
            ("FFF", true),
            ("FFSF", true),
            ("FFSFS", true),
            ("FSSFS", false),
            ("SSFFF", true),
            ("SFFSFFSS", true),
            ("SSFFSFF", false),
            ("FFFSSSSS", true),
        ] {
            let mut all = Outcomes::default();
            for (n, outcome) in (0..).zip(outcomes.chars()) {
                all.count(ms(1_000 + 100 * n), 7, outcome == 'F');
            }
            assert_eq!(all.broke_a_rule(&policy, 7, ms(1_200)..=ms(2_000)), expected, "{outcomes}");
            assert!(!all.broke_a_rule(&policy, 8, ms(1_200)..=ms(2_000)), "{outcomes}, of another epoch");
            assert!(!all.broke_a_rule(&policy, 7, ms(12_000)..=ms(13_000)), "{outcomes}, long ago");
        }
    }
}
