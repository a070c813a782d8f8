//! What a proof and its workers say to each other: orders in, answers out, a line of JSON each.
//!
//! Every order has a number, and its answer has the same. A worker does all of its orders at once, so answers come in any
//! order.

use breakerbox::{Command, Epoch, Record};
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Serialize, Deserialize, Debug)]
pub struct Numbered<T> {
    /// The order's number.
    pub number: u64,
    /// What is said.
    pub word: T,
}

/// What a worker is told to do.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Ask for a permit, and keep it. Answer: [`Answer::Permit`] or [`Answer::Refused`].
    Ask {
        /// Whose circuit.
        key: String,
    },
    /// Make the call that a permit allows, and keep the permit. Answer: [`Answer::Sent`].
    Send {
        /// Which permit.
        permit: u64,
        /// Where to, at the receiver.
        path: String,
    },
    /// Settle a permit. Answer: [`Answer::Settled`].
    Settle {
        /// Which permit.
        permit: u64,
        /// With what.
        outcome: Outcome,
    },
    /// Ask, call and settle as the library does it. Answer: [`Answer::Sent`] or [`Answer::Refused`].
    Call {
        /// Whose circuit.
        key: String,
        /// Where to, at the receiver.
        path: String,
    },
    /// Ask again and again, and make every call that is permitted, until one was an ordinary call: the circuit is closed.
    /// Answer: [`Answer::Tally`].
    Hammer {
        /// Whose circuit.
        key: String,
        /// Where to, at the receiver.
        path: String,
    },
    /// Wait until this process knows the circuit in this state. Answer: [`Answer::Circuit`].
    Await {
        /// Whose circuit.
        key: String,
        /// The state's name.
        status: String,
    },
    /// Say what is known of a circuit. Answer: [`Answer::Circuit`].
    State {
        /// Whose circuit.
        key: String,
    },
    /// Say in what state each circuit is that this process has. Answer: [`Answer::Circuits`].
    Circuits,
    /// Say how the store is doing, and what was counted. Answer: [`Answer::Health`].
    Health,
    /// Begin to make calls at a rate. Answer: [`Answer::Running`].
    Run(Run),
    /// Say how a run is going. Answer: [`Answer::Tally`].
    Tally {
        /// Which run.
        run: u64,
    },
    /// End a run. Calls that are under way are waited for. Answer: [`Answer::Tally`].
    Stop {
        /// Which run.
        run: u64,
    },
    /// Return all changes that observers heard since this was last asked. Answer: [`Answer::Changes`].
    Changes,
    /// Close the registry in good order, as a process does before it exits. Answer: [`Answer::Done`].
    Close,
    /// Give an operator's order. Answer: [`Answer::Done`].
    Obey {
        /// Whose circuit.
        key: String,
        /// The order.
        command: Operator,
    },
}

/// Calls at a rate.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Run {
    /// Whose circuits, and where to: one after the other, and round again.
    pub targets: Vec<Target>,
    /// How many calls a second, refused ones too. A call that takes long does not hold up the next.
    pub per_second: u32,
}

/// Where calls go.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Target {
    /// Whose circuit.
    pub key: String,
    /// Where to, at the receiver.
    pub path: String,
}

/// What a permit is settled with.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The call did well.
    Success,
    /// The call failed.
    Failure,
    /// The call failed, and the destination wants to be left alone for so long.
    RetryAfter {
        /// How long.
        ms: u64,
    },
    /// It says nothing.
    Ignored,
    /// The permit is dropped.
    Dropped,
}

/// What an operator can say.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Operator {
    /// Refuse every call.
    ForceOpen,
    /// Switch it off.
    Disable,
    /// End an override and probe.
    Release,
    /// Start anew.
    Reset,
}

impl From<Operator> for Command {
    fn from(order: Operator) -> Self {
        match order {
            Operator::ForceOpen => Self::ForceOpen,
            Operator::Disable => Self::Disable,
            Operator::Release => Self::Release,
            Operator::Reset => Self::Reset,
        }
    }
}

/// What a worker says.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// There is a permit.
    Permit {
        /// Its number.
        permit: u64,
        /// Whether it is a probe's.
        is_probe: bool,
    },
    /// There is none.
    Refused {
        /// The refusal's name.
        why: String,
        /// When to come back, if that is known.
        retry_in_ms: Option<u64>,
    },
    /// A call was made.
    Sent {
        /// The status; none: there was no answer.
        status: Option<u16>,
    },
    /// A permit was settled: `counted`, `uncounted` or `late`. A dropped one does not say.
    Settled {
        /// How.
        how: String,
    },
    /// What is known of a circuit.
    Circuit(Box<Known>),
    /// The states of all circuits.
    Circuits(Vec<Seen>),
    /// Changes that observers heard, in the order in which they heard them.
    Changes(Vec<HeardChange>),
    /// How the store is doing.
    Health(Health),
    /// A run has begun.
    Running {
        /// Its number.
        run: u64,
    },
    /// How a run goes, or went.
    Tally(Tally),
    /// It is done.
    Done,
    /// It can't be done.
    Error {
        /// Why.
        error: String,
    },
}

/// What one process knows of a circuit.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Known {
    /// The state's name.
    pub status: String,
    /// The whole record.
    pub record: Record,
    /// How often this process took a lease.
    pub leases_won: u64,
    /// How often it wanted to, and another was faster: both had read the same record.
    pub leases_lost: u64,
}

/// In what state a process has a circuit.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Seen {
    /// Whose circuit.
    pub key: String,
    /// The state's name.
    pub status: String,
    /// Since which change.
    pub epoch: Epoch,
}

/// One change of a circuit, as an observer of one process heard it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct HeardChange {
    /// The circuit's key.
    pub key: String,
    /// The name of the state before.
    pub from: String,
    /// The name of the state after.
    pub to: String,
    /// The epoch that began.
    pub epoch: Epoch,
}

/// How the store is doing, in one process's eyes.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Health {
    /// Why it is degraded; none: it is connected.
    pub degraded: Option<String>,
    /// How often this process was told that it is lost.
    pub losses: u64,
    /// How often this process was told that it is back.
    pub returns: u64,
    /// Requests to the store so far.
    pub requests: u64,
    /// How often the store took note of counts.
    pub merges: u64,
    /// Results that came too late, and changed nothing.
    pub late_results: u64,
    /// How often counts were told to a store that did not answer.
    pub unheard: u64,
}

/// What came of many asks.
#[derive(Clone, Default, Serialize, Deserialize, Debug)]
pub struct Tally {
    /// How many asks.
    pub asks: u64,
    /// How many were refused because the circuit was open.
    pub open: u64,
    /// How many were refused because somebody else was probing.
    pub probing: u64,
    /// How many were refused for another reason.
    pub refused: u64,
    /// How many permits were probes'.
    pub probes: u64,
    /// How many were ordinary.
    pub calls: u64,
    /// How many calls had an answer that was no success, or none.
    pub failed: u64,
    /// The longest ask.
    pub longest_ask_us: u64,
}

impl Tally {
    /// What came on top of an earlier state of the same tally. The longest ask is that of both.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            asks: self.asks - earlier.asks,
            open: self.open - earlier.open,
            probing: self.probing - earlier.probing,
            refused: self.refused - earlier.refused,
            probes: self.probes - earlier.probes,
            calls: self.calls - earlier.calls,
            failed: self.failed - earlier.failed,
            longest_ask_us: self.longest_ask_us,
        }
    }

    /// Both together.
    pub fn add(&mut self, more: &Self) {
        self.asks += more.asks;
        self.open += more.open;
        self.probing += more.probing;
        self.refused += more.refused;
        self.probes += more.probes;
        self.calls += more.calls;
        self.failed += more.failed;
        self.longest_ask_us = self.longest_ask_us.max(more.longest_ask_us);
    }
}
