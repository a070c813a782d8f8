//! What a member says to the store, and what it makes of the answers.
//!
//! The newest epoch counts. If the store is older than what was read from it before, it has lost writes, and the record is
//! published again.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::answers::{Learnt, LeaseAnswer, Moment, Proposal, Tell, Told, is_of_another_probe};
use super::delta::{Delta, Merged};
use super::link::Seen;
use super::member::{Member, refused};
use crate::change::{Cause, Change, Command, Step};
use crate::circuit::Circuit;
use crate::permit::{Permit, PermitKind, Refusal};
use crate::policy::Policy;
use crate::record::{Attribution, Record};
use crate::rule::TripRule;
use crate::time::Timestamp;
use crate::token::{Draw, Version};
use crate::transitions::Answer;

impl Member {
    /// With the record and the time as the store has just told them: what gives this process the probe, or why it gets none.
    pub fn lease(&mut self, record: Option<Record>, at: Moment<'_>) -> (Learnt, LeaseAnswer) {
        let Moment { policy, draw, now, .. } = at;
        let learnt = self.learn(record.clone(), at);
        if learnt.publish.is_some() {
            let retry_at = at.swap_by();
            return (learnt, LeaseAnswer::Decided(refused(Refusal::probing(retry_at, now))));
        }
        let Some(record) = record else {
            return (learnt, LeaseAnswer::Decided(self.admit(policy, now)));
        };
        let expected = Some(record.version);
        let (rebased, base) = match record.rebased_in_fleet(draw, now) {
            Some(rebased) => (true, rebased),
            None => (false, record),
        };
        let answer = match base.ask(policy, draw, now) {
            Answer::Probe(step) => {
                LeaseAnswer::Swap(Box::new(Proposal::new(expected, *step, at.swap_by(), policy)))
            }
            // No lease in it, but times that are right again.
            Answer::Refuse(_) if rebased => {
                let step = Step { record: base, change: None };
                LeaseAnswer::Swap(Box::new(Proposal::new(expected, step, at.swap_by(), policy)))
            }
            Answer::Refuse(refusal) => LeaseAnswer::Decided(refused(refusal)),
            Answer::Admit => LeaseAnswer::Decided(self.admit(policy, now)),
        };
        (learnt, answer)
    }

    /// The proposal of a [lease](Self::lease) won. Returns the probe's permit, unless there was no lease in it.
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
        }
        let kind = PermitKind::Probe { nonce: lease.nonce, deadline: now + policy.probe_timeout() };
        (change, Some(Permit::new(proposal.step.record.epoch, kind, now)))
    }

    /// What there is to tell the store. None: nothing, or its answer to the last is still awaited.
    pub fn take_delta(&mut self, key: &Arc<str>, policy: &Policy, now: Timestamp) -> Option<Delta> {
        // What was counted since a decision made alone belongs to an epoch that the store does not know yet.
        let is_published = self.is_published();
        let link = self.link.as_mut().filter(|link| link.alone_since.is_none() && is_published)?;
        link.take_delta(key, policy, now)
    }

    /// Whether the store has, as far as is known, the epoch that this process is in.
    pub(super) fn is_published(&self) -> bool {
        let seen = self.link.as_ref().and_then(|link| link.seen);
        seen.is_none_or(|seen| match seen.version {
            Some(_) => seen.epoch == self.circuit.epoch(),
            None => self.circuit.is_pristine(),
        })
    }

    /// The store has answered a delta.
    pub fn told(&mut self, merged: &Merged, at: Moment<'_>) -> Told {
        if let Some(link) = &mut self.link {
            link.answered((!merged.late).then_some(merged.totals), at.now);
        }
        self.told_one(merged, at)
    }

    /// The store has answered a single outcome. Others may be on their way meanwhile.
    pub fn told_one(&mut self, merged: &Merged, at: Moment<'_>) -> Told {
        let Moment { policy, draw, now, waits } = at;
        let learnt = self.learn(merged.record.clone(), at);
        let own = self.circuit.totals(now);
        let Some(link) = self.link.as_mut().filter(|link| link.alone_since.is_none()) else {
            return Told { learnt, tell: Tell::Nothing };
        };
        if merged.late || learnt.change.is_some() || learnt.publish.is_some() {
            link.judging = None;
            return Told { learnt, tell: Tell::Nothing };
        }
        let known = merged.record.clone().unwrap_or_else(|| Record::new(None, draw, now));
        let record = known.with_latest_outcomes(merged.latest);
        // Who has seen nothing bad leaves the judging to those who have: they wait for what others say, and this may be all.
        let is_bystander = own.bad() == 0 && TripRule::first_broken(policy, &own).is_none();
        let judged = record.judge(&merged.totals, link.retry_after, policy, draw, now);
        let Some(step) = judged.filter(|_| !is_bystander) else {
            link.judging = None;
            link.retry_after = None;
            return Told { learnt, tell: Tell::Nothing };
        };
        let judging_since = *link.judging.get_or_insert(now);
        let waited = now.since(judging_since);
        if !link.others_agree(policy, now) && waited < waits.confirm {
            // Often at first, when an answer is likely to change things, and less and less.
            let wait = waited.max(waits.confirm / 10).min(waits.confirm.saturating_sub(waited));
            return Told { learnt, tell: Tell::In(wait) };
        }
        let expected = link.seen.and_then(|seen| seen.version);
        let proposal = Proposal::new(expected, step, at.swap_by(), policy);
        Told { learnt, tell: Tell::Swap(Box::new(proposal)) }
    }

    /// Nobody knows whether the store heard the last delta. It is not told again: counts may be lost, never doubled.
    pub fn unheard(&mut self, now: Timestamp) {
        if let Some(link) = &mut self.link {
            link.answered(None, now);
            link.judging = None;
        }
    }

    /// A proposal was swapped in. Returns what observers hear.
    pub fn won(&mut self, proposal: &Proposal, policy: &Policy, now: Timestamp) -> Option<Change> {
        let Some(link) = &mut self.link else { return None };
        let Step { record, change } = &proposal.step;
        if link.seen == Some(Seen::of(Some(record))) {
            // The store's own announcement was quicker than its answer, and everybody has been told.
            return None;
        }
        let is_news = |seen: Seen| {
            seen.epoch < record.epoch
                || seen.epoch == record.epoch
                    && !link.is_older_than_own_lease(&self.circuit, Some(record), now)
        };
        if !link.seen.is_none_or(is_news) {
            // Somebody has moved on since, this process perhaps, and was heard of first.
            return change.clone();
        }
        link.seen = Some(Seen::of(Some(record)));
        if let Some(left_in) = &mut link.alone_since {
            let is_order = matches!(record.cause, Some(Cause::Command { .. }));
            if self.circuit.epoch() > record.epoch && !is_order {
                // What was decided alone since then is newer, and is proposed on return. What an operator said holds.
                return change.clone();
            }
            // This the store knows: on return it need not be told.
            *left_in = record.epoch;
        }
        if change.is_some() {
            link.begin_epoch();
        }
        self.circuit.apply(proposal.step.clone(), policy, now)
    }

    /// Takes note of the record that the store has.
    pub fn learn(&mut self, record: Option<Record>, at: Moment<'_>) -> Learnt {
        let Moment { policy, now, .. } = at;
        let Some(link) = self.link.as_mut().filter(|link| link.alone_since.is_none()) else {
            return Learnt::default();
        };
        let there = Seen::of(record.as_ref());
        let Some(seen) = link.seen else {
            link.seen = Some(there);
            return match record {
                Some(record) => self.adopt(record, policy, now),
                None => Learnt::default(),
            };
        };
        let is_news =
            there.epoch != seen.epoch || !link.is_older_than_own_lease(&self.circuit, record.as_ref(), now);
        if there == seen && !self.is_published() {
            // It was to be swapped in on return, and nobody knows what became of that.
            return self.publish(there.version, at);
        }
        if there == seen || !is_news {
            return Learnt::default();
        }
        match record {
            None if self.circuit.may_have_expired(policy, now) => self.forget(policy, now),
            _ if there.epoch < seen.epoch => self.publish(there.version, at),
            Some(record) if there.epoch == self.circuit.epoch() => {
                if let Some(link) = &mut self.link {
                    link.seen = Some(there);
                }
                self.circuit.apply(Step { record, change: None }, policy, now);
                Learnt::default()
            }
            Some(record) => self.adopt(record, policy, now),
            None => Learnt::default(),
        }
    }

    /// Makes the store's record this process's own.
    fn adopt(&mut self, record: Record, policy: &Policy, now: Timestamp) -> Learnt {
        let change = Change::to(&record, self.circuit.status());
        let own = self.link.as_ref().and_then(|link| link.own_lease(&self.circuit, now));
        let overlapped =
            own.is_some_and(|own| is_of_another_probe(&record, (self.circuit.epoch(), own.nonce)));
        if let Some(link) = &mut self.link {
            link.seen = Some(Seen::of(Some(&record)));
            link.begin_epoch();
        }
        let known = self.circuit.latest_outcomes().until(now).last_success;
        self.circuit = Circuit::from_record(record, policy, now).with_success_at(known);
        Learnt { change, publish: None, overlapped }
    }

    /// The store let go of a record that nobody needed any more.
    fn forget(&mut self, policy: &Policy, now: Timestamp) -> Learnt {
        if let Some(link) = &mut self.link {
            link.seen = Some(Seen::of(None));
            link.begin_epoch();
        }
        // Epochs only grow, also over a time that nobody remembers.
        let born_at = now.max(Timestamp::from_micros(self.circuit.epoch().0));
        let known = self.circuit.latest_outcomes().until(now).last_success;
        self.circuit = Circuit::new(policy, born_at).with_success_at(known);
        Learnt::default()
    }

    /// What this process knows, for a store that has forgotten it.
    fn publish(&mut self, there: Option<Version>, at: Moment<'_>) -> Learnt {
        let Moment { policy, draw, .. } = at;
        let step = Step::within_epoch(self.circuit.record(), draw);
        let proposal = Proposal::new(there, step, at.swap_by(), policy);
        Learnt { publish: Some(Box::new(proposal)), ..Learnt::default() }
    }

    /// The store is away: from now on this process decides for itself, starting from what it knows.
    pub fn leave(&mut self) {
        let epoch = self.circuit.epoch();
        if let Some(link) = self.link.as_mut().filter(|link| link.alone_since.is_none()) {
            link.alone_since = Some(epoch);
            link.judging = None;
        }
    }

    /// The store is back, with this record. What was decided alone is proposed if the store has not moved on; otherwise the
    /// store's record counts.
    pub fn rejoin(&mut self, record: Option<Record>, at: Moment<'_>) -> Learnt {
        let Moment { policy, now, .. } = at;
        let Some(link) = &mut self.link else { return Learnt::default() };
        let Some(left_in) = link.alone_since.take() else {
            return self.learn(record, at);
        };
        let there = Seen::of(record.as_ref());
        let seen = link.seen.unwrap_or(Seen::of(None));
        if self.circuit.epoch() == left_in {
            // A lease that was taken alone within the epoch is not the store's, and ends here.
            if let Some(record) = record.clone().filter(|_| there == seen) {
                self.circuit.apply(Step { record, change: None }, policy, now);
            }
            return self.learn(record, at);
        }
        if there == seen || there.epoch < seen.epoch {
            link.seen = Some(seen);
            return self.publish(there.version, at);
        }
        match record {
            Some(record) => self.adopt(record, policy, now),
            None => self.forget(policy, now),
        }
    }

    /// With the record and the time as the store has just told them: what to swap in to do what an operator says. None if
    /// there is nothing to do.
    pub fn obey(
        &mut self,
        record: Option<Record>,
        command: Command,
        by: &Attribution,
        at: Moment<'_>,
    ) -> (Learnt, Option<Proposal>) {
        let Moment { policy, draw, now, .. } = at;
        let learnt = self.learn(record.clone(), at);
        let expected = record.as_ref().map(|record| record.version);
        let mut known = record.unwrap_or_else(|| Record::new(None, draw, now));
        if !self.circuit.is_pristine() {
            // Also over what was decided alone, and would otherwise be put over it on return.
            known.epoch = known.epoch.max(self.circuit.epoch());
        }
        // The store's record is as old as the latest transition. What was counted since must not be lost with the window.
        let latest = known.latest_outcomes().merged_with(self.circuit.latest_outcomes().until(now));
        let known = known.with_latest_outcomes(latest);
        // What is published on the occasion is another write, and has the version that these bits make.
        let draw = Draw(draw.0.rotate_left(64) ^ 1);
        let step = known.obey(command, by, draw, now);
        (learnt, step.map(|step| Proposal::new(expected, step, at.swap_by(), policy)))
    }
}
