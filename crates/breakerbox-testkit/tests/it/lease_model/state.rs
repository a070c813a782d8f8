//! The state at one moment: the time, the record, the workers, and the messages in flight.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

use breakerbox_core::fleet::{Member, Proposal};
use breakerbox_core::{Nonce, Record, Timestamp};

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct State {
    pub(crate) now: Timestamp,
    pub(crate) record: Option<Record>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) messages: Vec<Message>,
    /// The number of acquires that are still allowed in this run.
    pub(crate) asks: u8,
    /// The number of workers that may still die in this run.
    pub(crate) deaths: u8,
    /// The last lease that was granted and has not been released.
    pub(crate) lease: Option<Given>,
    pub(crate) seen: Seen,
}

/// The events that have happened in the run up to this state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) two_leases: bool,
    pub(crate) stale_result: bool,
    pub(crate) late_swap: bool,
    pub(crate) closed: bool,
    pub(crate) reopened: bool,
    /// Whether another worker got the lease after a lease had expired.
    pub(crate) taken_over: bool,
    pub(crate) refused_as_late: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Given {
    pub(crate) worker: usize,
    pub(crate) nonce: Nonce,
    pub(crate) expires_at: Timestamp,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Worker {
    pub(crate) life: u8,
    pub(crate) member: Member,
    pub(crate) asks: Asks,
    /// The worker's probe in progress.
    pub(crate) probe: Option<Probe>,
}

/// The response that a worker waits for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Asks {
    Nothing,
    Reading {
        since: Timestamp,
    },
    SwapParameters {
        since: Timestamp,
        proposal: Box<Proposal>,
        read_at: Timestamp,
    },
    /// The response to a swap did not arrive, so the worker reads whether the swap was applied.
    LookingUp {
        since: Timestamp,
        proposal: Box<Proposal>,
        read_at: Timestamp,
    },
}

/// The parts of a probe's permit. A permit can't be copied, but the model's states must be.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Probe {
    pub(crate) proposal: Box<Proposal>,
    pub(crate) leased_at: Timestamp,
    pub(crate) deadline: Timestamp,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Message {
    pub(crate) worker: usize,
    pub(crate) life: u8,
    pub(crate) what: What,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum What {
    Swap(Box<Proposal>),
    /// A probe's result, with its lease. The model ignores the store's response to the result.
    Result(Box<Proposal>, Nonce),
    Record {
        record: Option<Record>,
        now: Timestamp,
    },
    Swapped {
        won: bool,
        record: Option<Record>,
    },
}

impl State {
    /// Returns the lowest token that is not in use. Tokens are only compared, and reusing low values makes
    /// states equal that would differ only in tokens.
    pub(crate) fn token(&self) -> u128 {
        let text = self.text();
        let used = |token: u128| text.contains(&format!("({token:032x})"));
        (1..).find(|token| !used(*token)).expect("there are many numbers")
    }

    /// Returns the state's debug output, which is hashed because the core's types do not implement `Hash`.
    fn text(&self) -> String {
        let mut text = String::with_capacity(4_096);
        write!(text, "{self:?}").expect("there is memory");
        text
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.text().hash(hasher);
    }
}
