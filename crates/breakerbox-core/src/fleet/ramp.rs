//! The ramp of one circuit over all processes, as a store holds it: how many calls may be in flight, and who makes them.
//!
//! A store counts places and successes, compares steps and replaces limits. Which limit comes next is decided by
//! [`Member`](super::Member), never here. A ramp belongs to one epoch: a request of another epoch changes nothing, and a new
//! epoch begins without a ramp. Places expire, so that a process that dies takes none with it.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::time::Timestamp;
use crate::token::{Epoch, Nonce};

/// What one process asks of a circuit's ramp. The store does all of it in one atomic step, in the order of the fields:
/// places are given back, the limit is replaced, places are taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RampRequest {
    /// The circuit's key.
    pub key: Arc<str>,
    /// The epoch that the ramp belongs to. If the record has another one, the request is late.
    pub epoch: Epoch,
    /// The limit of a ramp that the store has nothing of yet.
    pub first_limit: u32,
    /// When such a ramp began, by the store's clock.
    pub begun_at: Timestamp,
    /// Places to give back. One that has expired, or was given back before, counts nowhere.
    pub give: Vec<GivenPlace>,
    /// The limit that follows.
    pub replace: Option<RampStep>,
    /// Tokens of places to take, each new. They are taken in this order while there is room.
    pub take: Vec<Nonce>,
    /// How long a taken place lasts if it is not given back.
    pub place_for: Duration,
    /// How long the store keeps the ramp after its latest request.
    pub keep_for: Duration,
}

/// A place that is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GivenPlace {
    /// Its token.
    pub place: Nonce,
    /// Whether its call succeeded.
    pub succeeded: bool,
}

/// The replacement of a ramp's limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RampStep {
    /// The step that it replaces. If the ramp is at another one, the limit stays.
    pub expected: u64,
    /// The new limit; none: the ramp is over.
    pub limit: Option<u32>,
}

/// A ramp, without its places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RampState {
    /// How often the limit was replaced.
    pub step: u64,
    /// How many calls may be in flight over all processes; none: the ramp is over.
    pub limit: Option<u32>,
    /// How many calls succeeded since the limit was last replaced.
    pub successes: u32,
    /// When a place was last refused, or else when the ramp began.
    pub refused_at: Timestamp,
}

/// The answer to a [request](RampRequest).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RampReply {
    /// The record has another epoch. Nothing was done.
    Late,
    /// The request was carried out.
    Done(RampView),
}

/// A ramp after a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RampView {
    /// The ramp. Its `refused_at` is from before this request, so that a refusal of now does not hide how long there was none.
    pub state: RampState,
    /// How many places are taken, by all processes.
    pub in_flight: u32,
    /// How many of the wanted places were taken: the first ones.
    pub taken: u32,
    /// Whether the limit was replaced.
    pub replaced: bool,
}

/// The ramp of one circuit. A store that keeps ramps in memory keeps one of these; others do the same in their own way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedRamp {
    epoch: Epoch,
    state: RampState,
    /// Tokens, and when they expire.
    places: Vec<(Nonce, Timestamp)>,
    expires_at: Timestamp,
}

impl SharedRamp {
    /// Carries out a request of the circuit's current epoch.
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
        Self { epoch: request.epoch, state, places: Vec::new(), expires_at: Timestamp::ZERO }
    }

    fn try_acquire(&mut self, request: &RampRequest, now: Timestamp) -> RampView {
        self.expires_at = now + request.keep_for;
        self.places.retain(|(_, expires_at)| now < *expires_at);
        for given in &request.give {
            if let Some(index) = self.places.iter().position(|(place, _)| *place == given.place) {
                self.places.swap_remove(index);
                self.state.successes = self.state.successes.saturating_add(u32::from(given.succeeded));
            }
        }
        let step = request.replace.filter(|step| step.expected == self.state.step);
        if let Some(step) = step {
            self.state = RampState { step: step.expected + 1, limit: step.limit, successes: 0, ..self.state };
        }
        let refused_at = self.state.refused_at;
        let mut taken = 0;
        if let Some(limit) = self.state.limit {
            let room = (limit as usize).saturating_sub(self.places.len());
            let places = request.take.iter().take(room);
            self.places.extend(places.map(|place| (*place, now + request.place_for)));
            taken = request.take.len().min(room);
            if taken < request.take.len() {
                self.state.refused_at = now;
            }
        }
        RampView {
            state: RampState { refused_at, ..self.state },
            in_flight: count(self.places.len()),
            taken: count(taken),
            replaced: step.is_some(),
        }
    }
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
