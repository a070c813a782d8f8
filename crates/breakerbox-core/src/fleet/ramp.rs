//! One circuit's ramp over all processes, as a store holds it: the limit on calls in flight, and their slots.
//!
//! A store counts slots and successes, compares steps and replaces limits. [`Member`](super::Member) decides the next
//! limit, never the store. A ramp belongs to one epoch: a request with another epoch has no effect, and a new epoch
//! begins without a ramp. Slots expire, so that a process that dies does not keep any.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::time::Timestamp;
use crate::token::{Epoch, Nonce};

/// One process's request to a circuit's ramp. The store executes the request in one atomic step: it releases slots,
/// replaces the limit, and takes slots, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RampRequest {
    /// The circuit's key.
    pub key: Arc<str>,
    /// The ramp's epoch. If the record has another epoch, the request is late.
    pub epoch: Epoch,
    /// The initial limit, if the store has no ramp for this epoch and must create one.
    pub first_limit: u32,
    /// The time at which the ramp began, by the store's clock. Used if the store has no ramp for this epoch and must
    /// create one.
    pub begun_at: Timestamp,
    /// The slots to release. A slot that has expired, or was already released, is ignored.
    pub give: Vec<ReleasedSlot>,
    /// The next limit; `None` leaves the limit unchanged.
    pub replace: Option<RampStep>,
    /// The new tokens of the slots to take. Slots are taken in this order until the limit is reached.
    pub take: Vec<Nonce>,
    /// How long the store reserves a taken slot that is not released.
    pub slot_for: Duration,
    /// How long the store keeps the ramp after the latest request.
    pub keep_for: Duration,
}

/// A slot in a ramp that a process releases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReleasedSlot {
    /// The token of the slot.
    pub slot: Nonce,
    /// Whether the call in the slot succeeded.
    pub succeeded: bool,
}

/// A replacement of a ramp's limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RampStep {
    /// The step number that the ramp must have for the limit to be replaced.
    pub expected: u64,
    /// The new limit; `None` ends the ramp.
    pub limit: Option<u32>,
}

/// A ramp's limit and progress, without the slots that are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RampState {
    /// The number of times that the limit was replaced.
    pub step: u64,
    /// The maximum number of calls in flight over all processes; `None` if the ramp is over.
    pub limit: Option<u32>,
    /// The number of calls that succeeded since the limit was last replaced.
    pub successes: u32,
    /// The time at which a slot was last refused; before the first refusal, the time at which the ramp began.
    pub refused_at: Timestamp,
}

/// The store's reply to a [request](RampRequest).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RampReply {
    /// The circuit's record has another epoch. The request had no effect.
    Late,
    /// The store executed the request.
    Done(RampView),
}

/// A ramp's state after a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RampView {
    /// The ramp's state. Its `refused_at` does not include a refusal in this request, so it shows how long no slot had
    /// been refused before.
    pub state: RampState,
    /// The number of taken slots, over all processes.
    pub in_flight: u32,
    /// The number of slots that this request took. They have the first `taken` tokens in the request.
    pub taken: u32,
    /// Whether the limit was replaced.
    pub replaced: bool,
}

/// One circuit's ramp, as a store keeps it. Stores that keep ramps in memory use this type; other stores implement the
/// same rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedRamp {
    epoch: Epoch,
    state: RampState,
    /// The tokens of the taken slots, and the times at which the slots expire.
    slots: Vec<(Nonce, Timestamp)>,
    expires_at: Timestamp,
}

impl SharedRamp {
    /// Executes a request for the circuit's current epoch.
    pub fn apply(known: &mut Option<Self>, request: &RampRequest, now: Timestamp) -> RampView {
        let is_current = |ramp: &Self| ramp.epoch == request.epoch && now < ramp.expires_at;
        let mut ramp = known.take().filter(is_current).unwrap_or_else(|| Self::new(request));
        let view = ramp.try_acquire(request, now);
        *known = Some(ramp);
        view
    }

    const fn new(request: &RampRequest) -> Self {
        let state = RampState {
            step: 0,
            limit: Some(request.first_limit),
            successes: 0,
            refused_at: request.begun_at,
        };
        Self { epoch: request.epoch, state, slots: Vec::new(), expires_at: Timestamp::ZERO }
    }

    fn try_acquire(&mut self, request: &RampRequest, now: Timestamp) -> RampView {
        self.expires_at = now + request.keep_for;
        self.slots.retain(|(_, expires_at)| now < *expires_at);
        for released in &request.give {
            if let Some(index) = self.slots.iter().position(|(slot, _)| *slot == released.slot) {
                self.slots.swap_remove(index);
                self.state.successes = self.state.successes.saturating_add(u32::from(released.succeeded));
            }
        }
        let step = request.replace.filter(|step| step.expected == self.state.step);
        if let Some(step) = step {
            self.state = RampState { step: step.expected + 1, limit: step.limit, successes: 0, ..self.state };
        }
        let refused_at = self.state.refused_at;
        let mut taken = 0;
        if let Some(limit) = self.state.limit {
            let room = (limit as usize).saturating_sub(self.slots.len());
            let slots = request.take.iter().take(room);
            self.slots.extend(slots.map(|slot| (*slot, now + request.slot_for)));
            taken = request.take.len().min(room);
            if taken < request.take.len() {
                self.state.refused_at = now;
            }
        }
        RampView {
            state: RampState { refused_at, ..self.state },
            in_flight: count(self.slots.len()),
            taken: count(taken),
            replaced: step.is_some(),
        }
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
