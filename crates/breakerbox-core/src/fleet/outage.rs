//! A member's decisions while the store is unavailable, and their effect when it is available again.
//!
//! Two questions are separate: whether the store is available, and whether the store has this process's current
//! state. A state that the store does not have is a proposal, and remains one through any number of outages, until it
//! is swapped in or replaced:
//!
//! | the store has | then |
//! | --- | --- |
//! | the record that was last seen in it, or an older one | the proposal is swapped in and replaces it |
//! | another record, with a newer epoch than the proposal | that record applies, in its epoch |
//! | another record, with an older epoch than the proposal | that record applies, in a new epoch, which is swapped in, unless a probe has a live lease |
//! | none, and the proposal is so old that a closed record would have expired since | the proposal is dropped |
//!
//! So epochs only increase: in the store, in this process, and for its observers, which receive every state that
//! replaces another.

use alloc::boxed::Box;
use core::mem::discriminant;

use super::link::Seen;
use super::member::Member;
use super::results::{Learnt, Proposal, StepContext, is_of_another_probe};
use crate::change::{Cause, Change, Step};
use crate::circuit::Circuit;
use crate::fault::Fault;
use crate::policy::Policy;
use crate::record::{CircuitStatus, Mode, Record};
use crate::time::Timestamp;
use crate::token::{Epoch, Version};

impl Member {
    /// Whether the store has this process's current state, as far as this process knows. If false, the state is only a
    /// proposal.
    #[must_use]
    pub fn is_published(&self) -> bool {
        let Some(link) = &self.link else { return true };
        match link.seen.filter(|seen| seen.version.is_some()) {
            Some(seen) => seen.epoch == self.circuit.epoch(),
            None => self.circuit.is_pristine(),
        }
    }

    /// Whether outcomes are reported to the store, so that the responses tell this process of record changes. If false,
    /// the record must be read periodically.
    #[must_use]
    pub fn tells_by_itself(&self) -> bool {
        self.circuit.counts_calls()
            && self.is_published()
            && self.link.as_ref().is_none_or(|link| !link.alone)
    }

    /// Marks the store as unavailable. From now on this process decides by itself, starting from the state that it
    /// knows.
    pub fn leave(&mut self) {
        if let Some(link) = &mut self.link {
            link.alone = true;
            link.pending_trip = None;
            link.local = None;
        }
    }

    /// Handles the first record after an outage of the store. If the store's record has not changed, proposes the
    /// decisions made during the outage. Otherwise the store's record applies, in a new epoch if its epoch is older
    /// than these decisions.
    pub fn rejoin(&mut self, record: Option<Record>, at: StepContext<'_>) -> Learnt {
        let Some(link) = &mut self.link else { return Learnt::default() };
        let was_alone = core::mem::take(&mut link.alone);
        let is_as_seen = link.seen == Some(Seen::of(record.as_ref()));
        if let Some(record) = record.clone().filter(|_| was_alone && is_as_seen)
            && (self.is_published() || at.policy.has_fault(Fault::DropsProposals))
        {
            // A lease that was taken without the store, within the epoch, is not in the store, so it ends here.
            self.circuit.apply(Step { record, change: None }, at.policy, at.now);
        } else if was_alone && !self.is_published() {
            self.end_own_lease(at);
        }
        self.learn(record, at)
    }

    /// Ends a lease that was taken without the store. The lease is not published, because the next lease must come from
    /// the store.
    fn end_own_lease(&mut self, at: StepContext<'_>) {
        let record = self.circuit.record();
        let released = self.link.as_ref().and_then(|link| link.probe);
        if record.lease.is_some_and(|lease| Some(lease.nonce) != released) {
            let record = Record { lease: None, ..record };
            self.circuit.apply(Step { record, change: None }, at.policy, at.now);
        }
    }

    /// Handles a change that the store pushed. The message may be old, for example if this process was paused. It shows
    /// that the store had this record, but not that the store still has it.
    pub fn handle_change(&mut self, record: Record, at: StepContext<'_>) -> Learnt {
        let (announced, changed_at) = (Seen::of(Some(&record)), record.changed_at);
        let seen_at = self.link.as_ref().map_or(changed_at, |link| link.seen_at.max(changed_at));
        let learnt = self.learn(Some(record), at);
        if let Some(link) = self.link.as_mut().filter(|link| link.seen == Some(announced)) {
            link.seen_at = seen_at.min(at.now);
        }
        learnt
    }

    /// Handles a record from the store while this process has a state that, as far as it knows, is not in the store.
    pub(super) fn reconcile(&mut self, record: Option<Record>, at: StepContext<'_>) -> Learnt {
        let StepContext { policy, now, .. } = at;
        let Some(link) = &mut self.link else { return Learnt::default() };
        let there = Seen::of(record.as_ref());
        let seen = *link.seen.get_or_insert(Seen::of(None));
        if there != seen && there.epoch >= seen.epoch {
            return match record {
                Some(record) if self.is_in_epoch_of_record(&record) => self.follow(record, at),
                Some(record) => self.adopt(record, at),
                None => self.forget(at),
            };
        }
        if record.is_none() && self.may_have_expired(policy, now) {
            return self.forget(at);
        }
        if record.is_some_and(|record| record.lease.is_some_and(|lease| lease.is_live(now))) {
            // Another process is probing. Either its result applies, or its lease expires.
            return Learnt::default();
        }
        self.publish(there.version, at)
    }

    /// Whether this record has the same epoch and state as this process. Two processes that decide without the store
    /// may give different states the same epoch.
    pub(super) fn is_in_epoch_of_record(&self, record: &Record) -> bool {
        record.epoch == self.circuit.epoch() && !self.differs_from(record)
    }

    /// Whether the record's state or mode differs from this process's. The operator, the reason and the number of trips
    /// are not compared.
    fn differs_from(&self, record: &Record) -> bool {
        let own = self.circuit.record();
        own.status() != record.status() || discriminant(&own.mode) != discriminant(&record.mode)
    }

    /// Adopts a record that was written within the current epoch.
    pub(super) fn follow(&mut self, record: Record, at: StepContext<'_>) -> Learnt {
        if let Some(link) = &mut self.link {
            link.note_seen(Seen::of(Some(&record)), at.now);
        }
        self.circuit.apply(Step { record, change: None }, at.policy, at.now);
        Learnt::default()
    }

    /// Replaces this process's record with the store's. If this process made newer decisions without the store, the
    /// store's record gets a new epoch, and must be swapped in with it.
    pub(super) fn adopt(&mut self, record: Record, at: StepContext<'_>) -> Learnt {
        let StepContext { policy, now, .. } = at;
        let there = Seen::of(Some(&record));
        let own_lease = self.link.as_ref().and_then(|link| link.own_lease(&self.circuit, now));
        let overlapped =
            own_lease.is_some_and(|own| is_of_another_probe(&record, (self.circuit.epoch(), own.nonce)));
        let is_forgotten =
            self.link.as_ref().is_some_and(|link| link.forgotten.is_some_and(|last| record.epoch <= last));
        let is_older = is_forgotten || !self.circuit.is_pristine() && record.epoch <= self.circuit.epoch();
        let is_leased = record.lease.is_some_and(|lease| lease.is_live(now));
        let record = if is_older { self.in_new_epoch(record, now) } else { record };
        let change = self.change_to(&record);
        if let Some(link) = &mut self.link {
            link.note_seen(there, now);
            link.begin_epoch();
        }
        let known = self.circuit.latest_outcomes().until(now).last_success;
        self.circuit =
            Circuit::from_record(record, policy, now).joining_ramp(policy, now).with_success_at(known);
        // A probe depends on its lease's epoch: while the lease is live, only its holder may write.
        let publish = (is_older && !is_leased).then(|| self.proposal(there.version, at));
        Learnt { change, publish, overlapped, ..Learnt::default() }
    }

    /// Returns the store's record, which is older than this process's decisions, with a new epoch. If this process's
    /// state already results from the same change, the record gets this process's current epoch.
    fn in_new_epoch(&self, record: Record, now: Timestamp) -> Record {
        let own = self.circuit.epoch();
        let is_there = !self.differs_from(&record) && self.is_at_change_of(&record);
        Record { epoch: if is_there { own } else { record.epoch.max(own).next(now) }, ..record }
    }

    /// Whether this record and this process's record result from the same change.
    fn is_at_change_of(&self, record: &Record) -> bool {
        let own = self.circuit.record();
        (&own.cause, own.changed_at) == (&record.cause, record.changed_at)
    }

    /// Handles the successful swap of an earlier proposal, after this process has made a newer decision without the
    /// store. The newer decision stays in effect and is proposed next. But if the earlier proposal is an operator's
    /// override, the override takes precedence.
    pub(super) fn won_an_older(
        &mut self,
        record: &Record,
        policy: &Policy,
        now: Timestamp,
    ) -> Option<Change> {
        if !matches!(record.cause, Some(Cause::Override { .. })) {
            return None;
        }
        let record = self.in_new_epoch(record.clone(), now);
        let change = self.change_to(&record);
        if let Some(link) = &mut self.link {
            link.begin_epoch();
        }
        self.circuit.apply(Step { record, change: change.clone() }, policy, now);
        change
    }

    /// Returns the change to publish when `record` replaces this process's state. Returns `None` unless the state or
    /// the mode differs, an operator overrode the circuit, or the circuit opened again. If the state is the same, this
    /// process missed the states in between, so the change's `from` is the state that the record's cause leaves.
    fn change_to(&self, record: &Record) -> Option<Change> {
        let (own, from) = (self.circuit.record(), self.circuit.status());
        let change = Change::to(record, from)?;
        let differs = self.differs_from(record);
        if !differs && (self.is_at_change_of(record) || self.circuit.is_pristine()) {
            return None;
        }
        let is_order = matches!(record.cause, Some(Cause::Override { .. }));
        let has_opened_again = change.to != CircuitStatus::Closed && record.trips > own.trips;
        if !differs && !is_order && !has_opened_again {
            return None;
        }
        let left = if change.to == from { change.cause.leaves() } else { None };
        Some(Change { from: left.unwrap_or(from), ..change })
    }

    /// Whether the store may have no record because the record expired. This is so if other processes may have closed
    /// the circuit since this process last knew that its state applies, and the closed record's retention time is over.
    /// An overridden record cannot expire, because only operators end an override.
    pub(super) fn may_have_expired(&self, policy: &Policy, now: Timestamp) -> bool {
        if self.circuit.may_have_expired(policy, now) {
            return true;
        }
        let record = self.circuit.record();
        let seen_at = self.link.as_ref().map_or(record.changed_at, |link| link.seen_at);
        let counted_at = if self.is_published() { seen_at } else { record.changed_at };
        record.is_automatic()
            && !policy.has_fault(Fault::PublishesExpired)
            && now.since(counted_at) >= Record::closed_kept_for(policy)
    }

    /// Drops a record that the store expired.
    pub(super) fn forget(&mut self, at: StepContext<'_>) -> Learnt {
        let StepContext { policy, now, .. } = at;
        let from = self.circuit.status();
        let known = self.circuit.latest_outcomes().until(now).last_success;
        // Epochs only increase, even after a record has expired.
        let Epoch(last) = self.circuit.epoch();
        let born_at = now.max(Timestamp::from_micros(last.saturating_add(1)));
        if let Some(link) = &mut self.link {
            link.note_seen(Seen::of(None), now);
            link.begin_epoch();
            link.forgotten = Some(Epoch(last.saturating_add(1)));
        }
        self.circuit = Circuit::new(policy, born_at).with_success_at(known);
        let change = (from != CircuitStatus::Closed).then(|| Change {
            from,
            to: CircuitStatus::Closed,
            at: now,
            // Not the new circuit's epoch, which begins now: another process may still publish an earlier decision
            // that it made without the store.
            epoch: Epoch(last.saturating_add(1)),
            cause: Cause::Expired,
            retry_at: None,
            trips: 0,
            last_success: known,
            failing_since: None,
            evidence: None,
            mode: Mode::Automatic,
        });
        Learnt { change, ..Learnt::default() }
    }

    /// Returns a proposal to write this process's state to a store that does not have it.
    pub(super) fn publish(&self, there: Option<Version>, at: StepContext<'_>) -> Learnt {
        Learnt { publish: Some(self.proposal(there, at)), ..Learnt::default() }
    }

    fn proposal(&self, there: Option<Version>, at: StepContext<'_>) -> Box<Proposal> {
        let step = Step::within_epoch(self.circuit.record(), at.draw);
        Box::new(Proposal::new(there, step, at.swap_by(), at.policy))
    }
}
