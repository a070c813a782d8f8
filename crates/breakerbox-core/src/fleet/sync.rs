//! A member's exchange with the store: its reports, and the effect of the responses. `outage` has the decisions that
//! it makes while the store is unavailable.
//!
//! The newest epoch applies. If the store's record is older than the one that was read before, the store has lost
//! writes, and the record is published again.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use super::delta::{Delta, Merged};
use super::link::Seen;
use super::member::{Member, refused};
use super::reporting::{PendingTrip, PendingTripStep};
use super::results::{
    Consistency, Learnt, LeaseAnswer, Pending, Proposal, ReportDue, ReportResult, StepContext,
};
use crate::change::{Change, OverrideCommand, Step};
use crate::outcome::OpenedBy;
use crate::permit::{Permit, PermitKind, Refusal};
use crate::policy::Policy;
use crate::record::{Attribution, Record};
use crate::rule::TripRule;
use crate::time::Timestamp;
use crate::token::RandomBits;
use crate::transitions::Answer;

impl Member {
    /// Decides whether a caller gets the probe, based on the record and the time that the store has just returned.
    /// Returns the record to swap in for the lease, or how to proceed without a probe.
    pub fn lease(&mut self, record: Option<Record>, at: StepContext<'_>) -> (Learnt, LeaseAnswer) {
        let StepContext { policy, draw, now, .. } = at;
        let learnt = self.learn(record.clone(), at);
        if learnt.publish.is_some() {
            let retry_at = at.swap_by();
            return (learnt, LeaseAnswer::Decided(refused(Refusal::probing(retry_at, now))));
        }
        let Some(record) = self.newest(record, &learnt) else {
            return (learnt, LeaseAnswer::Decided(self.admit_here(policy, draw, now)));
        };
        let expected = Some(record.version);
        let (rebased, base) = match record.rebased_in_fleet(draw, now) {
            Some(rebased) => (true, rebased),
            None => (false, record),
        };
        let stands_back = self.link.as_ref().and_then(|link| link.stands_back(&base, now));
        let answer = match (base.acquire_in_fleet(policy, draw, now), stands_back) {
            (Answer::Probe(_), Some(refusal)) => LeaseAnswer::Decided(refused(refusal)),
            (Answer::Probe(step), None) => {
                LeaseAnswer::Swap(Box::new(Proposal::new(expected, *step, at.swap_by(), policy)))
            }
            // The record contains no lease, but corrected times.
            (Answer::Refuse(_), _) if rebased => {
                let step = Step { record: base, change: None };
                LeaseAnswer::Swap(Box::new(Proposal::new(expected, step, at.swap_by(), policy)))
            }
            (Answer::Refuse(refusal), _) => LeaseAnswer::Decided(refused(refusal)),
            (Answer::Admit, _) if self.needs_slot(policy) => LeaseAnswer::SlotDue(self.circuit.epoch()),
            (Answer::Admit, _) => LeaseAnswer::Decided(self.admit_here(policy, draw, now)),
        };
        (learnt, answer)
    }

    /// Handles a successful swap of a [lease](Self::lease)'s proposal. Returns the probe's permit, unless the
    /// proposal had no lease.
    pub fn leased(
        &mut self,
        proposal: &Proposal,
        policy: &Policy,
        now: Timestamp,
    ) -> (Option<Change>, Option<Permit>) {
        let change = self.won(proposal, policy, now);
        let Some(lease) = proposal.step.record.lease else { return (change, None) };
        if let Some(link) = &mut self.link {
            link.probe = Some(lease.nonce);
            link.stand_back = None;
        }
        let kind = PermitKind::Probe { nonce: lease.nonce, deadline: now + policy.probe_timeout() };
        (change, Some(Permit::new(proposal.step.record.epoch, kind, now)))
    }

    /// Returns the counts to [report](Self::report_due) to the store; `None` if no report is due, or if the previous
    /// one still awaits its response.
    pub fn take_delta(&mut self, key: &Arc<str>, policy: &Policy, now: Timestamp) -> Option<Delta> {
        // Counts since a decision without the store belong to an epoch that is not in the store yet.
        let is_published = self.is_published();
        let own = self.circuit.totals(now);
        let link = self.link.as_mut().filter(|link| !link.alone && is_published)?;
        link.take_delta(key, policy, &own, now)
    }

    /// Returns the work that remains before the store has all counts so far.
    #[must_use]
    pub fn pending(&self, now: Timestamp) -> Pending {
        let Some(link) = &self.link else { return Pending::Nothing };
        if link.awaits_answer() {
            return Pending::Answer { pending_trip: link.pending_trip.is_some() };
        }
        if !link.has_unreported(now) {
            return Pending::Nothing;
        }
        if link.alone || !self.is_published() {
            return Pending::Rejoin;
        }
        Pending::Report { pending_trip: link.pending_trip.is_some() }
    }

    /// Handles the store's response to a delta.
    pub fn reported(&mut self, merged: &Merged, at: StepContext<'_>) -> ReportResult {
        if let Some(link) = &mut self.link {
            link.answered((!merged.late).then_some(merged.totals), at.now);
        }
        self.one_reported(merged, OpenedBy::default(), at)
    }

    /// Handles the store's response to the report of a single outcome, that of the call `opened_by`. Reports of other outcomes may still await their responses.
    pub fn one_reported(
        &mut self,
        merged: &Merged,
        opened_by: OpenedBy,
        at: StepContext<'_>,
    ) -> ReportResult {
        let StepContext { policy, draw, now, waits } = at;
        let epoch = self.circuit.epoch();
        let learnt = self.learn(merged.record.clone(), at);
        let own = self.circuit.totals(now);
        let has_moved_on = epoch != self.circuit.epoch() || !self.is_published();
        let Some(link) = self.link.as_mut().filter(|link| !link.alone) else {
            return ReportResult::nothing(learnt);
        };
        if merged.late || has_moved_on || learnt.publish.is_some() || learnt.overtaken {
            link.pending_trip = None;
            return ReportResult::nothing(learnt);
        }
        // With strict consistency, the store already has the outcomes of all processes.
        let confirm =
            if link.consistency == Consistency::LocalFirst { waits.confirm } else { Duration::ZERO };
        let has_others = !confirm.is_zero();
        let is_suspected = has_others && link.suspicion.learn(&merged.totals, policy, now);
        let known = merged.record.clone().unwrap_or_else(|| Record::new(None, draw, now));
        let record = known.with_latest_outcomes(merged.latest);
        // A process without failures or slow calls leaves the decision to processes that have some: those wait for
        // the others' reports, and may be waiting for this one.
        let is_bystander = own.bad() == 0 && TripRule::first_broken(policy, &own).is_none();
        let opened_by = opened_by.max(link.opened_by());
        let evaluated = record.evaluate(&merged.totals, opened_by, policy, draw, now);
        let Some(step) = evaluated.filter(|_| !is_bystander) else {
            // The fleet's reports meet no rule. If this process waited to trip, it stops waiting.
            link.pending_trip = None;
            link.reported_retry_after = None;
            let opened_locally = self.trip_here(opened_by, at);
            let learnt = Learnt { opened_locally, ..learnt };
            return ReportResult { call_for_reports: is_suspected, ..ReportResult::nothing(learnt) };
        };
        let pending_trip = link.pending_trip.get_or_insert(PendingTrip::begin(now));
        let confirm = if TripRule::holds_for_good(policy, &merged.totals) { Duration::ZERO } else { confirm };
        if let PendingTripStep::Wait { wait, call } = pending_trip.go_on(confirm, &mut link.suspicion, now) {
            let call_for_reports = is_suspected || has_others && call;
            return ReportResult { learnt, report: ReportDue::In(wait), call_for_reports };
        }
        let step = step.refused_since(pending_trip.since, now);
        let expected = link.seen.and_then(|seen| seen.version);
        let proposal = Proposal::new(expected, step, at.swap_by(), policy);
        ReportResult { report: ReportDue::Swap(Box::new(proposal)), ..ReportResult::nothing(learnt) }
    }

    /// Handles a missing response to a delta, which the store may or may not have counted. The delta is not sent again,
    /// so counts may be lost, but are never counted twice.
    pub fn report_unanswered(&mut self, now: Timestamp) {
        if let Some(link) = &mut self.link {
            link.answered(None, now);
            link.pending_trip = None;
        }
    }

    /// Handles a successful swap of a proposal. Returns the change to publish to observers.
    pub fn won(&mut self, proposal: &Proposal, policy: &Policy, now: Timestamp) -> Option<Change> {
        let Some(link) = &mut self.link else { return None };
        let Step { record, change } = &proposal.step;
        if link.seen == Some(Seen::of(Some(record))) {
            // The store's pushed message arrived before its response, and the change has already been published.
            return None;
        }
        let is_news = |seen: Seen| {
            seen.epoch < record.epoch
                || seen.epoch == record.epoch
                    && !link.is_older_than_own_lease(&self.circuit, Some(record), now)
        };
        // A step that begins an epoch is the epoch's first record: any other known record in it was written later.
        let is_superseded = self.circuit.epoch() == record.epoch
            && !self.circuit.is_pristine()
            && (change.is_some() || record.is_followed_by(&self.circuit.record()));
        if is_superseded || !link.seen.is_none_or(is_news) {
            // A newer record is known, perhaps this process's own, and its change has already been published.
            return None;
        }
        link.note_seen(Seen::of(Some(record)), now);
        if !self.circuit.is_pristine() && self.circuit.epoch() > record.epoch {
            return self.won_an_older(record, policy, now);
        }
        if change.is_some() {
            link.begin_epoch();
        }
        self.circuit.apply(proposal.step.clone(), policy, now)
    }

    /// Handles a record that was read from the store.
    pub fn learn(&mut self, record: Option<Record>, at: StepContext<'_>) -> Learnt {
        let StepContext { policy, now, .. } = at;
        let is_published = self.is_published();
        let Some(link) = self.link.as_mut().filter(|link| !link.alone) else {
            return Learnt::default();
        };
        if !is_published {
            return self.reconcile(record, at);
        }
        let there = Seen::of(record.as_ref());
        if link.is_overtaken(there, now, at.waits.swap) {
            return Learnt { overtaken: true, ..Learnt::default() };
        }
        let Some(seen) = link.seen else {
            link.note_seen(there, now);
            return match record {
                Some(record) => self.adopt(record, at),
                None => Learnt::default(),
            };
        };
        if there == seen {
            link.seen_at = now;
            return Learnt::default();
        }
        if there.epoch == seen.epoch && link.is_older_than_own_lease(&self.circuit, record.as_ref(), now) {
            return Learnt::default();
        }
        match record {
            None if self.may_have_expired(policy, now) => self.forget(at),
            _ if there.epoch < seen.epoch => self.publish(there.version, at),
            Some(record) if self.is_in_epoch_of_record(&record) => self.follow(record, at),
            Some(record) => self.adopt(record, at),
            None => Learnt::default(),
        }
    }

    /// Returns the newest record that this process knows after a response: its own record if the response was
    /// overtaken, otherwise the record in the response.
    fn newest(&self, answered: Option<Record>, learnt: &Learnt) -> Option<Record> {
        if learnt.overtaken { Some(self.circuit.record()) } else { answered }
    }

    /// Returns the record to swap in for an operator's override, based on the record and the time that the store has
    /// just returned; `None` if the override changes nothing.
    pub fn apply_override(
        &mut self,
        record: Option<Record>,
        command: OverrideCommand,
        by: &Attribution,
        at: StepContext<'_>,
    ) -> (Learnt, Option<Proposal>) {
        let StepContext { policy, draw, now, .. } = at;
        let learnt = self.learn(record.clone(), at);
        let record = self.newest(record, &learnt);
        let expected = record.as_ref().map(|record| record.version);
        let mut known = record.unwrap_or_else(|| Record::new(None, draw, now));
        if !self.circuit.is_pristine() {
            // The override also replaces decisions made without the store, which would otherwise replace it when the
            // process rejoins.
            known.epoch = known.epoch.max(self.circuit.epoch());
        }
        // The store's record is as old as the latest transition. Outcomes counted since then must not be lost with
        // the window.
        let latest = known.latest_outcomes().merged_with(self.circuit.latest_outcomes().until(now));
        let known = known.with_latest_outcomes(latest);
        // A record that is published at the same time is another write, with the version from the original bits.
        let draw = RandomBits(draw.0.rotate_left(64) ^ 1);
        let step = known.apply_override(command, by, draw, now);
        (learnt, step.map(|step| Proposal::new(expected, step, at.swap_by(), policy)))
    }
}
