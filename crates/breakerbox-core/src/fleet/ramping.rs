//! A member's part in its fleet's ramp: whether a call needs a slot, the request to the store, and the next limit.
//!
//! While the process decides without the store, or the store does not have its epoch yet, the process uses its own
//! ramp ([`Ramp`](crate::Ramp)), with the same rules. No function here blocks or grants a slot: only the store grants
//! them.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::member::Member;
use super::ramp::{RampRequest, RampState, RampStep, RampView, ReleasedSlot};
use super::results::StepContext;
use crate::circuit::AcquireResult;
use crate::policy::Policy;
use crate::ramp::FIRST_LIMIT;
use crate::time::Timestamp;
use crate::token::{Epoch, Nonce};
use crate::transitions::LEASE_MARGIN;

/// The parts of a ramp request that the process chooses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RampDemand {
    /// The epoch that the ramp belongs to.
    pub epoch: Epoch,
    /// The slots to release.
    pub give: Vec<ReleasedSlot>,
    /// The next limit; `None` leaves the limit unchanged.
    pub replace: Option<RampStep>,
    /// The tokens of slots to take.
    pub take: Vec<Nonce>,
}

/// The effect of the store's reply on the process that made the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RampUpdate {
    /// The ramp is over, or another epoch has begun. Calls no longer need slots in this ramp.
    Over,
    /// The ramp continues. `Some` is a new limit, which must be sent to the store in a request.
    GoesOn(Option<RampStep>),
}

impl RampState {
    /// Returns the ramp's next step, based on its state and on failures that the state does not include. `None`
    /// leaves the limit unchanged.
    #[must_use]
    pub fn next_step(&self, failures: u32, policy: &Policy, now: Timestamp) -> Option<RampStep> {
        let limit = self.limit?;
        let over = Some(RampStep { expected: self.step, limit: None });
        let Some(cap) = policy.ramp_cap().filter(|cap| limit < *cap) else { return over };
        if now.since(self.refused_at) >= policy.window() {
            return over;
        }
        if failures > 0 {
            return self.halved(failures);
        }
        if self.successes < limit {
            return None;
        }
        let doubled = limit.saturating_mul(2);
        Some(RampStep { expected: self.step, limit: Some(doubled).filter(|doubled| *doubled < cap) })
    }

    /// Returns the step after this many failures, which halves the limit for each failure. `None` if the limit is at
    /// its minimum and no call has succeeded since the limit was last replaced.
    #[must_use]
    pub fn halved(&self, failures: u32) -> Option<RampStep> {
        let limit = self.limit?;
        let halved = limit.checked_shr(failures).unwrap_or(0).max(FIRST_LIMIT);
        let changes = halved != limit || self.successes > 0;
        changes.then_some(RampStep { expected: self.step, limit: Some(halved) })
    }
}

impl Member {
    /// Whether an ordinary call needs a slot in the fleet's ramp. While this process's local circuit is open, calls
    /// need no slot, because the local circuit admits only its own probe.
    pub(super) fn needs_slot(&self, policy: &Policy) -> bool {
        self.ramps_in_fleet(policy) && !self.is_open_locally()
    }

    /// Whether the circuit is ramping up, and the fleet's ramp in the store limits the calls.
    fn ramps_in_fleet(&self, policy: &Policy) -> bool {
        let in_fleet =
            self.link.as_ref().is_some_and(|link| !link.is_exclusive && !link.alone && link.seen.is_some());
        in_fleet
            && self.circuit.ramp().is_some()
            && policy.ramp_cap().is_some_and(|cap| cap > FIRST_LIMIT)
            && self.is_published()
    }

    /// Admits an ordinary call by this process's own ramp, for a store that no other process uses.
    pub fn admit_on_own_ramp(&mut self, policy: &Policy, now: Timestamp) -> AcquireResult {
        self.admit(policy, now)
    }

    /// Returns the request to send to the store; `None` if calls no longer need slots, or another epoch has begun.
    #[must_use]
    pub fn ramp_request(&self, key: &Arc<str>, wish: RampDemand, policy: &Policy) -> Option<RampRequest> {
        if self.circuit.epoch() != wish.epoch || !self.ramps_in_fleet(policy) {
            return None;
        }
        let RampDemand { epoch, give, replace, take } = wish;
        let slot_for = policy.probe_timeout() + LEASE_MARGIN;
        Some(RampRequest {
            key: Arc::clone(key),
            epoch,
            first_limit: FIRST_LIMIT,
            // Decisive if the store has dropped the ramp: a ramp is over after a window without a refusal.
            begun_at: self.circuit.record().changed_at,
            give,
            replace,
            take,
            slot_for,
            keep_for: policy.window().saturating_mul(2).max(slot_for),
        })
    }

    /// Handles the store's reply about the ramp of `epoch`. `refused` states whether some requested slots were not
    /// granted. `failures` is the number of failures for which the limit has not been lowered yet.
    pub fn ramp_replied(
        &mut self,
        epoch: Epoch,
        view: &RampView,
        refused: bool,
        failures: u32,
        at: StepContext<'_>,
    ) -> RampUpdate {
        if self.circuit.epoch() != epoch || self.circuit.ramp().is_none() {
            return RampUpdate::Over;
        }
        if view.state.limit.is_none() {
            self.circuit.end_ramp();
            return RampUpdate::Over;
        }
        let next = view.state.next_step(failures, at.policy, at.now);
        if refused {
            // If the store becomes unavailable, this process's own ramp continues from here.
            self.circuit.note_ramp_refusal(at.now);
        }
        RampUpdate::GoesOn(next)
    }
}
