//! The arguments and results of a fleet member's functions.

use alloc::boxed::Box;
use core::time::Duration;

use crate::change::{Cause, Change, Step};
use crate::circuit::{AcquireResult, Settled};
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::record::Record;
use crate::time::Timestamp;
use crate::token::{Epoch, Nonce, RandomBits, Version};

/// The maximum times that a fleet's processes wait for each other and for the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waits {
    /// The time after a decision within which its record may be swapped in.
    pub swap: Duration,
    /// The time that the other processes have to report before a process opens the circuit, once the counts that it
    /// knows meet a rule. Zero if there are no other processes, or if every outcome is already in the store.
    pub confirm: Duration,
}

/// The consistency of a fleet's circuits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Consistency {
    /// A process decides based on what it knows, and reports its counts to the store in the background. It learns of
    /// another process's trip as soon as the store's message arrives.
    #[default]
    LocalFirst,
    /// Acquiring a permit always reads the store, and every outcome is counted there before the caller continues.
    Strict,
}

/// The arguments that every decision about a shared circuit needs.
#[derive(Clone, Copy, Debug)]
pub struct StepContext<'p> {
    /// The circuit's policy.
    pub policy: &'p Policy,
    /// Random bits, new for every step.
    pub draw: RandomBits,
    /// The current time by the store's clock.
    pub now: Timestamp,
    /// The maximum times to wait for the store and for other processes.
    pub waits: Waits,
}

impl StepContext<'_> {
    /// Returns the time until which a decision made now may be swapped in.
    pub(super) fn swap_by(&self) -> Timestamp {
        self.now + self.waits.swap
    }
}

/// The result of acquiring a permit from a [`Member`](super::Member).
#[derive(PartialEq, Debug)]
#[must_use = "a permit must be settled"]
#[expect(
    clippy::large_enum_variant,
    reason = "most answers are decided here, and must not cost an allocation"
)]
pub enum MemberAnswer {
    /// The process has decided.
    Decided(AcquireResult),
    /// The process does not know the circuit's record. Read it from the store, then acquire again.
    Unknown,
    /// A probe is due, or every permit requires the store. Read the record from the store, then decide with
    /// [`lease`](super::Member::lease).
    LeaseDue,
    /// The circuit is ramping up in this epoch. Take a [slot](super::Member::ramp_request) from the store.
    SlotDue(Epoch),
}

/// A record to write to the store by compare-and-swap.
#[derive(Clone, PartialEq, Debug)]
pub struct Proposal {
    /// The version that the record replaces; `None` if there must be no record yet.
    pub expected: Option<Version>,
    /// The record, and the change to publish if the swap succeeds.
    pub step: Step,
    /// The time, by the store's clock, after which the record must not be swapped in.
    pub not_after: Timestamp,
    /// How long the store must keep the record after its latest merge or swap; `None` means forever.
    pub keep_for: Option<Duration>,
    /// If the record contains a probe's result, the epoch and lease nonce of that probe; otherwise `None`. If the swap
    /// fails, the probe's result is late.
    pub result_of: Option<(Epoch, Nonce)>,
}

/// The result of settling a permit in a [`Member`](super::Member).
#[derive(Clone, PartialEq, Debug)]
pub struct MemberSettled {
    /// Whether the outcome counted, and the change that it caused, if any.
    pub settled: Settled,
    /// The report to send to the store.
    pub report: ReportDue,
}

/// A report to the store, and how soon it is due.
#[derive(Clone, PartialEq, Debug)]
pub enum ReportDue {
    /// No report is due.
    Nothing,
    /// Report the counts within a second. All of them are successes, for a circuit under suspicion.
    Later,
    /// Report the counts with the next batch.
    Soon,
    /// Report the counts at once, because calls are refused until the store has responded, or because another process
    /// called for reports.
    Now,
    /// Report the counts after this time, together with other reports due at about that time, unless the report has
    /// become unnecessary by then.
    After(Duration),
    /// Report after this time, even without counts, because a trip awaits confirmation.
    In(Duration),
    /// Report [this single outcome](super::Delta::of_one) before the caller continues, and pass each response to
    /// [`one_reported`](super::Member::one_reported).
    One {
        /// The epoch of the permit.
        epoch: Epoch,
        /// The outcome of the call.
        outcome: Outcome,
    },
    /// Swap in this record, which contains a probe's result or a trip.
    Swap(Box<Proposal>),
}

/// The work that remains for a circuit before a flush is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pending {
    /// No work remains, because the store has all counts.
    Nothing,
    /// Report the counts that the store does not have.
    Report {
        /// Whether a trip awaits confirmation. If so, report again, even without further outcomes.
        pending_trip: bool,
    },
    /// Wait for the response to a report that was sent.
    Answer {
        /// Whether a trip awaits confirmation, as in [`Report`](Self::Report).
        pending_trip: bool,
    },
    /// Read the record first, because the process decided without the store, or the store does not have the process's
    /// epoch yet.
    Rejoin,
}

/// The result of reading the store's record.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Learnt {
    /// The change to publish to observers; `None` if the state did not change.
    pub change: Option<Change>,
    /// The record to swap in, if this process has a state that the store does not have; otherwise `None`.
    pub publish: Option<Box<Proposal>>,
    /// Whether another process was given a probe while this process's own probe was in flight with a live lease.
    pub overlapped: bool,
    /// Whether this process opened its process-local circuit.
    pub opened_locally: bool,
    /// Whether the store gave the response before this process saw a newer record, so that the response was ignored.
    pub overtaken: bool,
}

/// The result of a report to the store.
#[derive(Clone, PartialEq, Debug)]
pub struct ReportResult {
    /// The effect of the record in the response.
    pub learnt: Learnt,
    /// The next report to the store.
    pub report: ReportDue,
    /// Whether to ask all processes to report their counts for this circuit.
    pub call_for_reports: bool,
}

impl ReportResult {
    /// Returns a result with which no further report is due, and no reports are requested.
    pub(super) const fn nothing(learnt: Learnt) -> Self {
        Self { learnt, report: ReportDue::Nothing, call_for_reports: false }
    }
}

/// The decision about a probe, based on the store's current record and time.
#[derive(PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "it is looked at once, and never kept")]
pub enum LeaseAnswer {
    /// Swap in this record. If the swap [succeeds](super::Member::leased), the caller has the probe.
    Swap(Box<Proposal>),
    /// No probe can be taken. Contains the decision based on the store's current record.
    Decided(AcquireResult),
    /// The circuit has closed and is ramping up in this epoch. Take a [slot](super::Member::ramp_request) from the
    /// store.
    SlotDue(Epoch),
}

impl Proposal {
    pub(super) fn new(expected: Option<Version>, step: Step, not_after: Timestamp, policy: &Policy) -> Self {
        let keep_for = step.record.keep_for(policy);
        Self { expected, step, not_after, keep_for, result_of: None }
    }

    /// Whether another process was given a probe while this process's lease was live. `there` is the record that made
    /// the swap of this probe's result fail. Such an overlap happens only if the store loses writes, or its clock
    /// steps.
    #[must_use]
    pub fn was_overlapped(&self, there: Option<&Record>, now: Timestamp) -> bool {
        let (Some(own), Some(there)) = (self.result_of, there) else { return false };
        now <= self.not_after && is_of_another_probe(there, own)
    }
}

impl MemberSettled {
    pub(super) const fn quietly(settled: Settled) -> Self {
        Self { settled, report: ReportDue::Nothing }
    }
}

/// Whether the record `there` shows that another probe was given after the probe with this epoch and nonce.
pub(super) fn is_of_another_probe(there: &Record, (epoch, nonce): (Epoch, Nonce)) -> bool {
    let probed = matches!(there.cause, Some(Cause::ProbeFailed | Cause::ProbesSucceeded));
    there.lease.is_some_and(|lease| lease.nonce != nonce) || there.epoch > epoch && probed
}
