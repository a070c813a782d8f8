//! How sampling goes: what observers hear as it happens, and what can be asked at any time.

use std::time::Duration;

/// What an observer of sampling hears, in the process that it concerns.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum News {
    /// This process leads from now on.
    Elected,
    /// It does not lead any more.
    Deposed,
    /// A tick is done.
    Ticked(Ticked),
    /// A poll failed, and changed nothing.
    PollFailed {
        /// Why.
        error: String,
    },
}

/// What one tick came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Ticked {
    /// How many circuits have a record.
    pub circuits: usize,
    /// How many keys had an attempt. None at all: nothing was changed.
    pub keys: usize,
    /// How many of them are no keys, being empty or too long. They have no circuits.
    pub unusable_keys: usize,
    /// How many circuits changed.
    pub changes: usize,
    /// How many were to change, and somebody else was first, or the store did not answer. The next tick looks again.
    pub not_changed: usize,
    /// How long the sampler took.
    pub polled_for: Duration,
    /// How long the whole tick took.
    pub took: Duration,
}

/// How sampling goes in this process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Whether this process leads.
    pub leads: bool,
    /// How many ticks it has done.
    pub ticks: u64,
    /// How many of its polls failed.
    pub failed_polls: u64,
    /// How many of its writes came after its term, and were refused.
    pub refused_writes: u64,
    /// The latest tick.
    pub last_tick: Option<Ticked>,
    /// Why the latest poll failed; none if it did not.
    pub poll_error: Option<String>,
}
