//! Results of calls that the traffic states as an HTTP status or a fault, instead of as an outcome.
//!
//! The table that maps them to outcomes is not part of a replay: the caller passes the table that production uses.

use std::time::Duration;

use breakerbox_core::OutcomeKind;

/// Maps HTTP statuses and faults to the outcomes that a circuit counts.
pub trait ResultTable {
    /// Returns how a circuit counts a response with this status. `retry_after` is the delay that the destination asked
    /// for.
    fn status(&self, status: u16, retry_after: Option<Duration>) -> Counted;

    /// Returns how a circuit counts a call that ended with this fault instead of a response. `None` if there is no
    /// fault of this name.
    fn fault(&self, name: &str) -> Option<Counted>;

    /// Returns the names of all faults.
    fn fault_names(&self) -> Vec<&'static str>;
}

/// How a circuit counts the result of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// The outcome of a call that is not a probe.
    pub outcome: OutcomeKind,
    /// The outcome of a probe.
    pub probe_outcome: OutcomeKind,
    /// The delay that is passed to the circuit. `None` if the destination asked for none, or the table ignores it.
    pub retry_after: Option<Duration>,
}
