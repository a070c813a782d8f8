//! The evaluation of one circuit at one tick, by the leader of a fleet in sampling mode.
//!
//! The rules are those of [`Record::sample`]. A record in a store is written at transitions only, so the leader keeps
//! here what happens in between: the latest success of closed circuits, and the start of their current failures,
//! which [`Policy::disable_min`] needs. A new leader starts without this memory and errs in favour of the
//! destination: it may disable a circuit later than an earlier leader would have, and never earlier.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::time::Duration;

use crate::change::Step;
use crate::policy::Policy;
use crate::record::{LatestOutcomes, Record, State};
use crate::time::Timestamp;
use crate::token::RandomBits;
use crate::transitions::{MissingLatencySum, Sample};

/// For each closed circuit, the latest success and the first failure after it, as this leader has seen them.
#[derive(Clone, Debug, Default)]
pub struct LatestSuccesses(BTreeMap<Arc<str>, Latest>);

#[derive(Clone, Copy, Debug)]
struct Latest {
    outcomes: LatestOutcomes,
    /// The time after which the outcomes are too old to be used, so that the entry can be removed.
    keep_until: Timestamp,
}

impl LatestSuccesses {
    /// Evaluates a sample of one circuit. Returns the step to swap in; `None` if the record stays unchanged. `record`
    /// is `None` if the store has no record for the circuit.
    ///
    /// # Errors
    /// If the policy needs latencies and the sample contains none.
    pub fn evaluate(
        &mut self,
        key: &Arc<str>,
        record: Option<&Record>,
        sample: &Sample,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) -> Result<Option<Step>, MissingLatencySum> {
        let rebased = record.and_then(|record| record.rebased_in_fleet(draw, now));
        let is_rebased = rebased.is_some();
        let mut base = match (rebased, record) {
            (Some(rebased), _) => rebased,
            (None, Some(record)) => record.clone(),
            (None, None) => Record::new(None, draw, now),
        };
        let remembers = matters(policy) && base.is_automatic() && base.state == State::Closed;
        if remembers {
            // A closed circuit's record does not show failures: only the leader has seen those since the record was
            // written.
            let seen = self.0.get(key).map(|latest| latest.outcomes).unwrap_or_default();
            base.last_success = base.last_success.max(seen.last_success);
            base.failing_since = seen.failing_since;
        }
        if let Some(step) = base.sample(sample, policy, draw, now)? {
            return Ok(Some(step));
        }
        if remembers && (sample.successes > 0 || sample.failures > 0) {
            let keep_for = policy.disable_min().saturating_mul(2).saturating_add(policy.window());
            let outcomes = base.latest_outcomes_with(sample, now);
            self.0.insert(Arc::clone(key), Latest { outcomes, keep_until: now + keep_for });
        }
        // This is not a transition, but it corrects the times in the record.
        Ok((is_rebased && base.state != State::Closed).then_some(Step { record: base, change: None }))
    }

    /// Removes entries that are too old to be used, so that memory does not grow as keys come and go.
    pub fn forget(&mut self, now: Timestamp) {
        self.0.retain(|_, latest| now < latest.keep_until);
    }
}

/// Whether the policy needs the time for which a circuit has been failing, which is so if `disable_after` is set
/// and `disable_min` is above zero.
fn matters(policy: &Policy) -> bool {
    policy.disable_after().is_some() && policy.disable_min() > Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::CircuitStatus;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn policy() -> Policy {
        let policy = Policy::builder().failures(3).failure_rate(None).window(HOUR / 60).jitter(0);
        policy
            .cool_off(Duration::from_secs(30))
            .disable_after(1)
            .disable_min(HOUR * 5)
            .build_for_sampling()
            .unwrap()
    }

    fn evaluated(
        known: &mut LatestSuccesses,
        record: Option<&Record>,
        counts: (u64, u64),
        hours: u32,
    ) -> Option<Step> {
        let sample =
            Sample { successes: counts.0, failures: counts.1, latency_sum: None, ..Sample::default() };
        known
            .evaluate(&"e1".into(), record, &sample, &policy(), RandomBits(u128::from(hours) + 1), at(hours))
            .unwrap()
    }

    fn at(hours: u32) -> Timestamp {
        Timestamp::from_millis(1_000_000_000) + HOUR * hours
    }

    fn status(step: Option<Step>) -> Option<CircuitStatus> {
        step.map(|step| step.record.status())
    }

    #[test]
    fn outcomes_between_transitions_are_remembered() {
        for (failed_at, to) in [(1, CircuitStatus::Disabled), (2, CircuitStatus::Open)] {
            let mut known = LatestSuccesses::default();
            assert_eq!(evaluated(&mut known, None, (1, 0), 0), None);
            assert_eq!(evaluated(&mut known, None, (0, 1), failed_at), None);
            let step = evaluated(&mut known, None, (0, 3), 6);
            assert_eq!(step.as_ref().unwrap().record.last_success, Some(at(0)));
            assert_eq!(status(step), Some(to), "failing since {failed_at} h");
        }
        let mut known = LatestSuccesses::default();
        assert_eq!(evaluated(&mut known, None, (0, 1), 0), None);
        assert_eq!(evaluated(&mut known, None, (1, 0), 5), None);
        assert_eq!(
            status(evaluated(&mut known, None, (0, 3), 6)),
            Some(CircuitStatus::Open),
            "a success came between"
        );
    }

    #[test]
    fn a_circuit_that_never_succeeded_has_no_latest_success() {
        let mut known = LatestSuccesses::default();
        assert_eq!(evaluated(&mut known, None, (0, 1), 0), None);
        let record = evaluated(&mut known, None, (0, 3), 6).unwrap().record;
        assert_eq!((record.last_success, record.failing_since), (None, Some(at(0))));
        assert_eq!(record.status(), CircuitStatus::Disabled);
    }

    #[test]
    fn who_takes_over_can_not_know_and_disables_nothing_too_early() {
        let mut known = LatestSuccesses::default();
        let open = evaluated(&mut known, None, (0, 3), 0).unwrap().record;
        assert_eq!(open.status(), CircuitStatus::Open);
        let closed = Record { state: State::Closed, ..open };
        let mut taken_over = LatestSuccesses::default();
        assert_eq!(status(evaluated(&mut taken_over, Some(&closed), (0, 3), 20)), Some(CircuitStatus::Open));
        let mut in_office = LatestSuccesses::default();
        assert_eq!(evaluated(&mut in_office, Some(&closed), (0, 1), 10), None);
        assert_eq!(
            status(evaluated(&mut in_office, Some(&closed), (0, 3), 20)),
            Some(CircuitStatus::Disabled)
        );
    }

    #[test]
    fn a_clock_that_stepped_back_is_put_right_where_it_matters() {
        let mut known = LatestSuccesses::default();
        let open = evaluated(&mut known, None, (0, 3), 10).unwrap().record;
        let step = evaluated(&mut known, Some(&open), (0, 0), 3).unwrap();
        assert_eq!((step.change, step.record.status()), (None, CircuitStatus::Open));
        assert_eq!(step.record.retry_at.unwrap().since(step.record.changed_at), Duration::from_secs(30));
    }

    #[test]
    fn old_successes_are_let_go() {
        let mut known = LatestSuccesses::default();
        evaluated(&mut known, None, (1, 0), 0);
        known.forget(at(9));
        assert_eq!(known.0.len(), 1);
        known.forget(at(11));
        assert_eq!(known.0.len(), 0);
    }
}
