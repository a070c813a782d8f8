//! A circuit that a fleet shares, from the view of one of its processes.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`Member`] | the circuit of one process: not shared, or one of many with the same record in a store |
//! | [`Delta`], [`Merged`] | the report of a process to the store, and the response |
//! | [`SharedWindow`] | the counts of all processes |
//! | `LocalCircuit` | a circuit over this process's own outcomes, for when only this process has failures |
//! | `reporting` | when a process reports, when all are called to report, and how long a trip waits for the reports |
//! | [`Proposal`] | a record that should be swapped in: a trip, a lease, a probe's result |
//! | [`RampRequest`], [`SharedRamp`] | the ramp of a circuit that has just closed, over all processes |
//!
//! This module decides which records are proposed, adopted, published again or dropped; its caller exchanges them
//! with the store. Guarantees: a transition that is not in the store has not happened, except while the store is
//! unavailable and the process decides by itself; a result of an epoch or lease that is over changes nothing; one
//! process's failures do not open the circuit against the others' successes; epochs only grow, in the store, in a
//! process and for its observers, even if a decision of one process loses against the store's record
//! ([`Member::rejoin`]).

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

pub use self::delta::{BucketDelta, Delta, Merged};
pub use self::member::Member;
pub use self::ramp::{RampReply, RampRequest, RampState, RampStep, RampView, ReleasedSlot, SharedRamp};
pub use self::ramping::{RampDemand, RampUpdate};
pub use self::results::{
    Consistency, Learnt, LeaseAnswer, MemberAnswer, MemberSettled, Pending, Proposal, ReportDue,
    ReportResult, StepContext, Waits,
};
pub use self::window::SharedWindow;
