//! One process's circuit: not shared, or one of many that share a record in a store.
//!
//! A circuit that is not shared is just a [`Circuit`]. In a fleet, a member counts outcomes for itself and for the
//! store, and decides what to report to the store; `sync` handles the responses.

use alloc::boxed::Box;
use core::time::Duration;

use super::link::{Link, Seen};
use super::local::LocalCircuit;
use super::reporting::{Due, PendingTrip};
use super::results::{Consistency, MemberAnswer, MemberSettled, Proposal, ReportDue, StepContext};
use super::stand_back::StandBack;
use crate::change::{Change, OverrideCommand};
use crate::circuit::{AcquireResult, Circuit, Settled, Settlement};
use crate::fault::Fault;
use crate::outcome::{Outcome, OutcomeKind};
use crate::permit::{Decision, Permit, PermitKind, Refusal};
use crate::policy::Policy;
use crate::record::{Attribution, State};
use crate::rule::TripRule;
use crate::time::Timestamp;
use crate::token::{Epoch, RandomBits};
use crate::transitions::Answer;

/// One process's circuit, which may share its record with other processes through a store.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    pub(super) circuit: Circuit,
    /// The state that sharing requires; `None` if the circuit is not shared.
    pub(super) link: Option<Box<Link>>,
}

impl Member {
    /// Creates a circuit that is not shared.
    #[must_use]
    pub fn alone(policy: &Policy, now: Timestamp) -> Self {
        Self { circuit: Circuit::new(policy, now), link: None }
    }

    /// Creates a circuit that a fleet shares. The circuit's record has not been read from the store yet.
    #[must_use]
    pub fn of_fleet(policy: &Policy, consistency: Consistency, now: Timestamp) -> Self {
        Self { circuit: Circuit::new(policy, now), link: Some(Box::new(Link::new(policy, consistency))) }
    }

    /// Returns the same circuit for a store that no other process uses, so that no probe waits for other processes.
    #[must_use]
    pub fn exclusive(mut self) -> Self {
        if let Some(link) = &mut self.link {
            link.is_exclusive = true;
        }
        self
    }

    /// Returns the circuit's state as this process knows it.
    #[must_use]
    pub const fn circuit(&self) -> &Circuit {
        &self.circuit
    }

    /// Whether this process knows the store's record, or knows that there is none.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.link.as_ref().is_none_or(|link| link.seen.is_some())
    }

    /// Whether every permit requires the store, as long as the store is available.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        let is_strict = |link: &Link| link.consistency == Consistency::Strict && !link.alone;
        self.link.as_deref().is_some_and(is_strict)
    }

    /// Whether this circuit can be dropped without losing counts or state.
    #[must_use]
    pub fn is_forgettable(&self, policy: &Policy, now: Timestamp) -> bool {
        self.is_forgettable_but_for_run(policy, now) && self.circuit.totals(now).failure_run == 0
    }

    /// Whether this circuit can be dropped without losing counts or state, except a run of failures that is older than
    /// the window.
    #[must_use]
    pub fn is_forgettable_but_for_run(&self, policy: &Policy, now: Timestamp) -> bool {
        self.circuit.is_forgettable(policy, now)
            && self.circuit.totals(now).calls() == 0
            && self.link.as_ref().is_none_or(|link| {
                let is_forgettable = |local: &LocalCircuit| local.is_forgettable(policy, now);
                !link.has_unreported(now) && link.local.as_deref().is_none_or(is_forgettable)
            })
    }

    /// Returns whether and how soon to report to the store. Call this again after every step, because a step may make a
    /// report unnecessary.
    #[must_use]
    pub fn report_due(&self, policy: &Policy, now: Timestamp) -> ReportDue {
        let Some(link) = self.link.as_ref().filter(|link| !link.alone) else {
            return ReportDue::Nothing;
        };
        // Counts since a decision without the store belong to an epoch that is not in the store yet.
        if !self.is_published() {
            return ReportDue::Nothing;
        }
        match link.due(policy, &self.circuit.totals(now), now) {
            Due::Never => ReportDue::Nothing,
            Due::After(wait) => ReportDue::After(wait),
            Due::Later => ReportDue::Later,
            Due::Soon => ReportDue::Soon,
            Due::Now => ReportDue::Now,
        }
    }

    /// Handles another process's request for reports. All unreported counts of this process become due at once.
    pub fn handle_report_call(&mut self, policy: &Policy, now: Timestamp) {
        let Some(link) = self.link.as_mut().filter(|link| !link.alone) else { return };
        if link.consistency == Consistency::LocalFirst && link.seen.is_some() {
            link.handle_report_call(policy, now);
        }
    }

    /// Makes a report of all unreported counts due at once, for a flush, even if no rule requires the report.
    pub fn request_report(&mut self, now: Timestamp) {
        if let Some(link) = &mut self.link {
            link.request_report(now);
        }
    }

    /// Whether calls are refused because the counts that this process knows meet a rule, while the other processes'
    /// reports are awaited.
    #[must_use]
    pub fn is_trip_pending(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.pending_trip.is_some())
    }

    /// Adjusts times after the clock was set from `before` to `after`. Counts keep their age, and so do decisions that
    /// are not in the store; records from the store do not change. A process that does not know the store's time yet
    /// decides by its own clock, which may be hours off. Such a decision must be converted before it is published.
    pub fn clock_moved(&mut self, policy: &Policy, before: Timestamp, after: Timestamp) {
        let is_own =
            (!self.is_published() || self.circuit.is_pristine()) && !policy.has_fault(Fault::KeepsOwnTimes);
        self.circuit.clock_moved(before, after);
        if let Some(link) = &mut self.link {
            link.clock_moved(before, after);
            if is_own {
                let epoch = self.circuit.epoch();
                self.circuit.record_moved(before, after);
                if self.circuit.epoch() != epoch {
                    link.begin_epoch();
                }
            }
        }
    }

    /// Applies an operator's override to a circuit that is not shared. In a fleet, use
    /// [`apply_override`](Self::apply_override).
    pub fn apply_override_alone(
        &mut self,
        command: OverrideCommand,
        by: &Attribution,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) -> Option<Change> {
        self.circuit.apply_override(command, by, policy, draw, now)
    }

    /// Whether a caller may count fast successes itself, as for [`Circuit::allows_fast_path`].
    #[must_use]
    pub fn allows_fast_path(&self, policy: &Policy, now: Timestamp) -> bool {
        match &self.link {
            Some(link) if !link.alone => {
                link.consistency == Consistency::LocalFirst
                    && link.seen.is_some()
                    && link.pending_trip.is_none()
                    && !link.is_open_locally()
                    // Under suspicion every outcome is reported; successes that a caller counts by itself would be
                    // missing.
                    && !link.suspicion.holds(now)
                    && !link.awaits_success()
                    && self.circuit.allows_fast_path(policy, now)
                    && !TripRule::successes_could_break(policy, &link.totals(policy, now))
            }
            _ => self.circuit.allows_fast_path(policy, now),
        }
    }

    /// Adds successes that the caller counted itself in the current epoch.
    pub fn add_successes(&mut self, successes: u32, latency_sum: Duration, policy: &Policy, now: Timestamp) {
        self.circuit.add_successes(successes, latency_sum, policy, now);
        if let Some(link) = self.link.as_mut().filter(|_| successes > 0) {
            link.add_successes(successes, latency_sum, policy, now);
            self.add_successes_here(successes, latency_sum, policy, now);
        }
    }

    /// Acquires a permit. If the store is required, returns which access to the store must come first.
    pub fn try_acquire(&mut self, policy: &Policy, draw: RandomBits, now: Timestamp) -> MemberAnswer {
        let Some(link) = self.link.as_ref().filter(|link| !link.alone) else {
            return MemberAnswer::Decided(self.by_itself(|circuit| circuit.try_acquire(policy, draw, now)));
        };
        if link.consistency == Consistency::Strict {
            return MemberAnswer::LeaseDue;
        }
        if link.seen.is_none() {
            return MemberAnswer::Unknown;
        }
        if link.pending_trip.is_some() {
            return MemberAnswer::Decided(refused(Refusal::TripPending));
        }
        let record = self.circuit.record();
        if record.state != State::Closed && record.rebased_in_fleet(draw, now).is_some() {
            // The store's clock seems to have stepped back; only a response from the store can confirm it.
            return MemberAnswer::LeaseDue;
        }
        match record.acquire_in_fleet(policy, draw, now) {
            Answer::Admit if self.needs_slot(policy) => MemberAnswer::SlotDue(self.circuit.epoch()),
            Answer::Admit => MemberAnswer::Decided(self.admit_here(policy, draw, now)),
            Answer::Refuse(refusal) => MemberAnswer::Decided(refused(refusal)),
            Answer::Probe(_) => match link.stands_back(&record, now) {
                Some(refusal) => MemberAnswer::Decided(refused(refusal)),
                None => MemberAnswer::LeaseDue,
            },
        }
    }

    /// Acquires a permit without waiting for the store. If the circuit's record is unknown, the circuit is treated as
    /// closed.
    pub fn acquire_at_once(&mut self, policy: &Policy, draw: RandomBits, now: Timestamp) -> MemberAnswer {
        match self.try_acquire(policy, draw, now) {
            MemberAnswer::Unknown => MemberAnswer::Decided(self.admit(policy, now)),
            answer => answer,
        }
    }

    /// Acquires a permit based on what this process knows, after the store did not respond. A probe that is due is
    /// refused, because only the store gives probes.
    pub fn acquire_unanswered(&mut self, retry_at: Timestamp, at: StepContext<'_>) -> AcquireResult {
        let StepContext { policy, draw, now, .. } = at;
        match self.circuit.record().try_acquire(policy, draw, now) {
            Answer::Admit => self.admit_here(policy, draw, now),
            Answer::Refuse(refusal) => refused(refusal),
            Answer::Probe(_) => refused(Refusal::probing(retry_at, now)),
        }
    }

    /// Settles a permit with its call's outcome.
    pub fn settle(
        &mut self,
        permit: Permit,
        outcome: &Outcome,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) -> MemberSettled {
        let Some(link) = &mut self.link else {
            return MemberSettled::quietly(self.circuit.settle(permit, outcome, policy, draw, now));
        };
        let is_of_store = match permit.kind {
            PermitKind::Probe { nonce, .. } => {
                let is_own = link.probe.take_if(|probe| *probe == nonce).is_some();
                // This includes a permit that was passed on as a ticket, or given by another process, if the record
                // is as the store had it.
                is_own || link.seen == Some(Seen::of(Some(&self.circuit.record())))
            }
            _ => false,
        };
        if link.alone {
            if is_of_store {
                // The store gave the lease, so only the store can accept its result.
                return MemberSettled::quietly(Settled::LATE);
            }
            if permit.epoch == self.circuit.epoch() && !permit.is_probe() && self.circuit.is_automatic() {
                link.count(outcome, policy, now);
            }
            let settle = |circuit: &mut Circuit| circuit.settle(permit, outcome, policy, draw, now);
            return MemberSettled::quietly(self.by_itself(settle));
        }
        let Permit { epoch, kind, local_probe, .. } = permit;
        if epoch != self.circuit.epoch() {
            return MemberSettled::quietly(match kind {
                PermitKind::Uncounted => Settled::UNCOUNTED,
                _ => Settled::LATE,
            });
        }
        match kind {
            PermitKind::Uncounted => MemberSettled::quietly(Settled::UNCOUNTED),
            _ if !self.circuit.is_automatic() => MemberSettled::quietly(Settled::UNCOUNTED),
            PermitKind::Probe { nonce, .. } => {
                let record = self.circuit.record();
                let (expected, lease) = (Some(record.version), record.lease);
                let step = record.settle_probe(epoch, nonce, outcome, policy, draw, now);
                let Some((step, lease)) = step.zip(lease) else {
                    return MemberSettled::quietly(Settled::LATE);
                };
                if outcome.kind == OutcomeKind::Failure
                    && !link.is_exclusive
                    && !policy.has_fault(Fault::NoStandBack)
                {
                    link.stand_back = StandBack::after(&step.record);
                }
                let settlement = match outcome.kind {
                    OutcomeKind::Ignored => Settlement::Uncounted,
                    OutcomeKind::Success | OutcomeKind::Failure => Settlement::Counted,
                };
                // Another process may take the lease once it has expired.
                let not_after = Timestamp::from_micros(lease.expires_at.as_micros().saturating_sub(1));
                let proposal = Proposal {
                    result_of: Some((epoch, nonce)),
                    ..Proposal::new(expected, step, not_after, policy)
                };
                MemberSettled {
                    settled: Settled { settlement, change: None },
                    report: ReportDue::Swap(Box::new(proposal)),
                }
            }
            PermitKind::Ramped { generation } => {
                self.circuit.settle_on_ramp(generation, outcome, policy, now);
                self.settle_here(local_probe, outcome, policy, draw, now);
                self.count(outcome, policy, now)
            }
            PermitKind::Call | PermitKind::OnRamp { .. } => {
                self.settle_here(local_probe, outcome, policy, draw, now);
                self.count(outcome, policy, now)
            }
        }
    }

    /// Makes a step that does not require the store. If the step begins an epoch, drops the unreported counts, which
    /// belong to the previous epoch.
    fn by_itself<R>(&mut self, step: impl FnOnce(&mut Circuit) -> R) -> R {
        let epoch = self.circuit.epoch();
        let result = step(&mut self.circuit);
        if let Some(link) = self.link.as_mut().filter(|_| self.circuit.epoch() != epoch) {
            link.begin_epoch();
        }
        result
    }

    /// Counts an ordinary call's outcome, in this process and for the store.
    fn count(&mut self, outcome: &Outcome, policy: &Policy, now: Timestamp) -> MemberSettled {
        let is_published = self.is_published();
        if outcome.kind == OutcomeKind::Ignored {
            return MemberSettled::quietly(Settled::UNCOUNTED);
        }
        self.circuit.put_in_window(outcome, policy, now);
        let is_broken_here = self.is_broken_here(policy, now);
        let Some(link) = &mut self.link else { return MemberSettled::quietly(Settled::UNCOUNTED) };
        if link.consistency == Consistency::Strict {
            // The store must not count an outcome from an unpublished epoch in the epoch that it has.
            let seen = link.seen.map_or(Epoch::default(), |seen| seen.epoch);
            let epoch = if is_published { seen } else { self.circuit.epoch() };
            return MemberSettled {
                settled: Settled::COUNTED,
                report: ReportDue::One { epoch, outcome: *outcome },
            };
        }
        link.count(outcome, policy, now);
        let is_broken = TripRule::first_broken(policy, &link.totals(policy, now)).is_some();
        let report = if is_broken || is_broken_here {
            link.pending_trip.get_or_insert(PendingTrip::begin(now));
            ReportDue::Now
        } else {
            let report = self.report_due(policy, now);
            if let Some(link) =
                self.link.as_mut().filter(|link| report == ReportDue::Nothing && !link.awaits_answer())
            {
                // No decision will use this outcome, so its retry-after is dropped.
                link.retry_after = None;
            }
            report
        };
        MemberSettled { settled: Settled::COUNTED, report }
    }

    pub(super) fn admit(&mut self, policy: &Policy, now: Timestamp) -> AcquireResult {
        AcquireResult { decision: self.circuit.admit(policy, now), change: None }
    }
}

pub(super) const fn refused(refusal: Refusal) -> AcquireResult {
    AcquireResult { decision: Decision::Refused(refusal), change: None }
}
