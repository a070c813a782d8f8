//! A circuit that a fleet shares, as one of its processes sees it.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`Member`] | one process's circuit: alone, or one of many with the same record in a store |
//! | [`Delta`], [`Merged`] | what a process tells the store, and what it hears back |
//! | [`SharedWindow`] | what all of them counted |
//! | `LocalCircuit` | a circuit over this process's own outcomes, for when only this process has failures |
//! | `reporting` | when a process reports, when all are called upon to report, and how long a judge waits for them |
//! | [`Proposal`] | a record that should be swapped in: a trip, a lease, a probe's result |
//! | [`RampRequest`], [`SharedRamp`] | the ramp of a circuit that has just closed, over all processes |
//!
//! Here is decided what is proposed, adopted, published again or given up; somebody else talks to the store. What is
//! guaranteed: a transition that is not in the store has not happened, except while the store is away and the process is on
//! its own; a result of an epoch or lease that is over changes nothing; one process's failures do not open the circuit
//! against the others' successes; epochs only grow, in the store, at a process and for its observers, also when what a process
//! decided alone loses against the store's record ([`Member::rejoin`]).

mod answers;
mod conversation;
mod delta;
mod link;
mod local;
mod member;
mod outage;
mod ramp;
mod ramping;
mod reporting;
mod stand_back;
mod tickets;
mod window;

pub use self::answers::{
    Consistency, Learnt, LeaseAnswer, MemberAnswer, Moment, Pending, Proposal, Reported, Tell, Told, Waits,
};
pub use self::delta::{BucketDelta, Delta, Merged};
pub use self::member::Member;
pub use self::ramp::{GivenPlace, RampReply, RampRequest, RampState, RampStep, RampView, SharedRamp};
pub use self::ramping::{RampNews, RampWish};
pub use self::window::SharedWindow;
