//! What there is at one moment: the time, the record, the workers, and what is on its way.

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
    /// How often somebody may still ask.
    pub(crate) asks: u8,
    /// How many more workers may die.
    pub(crate) deaths: u8,
    /// The lease that was given last, and has not been given back.
    pub(crate) lease: Option<Given>,
    pub(crate) seen: Seen,
}

/// What has happened on the way here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) two_leases: bool,
    pub(crate) stale_result: bool,
    pub(crate) late_swap: bool,
    pub(crate) closed: bool,
    pub(crate) reopened: bool,
    /// A lease ran out, and somebody else got one.
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
    /// The probe that it makes.
    pub(crate) probe: Option<Probe>,
}

/// What it waits for.
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
    /// The answer did not come: it reads whether the swap took place.
    LookingUp {
        since: Timestamp,
        proposal: Box<Proposal>,
        read_at: Timestamp,
    },
}

/// A permit can't be copied, and states are: this is what it is made of.
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
    /// A probe's result, with the lease that it belongs to. Its answer changes nothing that matters here.
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
    /// The least token that nobody holds any more, or yet: tokens are only compared, so which one it is does not matter, and
    /// states that differ in nothing else are one.
    pub(crate) fn token(&self) -> u128 {
        let text = self.text();
        let used = |token: u128| text.contains(&format!("({token:032x})"));
        (1..).find(|token| !used(*token)).expect("there are many numbers")
    }

    /// The core's types have no hash; what they print says all there is.
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
