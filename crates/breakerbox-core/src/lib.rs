//! The decision engine of Breakerbox, written as pure functions.
//!
//! This crate has no clock, no IO, no async code and no random source: time, random bits and nonces are arguments.
//! All decisions are made here: stores only count, compare and swap, and background loops only move data.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Circuit`] | one circuit in one process: acquire, settle, override, sample |
//! | [`Record`], [`Step`] | a circuit's stored state, and its next state: the transition table |
//! | [`Totals`], [`TripRule`] | the window's counts, and the rules that trip the circuit |
//! | [`FailureRun`] | the failures since the latest success, which outlive the window |
//! | [`Ramp`] | the paced return of traffic |
//! | [`Policy`], [`PolicyBuilder`], [`Preset`] | a circuit's settings, the policy file, and the settings of known breakers |
//! | [`Permit`], [`Refusal`], [`Outcome`] | the right to call, the reason for a refusal, and the result of the call |
//! | [`Ticket`] | a permit as plain data, which another process can settle |
//! | [`Change`] | the value that observers receive for each transition |
//! | [`Key`] | the identity of a circuit: calls with the same key share it |
//! | [`StatusMeaning`] | what an HTTP status means for a circuit and a throttle: one table for all users |
//! | [`throttle`] | limits for destinations that are up but overloaded |
//! | [`own_outage`] | detects that the fault is on this side, because most destinations can't be reached at once |
//!
//! Guarantees: at most one of two results for the same lease counts; a result from an old epoch or lease changes
//! nothing; every transition is one change, one new epoch and one new version. Fairness among callers is not
//! guaranteed: the first caller to acquire after the cool-off gets the probe.

//!
//! | feature | default | what it adds |
//! | --- | --- | --- |
//! | `url` | yes | keys from URLs: `Key::of` and `Key::of_url` |
//! | `serde` | yes | records and tickets as JSON, and policy files |
//!
//! Services use the crate `breakerbox`, which exports what they need from this one. Use this crate directly for a
//! store, a simulation or a runtime of your own. Its functions that `breakerbox` does not export may change in any
//! minor version.

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod backoff;
mod change;
mod circuit;
mod fault;
mod file_value;
pub mod fleet;
mod http_status;
mod key;
mod nearest;
mod outcome;
pub mod own_outage;
mod permit;
mod policy;
mod ramp;
mod record;
mod rule;
mod run;
mod sampling;
pub mod throttle;
mod ticket;
mod time;
mod token;
mod transitions;
mod window;

pub use change::{Cause, Change, OverrideCommand, Step};
pub use circuit::{AcquireResult, Circuit, Settled, Settlement};
#[cfg(feature = "sabotage")]
#[doc(hidden)]
pub use fault::Fault;
pub use file_value::FileValue;
pub use http_status::{StatusClass, StatusMeaning};
pub use key::{CircuitBy, Key, KeyError, KeyId, MAX_KEY_LENGTH, MAX_URL_LENGTH};
pub use nearest::nearest;
pub use outcome::{OpenedBy, Outcome, OutcomeKind};
pub use permit::{Decision, Permit, Refusal};
pub use policy::{
    DurationError, MAX_DURATION, POLICY_BOUNDS, POLICY_KEYS, Percentage, Policy, PolicyBuilder, PolicyError,
    PolicyErrorReason, Preset, UnknownPreset, format_duration, parse_duration,
};
pub use ramp::Ramp;
pub use record::{
    Attribution, AttributionTooLong, CircuitStatus, LatestOutcomes, Lease, MAX_ATTRIBUTION_LENGTH, Mode,
    Record, State,
};
pub use rule::TripRule;
pub use run::FailureRun;
pub use sampling::LatestSuccesses;
pub use ticket::{Ticket, TicketKind};
pub use time::Timestamp;
pub use token::{Epoch, Nonce, RandomBits, Version};
pub use transitions::{Answer, LEASE_MARGIN, MissingLatencySum, RecentSample, Sample, Span};
pub use window::Totals;

/// Compiles and runs the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
