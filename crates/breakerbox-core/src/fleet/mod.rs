//! Circuits that a fleet shares, as one of its processes handles them.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`Member`] | one process's circuit: not shared, or one of many with the same record in a store |
//! | [`Delta`], [`Merged`] | a process's report to the store, and the response |
//! | [`SharedWindow`] | the counts of all processes, and their run of failures |
//! | `LocalCircuit` | a circuit over this process's own outcomes, for failures that only this process has |
//! | `reporting` | when a process reports, when all are called to report, and how long a trip waits for the reports |
//! | [`Proposal`] | a record to swap in: a trip, a lease, a probe's result |
//! | [`RampRequest`], [`SharedRamp`] | the ramp of a recently closed circuit, over all processes |
//!
//! This module decides which records are proposed, adopted, published again or dropped; its caller exchanges them
//! with the store. Guarantees: a transition takes effect only once it is in the store, except while the store is
//! unavailable and the process decides by itself; a result from an epoch or lease that is over changes nothing; one
//! process's failures do not open the circuit despite the others' successes; epochs only increase, in the store, in a
//! process and for its observers, even if the store's record replaces a process's own decision ([`Member::rejoin`]).

mod delta;
mod link;
mod local;
mod member;
mod outage;
mod ramp;
mod ramping;
mod reporting;
mod results;
mod stand_back;
mod sync;
mod tickets;
mod window;

pub use self::delta::{BucketDelta, Delta, Merged, RunDelta};
pub use self::member::Member;
pub use self::ramp::{RampReply, RampRequest, RampState, RampStep, RampView, ReleasedSlot, SharedRamp};
pub use self::ramping::{RampDemand, RampUpdate};
pub use self::results::{
    Consistency, Learnt, LeaseAnswer, MemberAnswer, MemberSettled, Pending, Proposal, ReportDue,
    ReportResult, StepContext, Waits,
};
pub use self::window::SharedWindow;
