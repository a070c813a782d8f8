//! Rows 6 to 9 of the table: the effect of a probe's outcome. A late outcome has none.

use crate::change::{Cause, Step};
use crate::outcome::{Outcome, OutcomeKind};
use crate::policy::Policy;
use crate::record::{Record, State};
use crate::time::Timestamp;
use crate::token::{Epoch, Nonce, RandomBits};

impl Record {
    /// Settles the probe with this nonce, which was admitted in this epoch. Returns `None` if the outcome is late and
    /// has no effect (row 9 of the transition table).
    #[must_use]
    pub fn settle_probe(
        &self,
        epoch: Epoch,
        nonce: Nonce,
        outcome: &Outcome,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) -> Option<Step> {
        let lease = self.lease.filter(|lease| lease.nonce == nonce)?;
        if !self.is_automatic() || self.state != State::HalfOpen || self.epoch != epoch {
            return None;
        }
        let mut next = Self { lease: None, ..self.clone() };
        match outcome.kind {
            OutcomeKind::Ignored => Some(Step::within_epoch(next, draw)),
            _ if !lease.is_live(now) => None,
            OutcomeKind::Failure => {
                next.failing_since.get_or_insert(now);
                Some(next.tripped(Cause::ProbeFailed, outcome.into(), policy, draw, now))
            }
            OutcomeKind::Success => {
                next.last_success = Some(now);
                next.failing_since = None;
                next.probe_successes = next.probe_successes.saturating_add(1);
                if next.probe_successes < policy.probes() {
                    return Some(Step::within_epoch(next, draw));
                }
                Some(next.closed(Cause::ProbesSucceeded, draw, now))
            }
        }
    }

    /// Returns the step to closed. The number of trips is kept until the trips are forgiven.
    pub(super) fn closed(&self, cause: Cause, draw: RandomBits, now: Timestamp) -> Step {
        let next = Self {
            state: State::Closed,
            retry_at: None,
            lease: None,
            evidence: None,
            last_success: Some(now),
            failing_since: None,
            ..self.clone()
        };
        Step::transition(self, next, cause, draw, now)
    }
}
