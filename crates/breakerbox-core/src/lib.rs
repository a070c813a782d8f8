//! The decisions of Breakerbox, as pure functions of their arguments.
//!
//! There is no clock here, no IO, no async and no random source: time, random samples and nonces are arguments. This
//! crate is the only place where decisions are made; stores count, compare and swap, loops move data.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Circuit`] | one circuit, whole: ask, settle, apply_override, sample |
//! | [`Record`], [`Step`] | what is remembered of a circuit, and what comes next: the transition table |
//! | [`Totals`], [`TripRule`] | what happened lately, and whether that is too much |
//! | [`Ramp`] | the paced return of traffic |
//! | [`Policy`], [`PolicyBuilder`], [`Preset`] | the numbers, the policy file, the breakers that people know |
//! | [`Permit`], [`Refusal`], [`Outcome`] | what callers hold, hear and say |
//! | [`Ticket`] | a permit as plain data, to be settled by another process |
//! | [`Change`] | what observers hear |
//! | [`Key`] | who shares a circuit |
//! | [`throttle`] | what a drowning destination is spared |
//!
//! What is guaranteed: of two results for one lease at most one counts; a result of an old epoch or lease changes
//! nothing; every transition is one change, one new epoch and one new version. What is not: fairness among askers. The
//! first ask after the cool-off is the probe.

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod backoff;
mod change;
mod circuit;
mod fault;
pub mod fleet;
mod found;
mod key;
mod nearest;
mod outcome;
mod permit;
mod policy;
mod ramp;
mod record;
mod rule;
mod sampling;
pub mod throttle;
mod ticket;
mod time;
mod token;
mod transitions;
mod window;

pub use change::{Cause, Change, Command, Step};
pub use circuit::{Asked, Circuit, Settled, Settlement};
#[cfg(feature = "sabotage")]
#[doc(hidden)]
pub use fault::Fault;
pub use found::Found;
pub use key::{CircuitBy, Key, KeyError, KeyId, MAX_KEY_LENGTH, MAX_URL_LENGTH};
pub use nearest::nearest;
pub use outcome::{Outcome, OutcomeKind};
pub use permit::{Decision, Permit, Refusal};
pub use policy::{
    DurationError, MAX_DURATION, POLICY_BOUNDS, POLICY_KEYS, Percentage, Policy, PolicyBuilder, PolicyError,
    PolicyErrorReason, Preset, UnknownPreset, format_duration, parse_duration,
};
pub use ramp::Ramp;
pub use record::{
    Attribution, AttributionTooLong, LatestOutcomes, Lease, MAX_ATTRIBUTION_LENGTH, Mode, Record, State,
    Status,
};
pub use rule::TripRule;
pub use sampling::LatestSuccesses;
pub use ticket::{Ticket, TicketKind};
pub use time::Timestamp;
pub use token::{Epoch, Nonce, RandomBits, Version};
pub use transitions::{Answer, LEASE_MARGIN, MissingLatencySum, RecentSample, Sample, Span};
pub use window::Totals;
