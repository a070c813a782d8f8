//! The progress of sampling: messages to observers, and a report that can be read at any time.

use std::time::Duration;

/// A message to an observer of sampling, about the process that the observer runs in.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SamplingEvent {
    /// This process became the leader.
    Elected,
    /// This process no longer leads.
    LeadershipLost,
    /// A tick is complete.
    Ticked(Ticked),
    /// A poll failed, and changed nothing.
    PollFailed {
        /// The reason, with its causes.
        error: String,
    },
}

/// The result of one tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Ticked {
    /// The number of circuits that have a record.
    pub circuits: usize,
    /// The number of keys with an attempt. 0: nothing was changed.
    pub keys: usize,
    /// The number of sampled keys that are not valid, because they are empty or too long. They have no circuits.
    pub unusable_keys: usize,
    /// The number of circuits that changed.
    pub changes: usize,
    /// The number of changes that failed, because another process was first or the store did not respond. The next tick
    /// retries.
    pub not_changed: usize,
    /// The duration of the poll.
    pub polled_for: Duration,
    /// The duration of the whole tick.
    pub took: Duration,
}

/// The progress of sampling in this process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Whether this process leads.
    pub leads: bool,
    /// The number of complete ticks of this process.
    pub ticks: u64,
    /// The number of its failed polls.
    pub failed_polls: u64,
    /// The number of its writes that the store refused because they came after its term.
    pub refused_writes: u64,
    /// The latest tick; none before the first.
    pub last_tick: Option<Ticked>,
    /// The error of the latest poll; none if it succeeded.
    pub poll_error: Option<String>,
}
