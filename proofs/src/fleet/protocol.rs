//! The protocol between a proof and its workers: commands in, answers out, each a line of JSON.
//!
//! Every command has a number, and its answer has the same number. A worker runs its commands concurrently, so answers
//! come in any order.

use breakerbox::{Epoch, OverrideCommand, Record};
use serde::{Deserialize, Serialize};

/// One line of the protocol.
#[derive(Serialize, Deserialize, Debug)]
pub struct Numbered<T> {
    /// The number of the command, which its answer repeats.
    pub number: u64,
    /// The command or the answer.
    pub word: T,
}

/// A command to a worker.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum WorkerCommand {
    /// Acquire a permit, and keep it. Answer: [`Answer::Permit`] or [`Answer::Refused`].
    Acquire {
        /// The key of the circuit.
        key: String,
    },
    /// Make the call that a permit allows, and keep the permit. Answer: [`Answer::Sent`].
    Send {
        /// The number of the permit, from [`Answer::Permit`].
        permit: u64,
        /// The path at the receiver.
        path: String,
    },
    /// Settle a permit. Answer: [`Answer::Settled`].
    Settle {
        /// The number of the permit, from [`Answer::Permit`].
        permit: u64,
        /// The outcome to report.
        outcome: Outcome,
    },
    /// Acquire, call and settle through the library's call API. Answer: [`Answer::Sent`] or [`Answer::Refused`].
    Call {
        /// The key of the circuit.
        key: String,
        /// The path at the receiver.
        path: String,
    },
    /// Acquire again and again, and make every permitted call, until one was an ordinary call: the circuit is closed.
    /// Answer: [`Answer::Tally`].
    Hammer {
        /// The key of the circuit.
        key: String,
        /// The path at the receiver.
        path: String,
    },
    /// Wait until this process sees the circuit in this state. Answer: [`Answer::Circuit`].
    Await {
        /// The key of the circuit.
        key: String,
        /// The name of the state.
        status: String,
    },
    /// Report what this process knows of a circuit. Answer: [`Answer::Circuit`].
    State {
        /// The key of the circuit.
        key: String,
    },
    /// Report the state of every circuit that this process has. Answer: [`Answer::Circuits`].
    Circuits,
    /// Report the health of the store, and the counters. Answer: [`Answer::Health`].
    Health,
    /// Start to make calls at a rate. Answer: [`Answer::Running`].
    Run(Run),
    /// Report the counts of a run. Answer: [`Answer::Tally`].
    Tally {
        /// The number of the run, from [`Answer::Running`].
        run: u64,
    },
    /// End a run, after the calls in flight have ended. Answer: [`Answer::Tally`].
    Stop {
        /// The number of the run, from [`Answer::Running`].
        run: u64,
    },
    /// Return all changes that observers received since the last such command. Answer: [`Answer::Changes`].
    Changes,
    /// Close the registry, as a process does before it exits. Answer: [`Answer::Done`].
    Close,
    /// Apply an operator's override. Answer: [`Answer::Done`].
    Override {
        /// The key of the circuit.
        key: String,
        /// The override.
        command: OverrideRequest,
    },
}

/// Calls at a fixed rate.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Run {
    /// The circuits and paths to call, in turn and from the start again.
    pub targets: Vec<Target>,
    /// The number of calls a second, including refused ones. A slow call does not delay the next.
    pub per_second: u32,
}

/// A circuit, and the path that its calls go to.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Target {
    /// The key of the circuit.
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
    /// The call failed, and the destination sent a retry-after.
    RetryAfter {
        /// The retry-after, in milliseconds.
        ms: u64,
    },
    /// The result says nothing about the destination.
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
    /// End an override, and probe.
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

/// A worker's answer.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A permit was given.
    Permit {
        /// The number of the permit, for later commands.
        permit: u64,
        /// Whether the permit is for a probe.
        is_probe: bool,
    },
    /// No permit was given.
    Refused {
        /// The name of the refusal's reason.
        why: String,
        /// When to acquire again, in milliseconds. `None`: unknown.
        retry_in_ms: Option<u64>,
    },
    /// A call was made.
    Sent {
        /// The HTTP status. `None`: the receiver did not answer.
        status: Option<u16>,
    },
    /// A permit was settled.
    Settled {
        /// The settlement: `counted`, `uncounted` or `late`. A dropped permit reports none of them.
        how: String,
    },
    /// The process's view of a circuit.
    Circuit(Box<Known>),
    /// The states of all circuits.
    Circuits(Vec<Seen>),
    /// The changes that observers received, in the order of receipt.
    Changes(Vec<ObservedChange>),
    /// The health of the store.
    Health(Health),
    /// A run has started.
    Running {
        /// The number of the run, for later commands.
        run: u64,
    },
    /// The counts of a run, so far or in total.
    Tally(Tally),
    /// The command was carried out.
    Done,
    /// The command failed.
    Error {
        /// The error message.
        error: String,
    },
}

/// One process's view of a circuit.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Known {
    /// The name of the state.
    pub status: String,
    /// The whole record.
    pub record: Record,
    /// How often this process took a lease.
    pub leases_won: u64,
    /// How often another process took the lease first: both had read the same record.
    pub leases_lost: u64,
}

/// The state of a circuit in one process.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Seen {
    /// The key of the circuit.
    pub key: String,
    /// The name of the state.
    pub status: String,
    /// The epoch that began with the last transition.
    pub epoch: Epoch,
}

/// One change of a circuit, as an observer of one process received it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct ObservedChange {
    /// The circuit's key.
    pub key: String,
    /// The name of the state before.
    pub from: String,
    /// The name of the state after.
    pub to: String,
    /// The epoch that began.
    pub epoch: Epoch,
}

/// The health of the store, as one process sees it.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Health {
    /// Why the store is degraded. `None`: it is connected.
    pub degraded: Option<String>,
    /// How often the loss of the store was reported to this process.
    pub losses: u64,
    /// How often the return of the store was reported to this process.
    pub returns: u64,
    /// Requests to the store so far.
    pub requests: u64,
    /// How often the store merged counts.
    pub merges: u64,
    /// Results that came late, and changed nothing.
    pub late_results: u64,
    /// How often counts were sent to a store that did not answer.
    pub unanswered_reports: u64,
}

/// The counts of many acquires.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub struct Tally {
    /// The number of acquires.
    pub acquires: u64,
    /// Acquires refused because the circuit was open.
    pub open: u64,
    /// Acquires refused because another caller was probing.
    pub probing: u64,
    /// Acquires refused for another reason.
    pub refused: u64,
    /// Permits for probes.
    pub probes: u64,
    /// Permits for ordinary calls.
    pub calls: u64,
    /// Calls that got no answer, or an answer other than success.
    pub failed: u64,
    /// The duration of the longest acquire, in microseconds.
    pub longest_ask_us: u64,
}

impl Tally {
    /// Returns the counts that were added since an earlier state of the same tally. The longest acquire is that of
    /// both.
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
