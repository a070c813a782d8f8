//! What a member of a fleet is asked with, and what it says.

use alloc::boxed::Box;
use core::time::Duration;

use crate::change::{Cause, Change, Step};
use crate::circuit::{Asked, Settled};
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::record::Record;
use crate::time::Timestamp;
use crate::token::{Epoch, Nonce, RandomBits, Version};

/// How long a fleet's members wait for each other and for the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waits {
    /// How long after a decision its record may still be swapped in.
    pub swap: Duration,
    /// How long the others have to report once a rule holds over what a process knows, before it opens the circuit. Zero:
    /// there are no others, or every outcome is in the store already.
    pub confirm: Duration,
}

/// How closely a fleet's processes keep together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Consistency {
    /// Calls are answered from what the process knows, and what it counts is told to the store in the background. A trip
    /// that somebody else saw is known after the time that a message takes.
    #[default]
    LocalFirst,
    /// Every ask reads the store, and every outcome is counted there before the caller goes on.
    Strict,
}

/// What every decision about a shared circuit needs.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'p> {
    /// The numbers.
    pub policy: &'p Policy,
    /// Random bits, fresh for every step.
    pub draw: RandomBits,
    /// The store's time.
    pub now: Timestamp,
    /// How long to wait.
    pub waits: Waits,
}

impl Moment<'_> {
    /// Until when something that is decided now may be swapped in.
    pub(super) fn swap_by(&self) -> Timestamp {
        self.now + self.waits.swap
    }
}

/// What came of an ask.
#[derive(PartialEq, Debug)]
#[must_use = "a permit must be settled"]
#[expect(
    clippy::large_enum_variant,
    reason = "most answers are decided here, and must not cost an allocation"
)]
pub enum MemberAnswer {
    /// It is decided here.
    Decided(Asked),
    /// This process has never heard of the circuit. Read its record, then ask again.
    Unknown,
    /// Somebody may probe, or every ask goes to the store. Read the record, then take the [lease](super::Member::lease).
    LeaseDue,
    /// The circuit ramps in this epoch: take a [place](super::Member::ramp_request) from the store.
    PlaceDue(Epoch),
}

/// A record that should be swapped in.
#[derive(Clone, PartialEq, Debug)]
pub struct Proposal {
    /// The version that it replaces; none if there must be no record yet.
    pub expected: Option<Version>,
    /// The record, and what observers hear if the swap wins.
    pub step: Step,
    /// When the store's time is past this, it must not be swapped in.
    pub not_after: Timestamp,
    /// After how long without a merge or a swap the record may be dropped; none: never.
    pub keep_for: Option<Duration>,
    /// The epoch and the lease of the probe whose result it is, if it is one. If the swap is lost, that came too late.
    pub result_of: Option<(Epoch, Nonce)>,
}

/// What came of settling a permit.
#[derive(Clone, PartialEq, Debug)]
pub struct Reported {
    /// How the outcome was taken, and what changed.
    pub settled: Settled,
    /// What the store should hear.
    pub tell: Tell,
}

/// What the store should hear, and how soon.
#[derive(Clone, PartialEq, Debug)]
pub enum Tell {
    /// Nothing.
    Nothing,
    /// Counts that can wait for a second: successes of a circuit under suspicion.
    Later,
    /// Counts, with the next batch.
    Soon,
    /// Counts, at once: calls are refused until it has answered, or another process called for reports.
    Now,
    /// Counts, after so long, unless they need not be reported any more by then. With whatever else is due at about that time.
    After(Duration),
    /// After so long, whatever there is: a trip is to be confirmed.
    In(Duration),
    /// [This one outcome](super::Delta::of_one), before the caller goes on. What it answers is
    /// [taken in](super::Member::told_one) each time.
    One {
        /// The epoch of its permit.
        epoch: Epoch,
        /// How the call went.
        outcome: Outcome,
    },
    /// A record to swap in.
    Swap(Box<Proposal>),
}

/// What a flush has left to do for a circuit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pending {
    /// Nothing: the store has heard everything.
    Nothing,
    /// Report the outcomes that the store has not heard of.
    Report {
        /// A trip waits for a confirmation: report again, even if there are no more outcomes.
        judging: bool,
    },
    /// Wait for the answer to a report that is under way.
    Answer {
        /// As for [`Report`](Self::Report).
        judging: bool,
    },
    /// Read the record first: the process decided alone, or its epoch is not in the store yet.
    Rejoin,
}

/// What came of learning the store's record.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Learnt {
    /// What observers hear.
    pub change: Option<Change>,
    /// The store had forgotten what this process knows: this is to be swapped in again.
    pub publish: Option<Box<Proposal>>,
    /// Somebody else probed, though this process is still probing, and its lease is live.
    pub overlapped: bool,
    /// This process has opened the circuit for itself alone.
    pub opened_locally: bool,
    /// The store gave this answer before this process saw a newer record. Nothing follows from it.
    pub overtaken: bool,
}

/// What came of telling the store.
#[derive(Clone, PartialEq, Debug)]
pub struct Told {
    /// What was learnt on the occasion.
    pub learnt: Learnt,
    /// What the store should hear next.
    pub tell: Tell,
    /// All processes are to be called upon to report what they have counted for this circuit.
    pub call_for_reports: bool,
}

impl Told {
    /// Nothing follows from it but what was learnt.
    pub(super) const fn nothing(learnt: Learnt) -> Self {
        Self { learnt, tell: Tell::Nothing, call_for_reports: false }
    }
}

/// What the store's own record and time say to somebody who wants to probe.
#[derive(PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "it is looked at once, and never kept")]
pub enum LeaseAnswer {
    /// Swap this in; [then](super::Member::leased) the probe is yours.
    Swap(Box<Proposal>),
    /// It was decided otherwise meanwhile.
    Decided(Asked),
    /// The circuit has closed, and ramps in this epoch: take a [place](super::Member::ramp_request).
    PlaceDue(Epoch),
}

impl Proposal {
    pub(super) fn new(expected: Option<Version>, step: Step, not_after: Timestamp, policy: &Policy) -> Self {
        let keep_for = step.record.keep_for(policy);
        Self { expected, step, not_after, keep_for, result_of: None }
    }

    /// A probe's result was refused in favour of this record: whether somebody else was given a probe while this one's lease
    /// was live. That happens only where a store loses writes, or its clock steps.
    #[must_use]
    pub fn was_overlapped(&self, there: Option<&Record>, now: Timestamp) -> bool {
        let (Some(own), Some(there)) = (self.result_of, there) else { return false };
        now <= self.not_after && is_of_another_probe(there, own)
    }
}

impl Reported {
    pub(super) const fn quietly(settled: Settled) -> Self {
        Self { settled, tell: Tell::Nothing }
    }
}

/// Whether a record shows that somebody else was given a probe after this one.
pub(super) fn is_of_another_probe(there: &Record, (epoch, nonce): (Epoch, Nonce)) -> bool {
    let probed = matches!(there.cause, Some(Cause::ProbeFailed | Cause::ProbesSucceeded));
    there.lease.is_some_and(|lease| lease.nonce != nonce) || there.epoch > epoch && probed
}
