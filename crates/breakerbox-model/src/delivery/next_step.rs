//! The next step of a delivery after an attempt.

use std::time::Duration;

use breakerbox_core::{Epoch, Timestamp};

use super::{Disposition, ReplyEffect, RetrySchedule};
use crate::values::FailReason;

/// The next step for a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextStep {
    /// Nothing follows: the receiver accepted the delivery.
    Delivered,
    /// Nothing follows: the delivery failed for this reason.
    Failed(FailReason),
    /// Another attempt follows.
    Retry {
        /// When the next attempt is due, by the store's clock.
        due_at: Timestamp,
        /// Whether the failed attempt counts against the retry schedule. If so, a new wait begins, in which the
        /// delivery may be brought forward once.
        uses_attempt: bool,
        /// The epoch of the outage in which this attempt was a failed probe. `None`: it was not a failed probe.
        failed_probe: Option<Epoch>,
    },
}

/// An attempt that has ended, with the facts that the next step depends on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AttemptContext {
    /// The number of attempts used before this attempt.
    pub attempts: u32,
    /// The original due time, if the delivery was brought forward to probe a circuit.
    pub pulled_from: Option<Timestamp>,
    /// The epoch of the outage in which the attempt was a probe. `None`: it was not a probe.
    pub probed: Option<Epoch>,
    /// A random sample from -1 to 1, for the retry delay's jitter.
    pub jitter: f64,
}

impl AttemptContext {
    /// Returns the next step after an attempt with this effect. If the delivery was brought forward for a probe and
    /// the probe failed, the delivery is due at its original time, and the attempt does not count against the retry
    /// schedule.
    #[must_use]
    pub fn next(&self, effect: &ReplyEffect, schedule: &RetrySchedule, now: Timestamp) -> NextStep {
        match effect.disposition {
            Disposition::Delivered => NextStep::Delivered,
            Disposition::Rejected => NextStep::Failed(FailReason::Rejected),
            Disposition::Gone => NextStep::Failed(FailReason::Gone),
            Disposition::PutOff => {
                let due_at = self.pulled_from.unwrap_or(now);
                NextStep::Retry { due_at, uses_attempt: false, failed_probe: None }
            }
            Disposition::Retry => {
                let asked = effect.retry_after.or(effect.sleep);
                if let Some(due_at) = self.pulled_from {
                    return NextStep::Retry { due_at, uses_attempt: false, failed_probe: self.probed };
                }
                match schedule.due_after(self.attempts.saturating_add(1), self.jitter, asked) {
                    None => NextStep::Failed(FailReason::Exhausted),
                    Some(wait) => {
                        NextStep::Retry { due_at: now + wait, uses_attempt: true, failed_probe: self.probed }
                    }
                }
            }
        }
    }
}

/// Corrects the due time of a waiting delivery, which may have been set while the clock was ahead. The result
/// is the earlier one of `due_at` and a bound. The bound is now plus the retry delay after `attempts`, or
/// `not_before` if that is later.
#[must_use]
pub fn bounded_due(
    due_at: Timestamp,
    attempts: u32,
    not_before: Option<Timestamp>,
    schedule: &RetrySchedule,
    now: Timestamp,
) -> Timestamp {
    let wait = match attempts {
        0 => Duration::ZERO,
        attempts => schedule.due_after(attempts, 1.0, None).unwrap_or_default(),
    };
    due_at.min((now + wait).max(not_before.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::{Fault, LocalFault, Reply, ResponseRules};

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);
    const LATER: Timestamp = Timestamp::from_millis(9_000_000);
    const OUTAGE: Epoch = Epoch(7);

    fn answered(status: u16, retry_after: Option<u64>) -> Reply {
        Reply::Answered { status, retry_after: retry_after.map(Duration::from_secs) }
    }

    fn next(context: AttemptContext, reply: Reply) -> NextStep {
        let effect = ResponseRules::default().of(reply, context.probed.is_some(), Duration::from_secs(30));
        context.next(&effect, &RetrySchedule::default(), NOW)
    }

    #[test]
    fn a_wait_is_bounded_by_its_own_length() {
        let (schedule, hours) =
            (RetrySchedule::default(), |hours: u64| NOW + Duration::from_secs(3_600 * hours));
        let seconds = |seconds: u64| NOW + Duration::from_secs(seconds);
        for (due_at, attempts, not_before, expected) in [
            (hours(6), 0, None, NOW),
            (hours(6), 0, Some(hours(6)), hours(6)),
            (hours(6), 0, Some(hours(2)), hours(2)),
            (hours(6), 1, None, seconds(5) + Duration::from_millis(500)),
            (seconds(3), 1, None, seconds(3)),
            (hours(6), 2, Some(Timestamp::ZERO), seconds(330)),
            (hours(6), 99, None, NOW),
        ] {
            let due = bounded_due(due_at, attempts, not_before, &schedule, NOW);
            assert_eq!(due, expected, "{due_at:?} after {attempts}");
        }
    }

    #[test]
    fn each_attempt_has_its_end() {
        let first = AttemptContext { attempts: 0, pulled_from: None, probed: None, jitter: 0.0 };
        let last = AttemptContext { attempts: 7, ..first };
        let probe = AttemptContext { probed: Some(OUTAGE), ..first };
        let pulled = AttemptContext { pulled_from: Some(LATER), ..probe };
        let retry = |seconds: u64, failed_probe| NextStep::Retry {
            due_at: NOW + Duration::from_secs(seconds),
            uses_attempt: true,
            failed_probe,
        };
        let put_off = |due_at| NextStep::Retry { due_at, uses_attempt: false, failed_probe: None };
        for (context, reply, expected) in [
            (first, answered(204, None), NextStep::Delivered),
            (first, answered(422, None), NextStep::Failed(FailReason::Rejected)),
            (first, answered(410, None), NextStep::Failed(FailReason::Gone)),
            (first, answered(500, None), retry(5, None)),
            (first, answered(503, Some(90)), retry(90, None)),
            (first, answered(429, Some(90)), retry(90, None)),
            (AttemptContext { attempts: 1, ..first }, answered(500, None), retry(300, None)),
            (AttemptContext { jitter: 1.0, attempts: 1, ..first }, answered(500, None), retry(330, None)),
            (last, Reply::Failed(Fault::Timeout), NextStep::Failed(FailReason::Exhausted)),
            (last, answered(200, None), NextStep::Delivered),
            (probe, Reply::Failed(Fault::Connect), retry(5, Some(OUTAGE))),
            (
                pulled,
                Reply::Failed(Fault::Connect),
                NextStep::Retry { due_at: LATER, uses_attempt: false, failed_probe: Some(OUTAGE) },
            ),
            (last, Reply::Failed(Fault::Local(LocalFault::Descriptors)), put_off(NOW)),
            (pulled, Reply::Failed(Fault::Local(LocalFault::Pause)), put_off(LATER)),
            (pulled, answered(200, None), NextStep::Delivered),
            (pulled, answered(400, None), NextStep::Failed(FailReason::Rejected)),
        ] {
            assert_eq!(next(context, reply), expected, "{context:?} {reply:?}");
        }
    }
}
