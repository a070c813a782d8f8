//! What a reply means: for the delivery, for its circuit, for its throttle, for its lane.

use std::time::Duration;

use breakerbox_core::OutcomeKind;
use breakerbox_core::throttle::Verdict;

use super::Reply;

/// What a reply means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ruling {
    /// For the delivery.
    pub fate: Fate,
    /// For the circuit.
    pub circuit: OutcomeKind,
    /// With a failure: what the circuit hears of when to come back.
    pub retry_after: Option<Duration>,
    /// For the throttle; none: nothing can be said.
    pub throttle: Option<Verdict>,
    /// How long the lane sleeps.
    pub sleep: Option<Duration>,
}

/// What becomes of a delivery after an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fate {
    /// The receiver has it.
    Delivered,
    /// It is tried again, if attempts are left.
    Retry,
    /// That payload is refused: failed at once.
    Rejected,
    /// The endpoint is gone: failed at once, and the endpoint is disabled.
    Gone,
}

/// How answers are read, where that differs from the table of the design.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rulings {}

impl Rulings {
    /// What a reply means.
    #[must_use]
    pub fn of(&self, reply: Reply, is_probe: bool, cool_off: Duration) -> Ruling {
        let _ = (reply, is_probe, cool_off);
        unimplemented!("the table of the design")
    }
}
