//! The progress of sampling: events for observers, and a report that can be read at any time.

use std::time::Duration;

/// An event in this process's sampling, for observers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SamplingEvent {
    /// This process became the leader.
    Elected,
    /// This process is no longer the leader.
    LeadershipLost,
    /// A tick is complete.
    Ticked(Ticked),
    /// A poll failed, so no circuit changed.
    PollFailed {
        /// The error, with the messages of its causes.
        error: String,
    },
}

/// The result of one tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Ticked {
    /// The number of circuits with a record.
    pub circuits: usize,
    /// The number of keys with at least one attempt. If it is zero, the tick changed nothing.
    pub keys: usize,
    /// The number of sampled keys that are empty or too long, and therefore have no circuits.
    pub unusable_keys: usize,
    /// The number of circuits that made a transition.
    pub changes: usize,
    /// The number of transitions that failed, because another process wrote first or the store did not respond. The
    /// next tick retries them.
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
    /// Whether this process is the leader.
    pub leads: bool,
    /// The number of ticks that this process has completed.
    pub ticks: u64,
    /// The number of this process's polls that failed.
    pub failed_polls: u64,
    /// The number of this process's writes that the store rejected because they came after its term.
    pub refused_writes: u64,
    /// The result of this process's latest tick; `None` before the first.
    pub last_tick: Option<Ticked>,
    /// The latest poll's error; `None` if the poll succeeded.
    pub poll_error: Option<String>,
}
