//! How a member shares the ramp of its fleet: when a call needs a place, what the store is asked, and which limit comes next.
//!
//! While the process decides alone, or the store does not have its epoch yet, the ramp is the process's own
//! ([`Ramp`](crate::Ramp)), by the same rules. Nothing here waits, and no place is handed out here: the store has them.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::answers::Moment;
use super::member::Member;
use super::ramp::{GivenPlace, RampRequest, RampState, RampStep, RampView};
use crate::circuit::Asked;
use crate::policy::Policy;
use crate::ramp::FIRST_LIMIT;
use crate::time::Timestamp;
use crate::token::{Epoch, Nonce};
use crate::transitions::LEASE_MARGIN;

/// What a process wants of a ramp, in one request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RampWish {
    /// The epoch of the ramp.
    pub epoch: Epoch,
    /// Places to give back.
    pub give: Vec<GivenPlace>,
    /// The limit that follows.
    pub replace: Option<RampStep>,
    /// Tokens of places to take.
    pub take: Vec<Nonce>,
}

/// What a reply means to the process that asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RampNews {
    /// The ramp is over, or another epoch has begun: no call needs a place any more.
    Over,
    /// The ramp goes on. If there is a step, the store should be asked to take it.
    GoesOn(Option<RampStep>),
}

impl RampState {
    /// The step that follows from what the ramp is, and from so many failures that it has not heard of. None: it stays.
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

    /// The step that follows from so many failures. None: the limit is as low as it can be, and its round has not begun.
    #[must_use]
    pub fn halved(&self, failures: u32) -> Option<RampStep> {
        let limit = self.limit?;
        let halved = limit.checked_shr(failures).unwrap_or(0).max(FIRST_LIMIT);
        let changes = halved != limit || self.successes > 0;
        changes.then_some(RampStep { expected: self.step, limit: Some(halved) })
    }
}

impl Member {
    /// Whether an ordinary call needs a place of the fleet's ramp. A circuit that is open in this process alone refuses by itself,
    /// and its one probe at a time needs none.
    pub(super) fn needs_place(&self, policy: &Policy) -> bool {
        self.ramps_in_fleet(policy) && !self.is_open_locally()
    }

    /// Whether the circuit ramps, and the ramp is the fleet's.
    fn ramps_in_fleet(&self, policy: &Policy) -> bool {
        let in_fleet =
            self.link.as_ref().is_some_and(|link| !link.is_exclusive && !link.alone && link.seen.is_some());
        in_fleet
            && self.circuit.ramp().is_some()
            && policy.ramp_cap().is_some_and(|cap| cap > FIRST_LIMIT)
            && self.is_published()
    }

    /// Admits an ordinary call by this process's own ramp: where nobody else uses the store.
    pub fn admit_on_own_ramp(&mut self, policy: &Policy, now: Timestamp) -> Asked {
        self.admit(policy, now)
    }

    /// The request to the store for what is wanted. None: no call needs a place any more, or another epoch has begun.
    #[must_use]
    pub fn ramp_request(&self, key: &Arc<str>, wish: RampWish, policy: &Policy) -> Option<RampRequest> {
        if self.circuit.epoch() != wish.epoch || !self.ramps_in_fleet(policy) {
            return None;
        }
        let RampWish { epoch, give, replace, take } = wish;
        let place_for = policy.probe_timeout() + LEASE_MARGIN;
        Some(RampRequest {
            key: Arc::clone(key),
            epoch,
            first_limit: FIRST_LIMIT,
            // A ramp that the store has let go of is judged by this: it is over after a window without a refusal.
            begun_at: self.circuit.record().changed_at,
            give,
            replace,
            take,
            place_for,
            keep_for: policy.window().saturating_mul(2).max(place_for),
        })
    }

    /// Takes in the store's reply about the ramp of an epoch. `refused`: not all wanted places were taken; `failures`: how many
    /// failures the limit does not know of yet.
    pub fn ramp_replied(
        &mut self,
        epoch: Epoch,
        view: &RampView,
        refused: bool,
        failures: u32,
        at: Moment<'_>,
    ) -> RampNews {
        if self.circuit.epoch() != epoch || self.circuit.ramp().is_none() {
            return RampNews::Over;
        }
        if view.state.limit.is_none() {
            self.circuit.end_ramp();
            return RampNews::Over;
        }
        let next = view.state.next_step(failures, at.policy, at.now);
        if refused {
            // If the store is lost, the process's own ramp goes on from here.
            self.circuit.note_ramp_refusal(at.now);
        }
        RampNews::GoesOn(next)
    }
}
