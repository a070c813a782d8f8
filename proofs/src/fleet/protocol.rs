//! The protocol between a test and its workers: commands and responses, each a line of JSON.
//!
//! Every command has a number, which its response repeats. A worker runs its commands concurrently, so
//! responses may arrive in any order.

use std::time::Duration;

use breakerbox::{Epoch, OverrideCommand, Record};
use serde::{Deserialize, Serialize};

/// One message between the test and a worker.
#[derive(Serialize, Deserialize, Debug)]
pub struct Numbered<T> {
    /// The number of the command. The response to the command has the same number.
    pub number: u64,
    /// The payload: a command or a response.
    pub word: T,
}

/// A command to a worker.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum WorkerCommand {
    /// Acquire a permit, and keep it. Response: [`Answer::Permit`] or [`Answer::Refused`].
    Acquire {
        /// The circuit's key.
        key: String,
    },
    /// Make the call that a permit allows, and keep the permit. Response: [`Answer::Sent`].
    Send {
        /// The number of the permit, from [`Answer::Permit`].
        permit: u64,
        /// The path at the receiver.
        path: String,
    },
    /// Settle a permit. Response: [`Answer::Settled`].
    Settle {
        /// The number of the permit, from [`Answer::Permit`].
        permit: u64,
        /// The outcome to report.
        outcome: Outcome,
    },
    /// Acquire, call and settle through the library's call API. Response: [`Answer::Sent`] or
    /// [`Answer::Refused`].
    Call {
        /// The circuit's key.
        key: String,
        /// The path at the receiver.
        path: String,
    },
    /// Acquire and make every admitted call, until a regular call (not a probe) is admitted. The circuit is
    /// then closed. Response: [`Answer::Tally`].
    Hammer {
        /// The circuit's key.
        key: String,
        /// The path at the receiver.
        path: String,
    },
    /// Wait until this process sees the circuit in this state. Response: [`Answer::Circuit`].
    Await {
        /// The circuit's key.
        key: String,
        /// The name of the expected state.
        status: String,
    },
    /// Return what this process knows about a circuit. Response: [`Answer::Circuit`].
    State {
        /// The circuit's key.
        key: String,
    },
    /// Return the state of every circuit in this process. Response: [`Answer::Circuits`].
    Circuits,
    /// Return the store's health, and the worker's counters. Response: [`Answer::Health`].
    Health,
    /// Start to make calls at a fixed rate. Response: [`Answer::Running`].
    Run(Run),
    /// Return the counts for a run of calls so far. Response: [`Answer::Tally`].
    Tally {
        /// The number of the run, from [`Answer::Running`].
        run: u64,
    },
    /// Return the calls of a run that started at this time or later and have ended. The run must keep its calls.
    /// Response: [`Answer::Calls`].
    Calls {
        /// The number of the run, from [`Answer::Running`].
        run: u64,
        /// The time, in microseconds since the Unix epoch.
        since_us: u64,
    },
    /// End a run of calls, after the calls in flight have ended. Response: [`Answer::Tally`].
    Stop {
        /// The number of the run, from [`Answer::Running`].
        run: u64,
    },
    /// Return all changes that observers received since the previous such command. Response:
    /// [`Answer::Changes`].
    Changes,
    /// Close the registry, as a process does before it exits. Response: [`Answer::Done`].
    Close,
    /// Apply an operator's override. Response: [`Answer::Done`].
    Override {
        /// The circuit's key.
        key: String,
        /// The override to apply.
        command: OverrideRequest,
    },
}

/// Parameters for calls at a fixed rate.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Run {
    /// The circuits and paths to call, in round-robin order.
    pub targets: Vec<Target>,
    /// The time from one call to the next, including refused calls. A slow call does not delay the next call.
    pub interval: Duration,
    /// The time until the first call.
    pub delay: Duration,
    /// Whether the worker keeps a record of each call, for [`WorkerCommand::Calls`].
    pub keep_calls: bool,
}

impl Run {
    /// Returns a run that makes this many calls per second, starts at once, and keeps no record of its calls. The
    /// rate must not be 0.
    #[must_use]
    pub fn new(targets: Vec<Target>, per_second: u32) -> Self {
        let interval = Duration::from_secs(1) / per_second.max(1);
        Self { targets, interval, delay: Duration::ZERO, keep_calls: false }
    }
}

/// A circuit, and the path that its calls go to.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Target {
    /// The circuit's key.
    pub key: String,
    /// The path at the receiver.
    pub path: String,
}

/// The outcome with which a permit is settled.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The call succeeded.
    Success,
    /// The call failed.
    Failure,
    /// The call failed, and the destination sent `Retry-After`.
    RetryAfter {
        /// The `Retry-After` value, in milliseconds.
        ms: u64,
    },
    /// The outcome does not count.
    Ignored,
    /// The permit is dropped without an outcome.
    Dropped,
}

/// An operator's override of a circuit.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum OverrideRequest {
    /// Refuse every call.
    ForceOpen,
    /// Disable the circuit.
    Disable,
    /// End an override, so that the circuit probes.
    Release,
    /// Reset the circuit to its initial state.
    Reset,
}

impl From<OverrideRequest> for OverrideCommand {
    fn from(command: OverrideRequest) -> Self {
        match command {
            OverrideRequest::ForceOpen => Self::ForceOpen,
            OverrideRequest::Disable => Self::Disable,
            OverrideRequest::Release => Self::Release,
            OverrideRequest::Reset => Self::Reset,
        }
    }
}

/// A worker's response.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A permit was acquired.
    Permit {
        /// The number of the permit, for later commands.
        permit: u64,
        /// Whether the permit is for a probe.
        is_probe: bool,
    },
    /// The acquire was refused.
    Refused {
        /// The name of the reason for the refusal.
        why: String,
        /// The time after which to acquire again, in milliseconds, or `None` if unknown.
        retry_in_ms: Option<u64>,
    },
    /// A call was made.
    Sent {
        /// The response's HTTP status, or `None` if the receiver did not respond.
        status: Option<u16>,
    },
    /// A permit was settled.
    Settled {
        /// The settlement: `counted`, `uncounted`, `late` or `unconfirmed`; or `dropped` for a permit without
        /// an outcome.
        how: String,
    },
    /// What the process knows about a circuit.
    Circuit(Box<Known>),
    /// The states of all circuits in the process.
    Circuits(Vec<Seen>),
    /// The changes that observers received, in order.
    Changes(Vec<ObservedChange>),
    /// The store's health as this process sees it, and the process's counters.
    Health(Health),
    /// A run of calls has started.
    Running {
        /// The number of the run, for later commands.
        run: u64,
    },
    /// The counts for a run of calls, so far or in total.
    Tally(Tally),
    /// The calls of a run, in the order in which they ended.
    Calls(Vec<CallRecord>),
    /// The command was executed.
    Done,
    /// The command failed.
    Error {
        /// The error message.
        error: String,
    },
}

/// One call of a run.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct CallRecord {
    /// When the worker started to acquire the permit, in microseconds since the Unix epoch.
    pub at_us: u64,
    /// Why the call did not succeed: the name of the refusal, or `failed`. `None` for a success.
    pub fault: Option<String>,
}

/// What one process knows about a circuit.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Known {
    /// The name of the circuit's state.
    pub status: String,
    /// The circuit's whole record.
    pub record: Record,
    /// The number of leases that this process acquired.
    pub leases_won: u64,
    /// The number of leases that this process requested, but that another process with the same record
    /// acquired first.
    pub leases_lost: u64,
}

/// The state of a circuit in one process.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Seen {
    /// The circuit's key.
    pub key: String,
    /// The name of the circuit's state.
    pub status: String,
    /// The epoch that started with the last transition.
    pub epoch: Epoch,
}

/// A change to a circuit, as received by an observer in one process.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct ObservedChange {
    /// The circuit's key.
    pub key: String,
    /// The name of the previous state.
    pub from: String,
    /// The name of the new state.
    pub to: String,
    /// The epoch that started with the change.
    pub epoch: Epoch,
}

/// The store's health as one process sees it, and the process's counters.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Health {
    /// The reason why the store is degraded, or `None` if it is connected.
    pub degraded: Option<String>,
    /// The number of times that the store was reported as lost.
    pub losses: u64,
    /// The number of times that the store was reported as connected again.
    pub returns: u64,
    /// The number of store requests so far.
    pub requests: u64,
    /// The number of merges that the store answered.
    pub merges: u64,
    /// The number of results that arrived after their lease had expired, and changed nothing.
    pub late_results: u64,
    /// The number of reports that the store did not answer.
    pub unanswered_reports: u64,
}

/// Counts of many acquires and their calls.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub struct Tally {
    /// The number of acquires.
    pub acquires: u64,
    /// The number of acquires refused because the circuit was open.
    pub open: u64,
    /// The number of acquires refused because another caller was probing.
    pub probing: u64,
    /// The number of acquires refused for another reason.
    pub refused: u64,
    /// The number of permits for probes.
    pub probes: u64,
    /// The number of permits for regular calls (not probes).
    pub calls: u64,
    /// The number of calls that got no response, or an unsuccessful one.
    pub failed: u64,
    /// The duration of the longest acquire, in microseconds.
    pub longest_ask_us: u64,
}

impl Tally {
    /// Returns the difference from an earlier state of the same tally. Only `longest_ask_us` is not a
    /// difference, but the maximum of the whole tally.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            acquires: self.acquires - earlier.acquires,
            open: self.open - earlier.open,
            probing: self.probing - earlier.probing,
            refused: self.refused - earlier.refused,
            probes: self.probes - earlier.probes,
            calls: self.calls - earlier.calls,
            failed: self.failed - earlier.failed,
            longest_ask_us: self.longest_ask_us,
        }
    }

    /// Adds another tally to this one.
    pub fn add(&mut self, more: &Self) {
        self.acquires += more.acquires;
        self.open += more.open;
        self.probing += more.probing;
        self.refused += more.refused;
        self.probes += more.probes;
        self.calls += more.calls;
        self.failed += more.failed;
        self.longest_ask_us = self.longest_ask_us.max(more.longest_ask_us);
    }
}
