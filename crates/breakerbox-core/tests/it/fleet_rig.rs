//! A test fleet: several members, a store that is a plain value, and one clock. Tests control every message.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::fleet::{
    Consistency, Delta, Learnt, LeaseAnswer, Member, MemberAnswer, MemberSettled, Merged, Proposal,
    RampDemand, RampReply, RampRequest, RampStep, RampUpdate, RampView, ReleasedSlot, ReportDue, SharedRamp,
    SharedWindow, StepContext, Waits,
};
use breakerbox_core::{
    Change, CircuitStatus, Decision, Epoch, Nonce, OpenedBy, Outcome, OutcomeKind, Permit, Policy,
    PolicyBuilder, RandomBits, Record, Refusal, Settlement, Timestamp, Totals,
};

use crate::rig::{at, failed, ms};

pub(crate) const WAITS: Waits =
    Waits { swap: Duration::from_millis(500), confirm: Duration::from_millis(600) };

/// A store in memory, shared by the members of a test's fleet.
#[derive(Default, Clone)]
pub(crate) struct ModelStore {
    pub(crate) record: Option<Record>,
    window: SharedWindow,
    ramp: Option<SharedRamp>,
}

impl ModelStore {
    pub(crate) fn merge(&mut self, delta: &Delta, now: Timestamp) -> Merged {
        let late = self.record.as_ref().map_or(Epoch::default(), |record| record.epoch) != delta.epoch;
        if !late {
            self.window.add(delta, now);
        }
        let totals = self.window.totals(delta.window, now);
        Merged::new(late, totals, self.window.latest_outcomes(now), self.record.clone())
    }

    pub(crate) fn ramp(&mut self, request: &RampRequest, now: Timestamp) -> RampReply {
        let epoch = self.record.as_ref().map(|record| record.epoch);
        if epoch != Some(request.epoch) {
            return RampReply::Late;
        }
        RampReply::Done(SharedRamp::apply(&mut self.ramp, request, now))
    }

    pub(crate) fn totals(&self, policy: &Policy, now: Timestamp) -> Totals {
        self.window.totals(policy.window(), now)
    }

    pub(crate) fn swap(&mut self, proposal: &Proposal, now: Timestamp) -> bool {
        let version = self.record.as_ref().map(|record| record.version);
        let wins = version == proposal.expected && now <= proposal.not_after;
        if wins {
            if self.record.as_ref().map(|record| record.epoch) != Some(proposal.step.record.epoch) {
                self.window = SharedWindow::default();
            }
            self.record = Some(proposal.step.record.clone());
        }
        wins
    }
}

pub(crate) struct Fleet {
    pub(crate) members: Vec<Member>,
    pub(crate) store: ModelStore,
    pub(crate) policy: Policy,
    pub(crate) now: Timestamp,
    pub(crate) waits: Waits,
    /// Whether calls for reports are lost.
    pub(crate) loses_calls: bool,
    /// The published changes, each with the member whose observers received it.
    pub(crate) changes: Vec<(usize, Change)>,
    random: u128,
}

impl Fleet {
    /// Creates members that have read the store and know that it has no record.
    pub(crate) fn new(members: usize, policy: &PolicyBuilder) -> Self {
        Self::with(members, policy, Consistency::LocalFirst)
    }

    pub(crate) fn with(members: usize, policy: &PolicyBuilder, consistency: Consistency) -> Self {
        let policy = policy.build().unwrap();
        let now = at(10_000_000);
        let mut fleet = Self {
            members: (0..members).map(|_| Member::of_fleet(&policy, consistency, now)).collect(),
            store: ModelStore::default(),
            policy,
            now,
            waits: WAITS,
            loses_calls: false,
            changes: Vec::new(),
            random: 0,
        };
        (0..members).for_each(|n| fleet.read(n));
        fleet
    }

    pub(crate) fn draw(&mut self) -> RandomBits {
        self.random += 1;
        RandomBits(self.random)
    }

    /// Makes one step of the `n`-th member.
    pub(crate) fn step<R>(&mut self, n: usize, step: impl FnOnce(&mut Member, StepContext<'_>) -> R) -> R {
        let draw = self.draw();
        step(
            &mut self.members[n],
            StepContext { policy: &self.policy, draw, now: self.now, waits: self.waits },
        )
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    pub(crate) fn status(&self, n: usize) -> CircuitStatus {
        self.members[n].circuit().status()
    }

    /// Lets the `n`-th member read the store's record and handle it.
    pub(crate) fn read(&mut self, n: usize) {
        let record = self.store.record.clone();
        let learnt = self.step(n, |member, at| member.learn(record, at));
        self.apply_learnt(n, learnt);
    }

    /// Publishes the change, if any, and swaps in the record that the store does not have, if any.
    pub(crate) fn apply_learnt(&mut self, n: usize, learnt: Learnt) {
        self.changes.extend(learnt.change.map(|change| (n, change)));
        if let Some(proposal) = learnt.publish {
            self.swap(n, &proposal);
        }
    }

    pub(crate) fn answer(&mut self, n: usize) -> MemberAnswer {
        self.step(n, |member, at| member.try_acquire(at.policy, at.draw, at.now))
    }

    /// Acquires a permit, including all access to the store that the decision requires.
    pub(crate) fn try_acquire(&mut self, n: usize) -> Result<Permit, Refusal> {
        match self.answer(n) {
            MemberAnswer::Decided(acquired) => {
                self.changes.extend(acquired.change.map(|change| (n, change)));
                decided(acquired.decision)
            }
            MemberAnswer::Unknown => {
                self.read(n);
                self.try_acquire(n)
            }
            MemberAnswer::LeaseDue => self.take_lease(n),
            MemberAnswer::SlotDue(epoch) => self.take_slot(n, epoch),
        }
    }

    pub(crate) fn take_lease(&mut self, n: usize) -> Result<Permit, Refusal> {
        let record = self.store.record.clone();
        let (learnt, answer) = self.step(n, |member, at| member.lease(record, at));
        self.apply_learnt(n, learnt);
        match answer {
            LeaseAnswer::Decided(acquired) => decided(acquired.decision),
            LeaseAnswer::SlotDue(epoch) => self.take_slot(n, epoch),
            LeaseAnswer::Swap(proposal) if self.store.swap(&proposal, self.now) => {
                let (change, permit) = self.step(n, |member, at| member.leased(&proposal, at.policy, at.now));
                self.changes.extend(change.map(|change| (n, change)));
                match permit {
                    Some(permit) => Ok(permit),
                    None => self.try_acquire(n),
                }
            }
            LeaseAnswer::Swap(_) => {
                self.read(n);
                self.try_acquire(n)
            }
        }
    }

    /// Makes one ramp request and handles the reply; `None` if slots are no longer needed.
    pub(crate) fn ramp(
        &mut self,
        n: usize,
        wish: RampDemand,
        failures: u32,
    ) -> Option<(RampView, RampUpdate)> {
        let epoch = wish.epoch;
        let request = self.step(n, |member, at| member.ramp_request(&"e1".into(), wish, at.policy))?;
        let RampReply::Done(view) = self.store.ramp(&request, self.now) else {
            self.read(n);
            return None;
        };
        let refused = (view.taken as usize) < request.take.len();
        let news = self.step(n, |member, at| member.ramp_replied(epoch, &view, refused, failures, at));
        Some((view, news))
    }

    /// Takes a slot in the ramp, after replacing the ramp's limit if that is due.
    pub(crate) fn take_slot(&mut self, n: usize, epoch: Epoch) -> Result<Permit, Refusal> {
        let mut replace = None;
        loop {
            let slot = Nonce(self.draw().0);
            let acquired =
                self.ramp(n, RampDemand { epoch, replace, take: vec![slot], ..RampDemand::default() }, 0);
            let Some((view, RampUpdate::GoesOn(step))) = acquired else { return self.try_acquire(n) };
            match step {
                _ if view.taken == 1 => return Ok(Permit::on_ramp(epoch, slot, self.now)),
                Some(step) => replace = Some(step),
                None => {
                    let limit = view.state.limit.unwrap_or(0);
                    return Err(Refusal::Ramping { in_flight: view.in_flight, limit });
                }
            }
        }
    }

    /// Releases a slot, then replaces the ramp's limit if that is due.
    fn release_slot(&mut self, n: usize, (epoch, slot): (Epoch, Nonce), kind: OutcomeKind) {
        let give = vec![ReleasedSlot { slot, succeeded: kind == OutcomeKind::Success }];
        let mut failures = u32::from(kind == OutcomeKind::Failure);
        let mut wish = RampDemand { epoch, give, ..RampDemand::default() };
        while let Some((view, RampUpdate::GoesOn(step))) = self.ramp(n, wish, failures) {
            let Some(step) = step.filter(|_| !view.replaced) else { return };
            failures = 0;
            wish = RampDemand { epoch, replace: Some::<RampStep>(step), ..RampDemand::default() };
        }
    }

    /// Swaps in a proposal, and passes the result to its member. Returns whether the swap succeeded.
    pub(crate) fn swap(&mut self, n: usize, proposal: &Proposal) -> bool {
        let wins = self.store.swap(proposal, self.now);
        if wins {
            let change = self.step(n, |member, at| member.won(proposal, at.policy, at.now));
            self.changes.extend(change.map(|change| (n, change)));
        } else {
            self.read(n);
        }
        wins
    }

    pub(crate) fn report(&mut self, n: usize, permit: Permit, outcome: &Outcome) -> MemberSettled {
        self.step(n, |member, at| member.settle(permit, outcome, at.policy, at.draw, at.now))
    }

    /// Settles a permit, and makes all due reports to the store at once.
    pub(crate) fn settle(&mut self, n: usize, permit: Permit, outcome: &Outcome) -> Settlement {
        let slot = permit.slot();
        let MemberSettled { settled, report } = self.report(n, permit, outcome);
        if let Some(slot) = slot {
            self.release_slot(n, slot, outcome.kind);
        }
        self.changes.extend(settled.change.map(|change| (n, change)));
        self.execute_report(n, report);
        settled.settlement
    }

    pub(crate) fn execute_report(&mut self, n: usize, report: ReportDue) {
        match report {
            ReportDue::Nothing => {}
            ReportDue::Later | ReportDue::Soon | ReportDue::After(_) | ReportDue::In(_) | ReportDue::Now => {
                self.send_report(n);
            }
            ReportDue::One { epoch, outcome } => {
                let delta = Delta::of_one("e1".into(), epoch, &outcome, &self.policy);
                let merged = self.store.merge(&delta, self.now);
                let reported =
                    self.step(n, |member, at| member.one_reported(&merged, OpenedBy::from(&outcome), at));
                self.apply_learnt(n, reported.learnt);
                self.execute_report(n, reported.report);
            }
            ReportDue::Swap(proposal) => _ = self.swap(n, &proposal),
        }
    }

    /// Reports a member's counts to the store, whether or not a report is due.
    pub(crate) fn send_report(&mut self, n: usize) {
        if let Some(delta) = self.delta(n) {
            let merged = self.store.merge(&delta, self.now);
            self.hear(n, &merged);
        }
    }

    pub(crate) fn delta(&mut self, n: usize) -> Option<Delta> {
        self.step(n, |member, at| member.request_report(at.now));
        self.delta_due(n)
    }

    /// Returns the counts that a member must report now.
    pub(crate) fn delta_due(&mut self, n: usize) -> Option<Delta> {
        let key: Arc<str> = "e1".into();
        self.step(n, |member, at| member.take_delta(&key, at.policy, at.now))
    }

    /// Reports the counts that a member must report now. Returns whether there were any.
    pub(crate) fn tell_due(&mut self, n: usize) -> bool {
        let Some(delta) = self.delta_due(n) else { return false };
        let merged = self.store.merge(&delta, self.now);
        self.hear(n, &merged);
        true
    }

    /// Lets the time for confirmation pass, so that a member with a pending trip decides.
    pub(crate) fn decide(&mut self, n: usize) {
        self.pass(self.waits.confirm);
        self.send_report(n);
    }

    pub(crate) fn hear(&mut self, n: usize, merged: &Merged) {
        let reported = self.step(n, |member, at| member.reported(merged, at));
        self.apply_learnt(n, reported.learnt);
        if let ReportDue::Swap(proposal) = reported.report {
            self.swap(n, &proposal);
        }
        if reported.call_for_reports && !self.loses_calls {
            for other in (0..self.members.len()).filter(|other| *other != n) {
                let due = self.step(other, |member, at| {
                    member.handle_report_call(at.policy, at.now);
                    member.report_due(at.policy, at.now)
                });
                if due == ReportDue::Now {
                    self.tell_due(other);
                }
            }
        }
    }

    /// Makes calls that fail at once.
    pub(crate) fn fail(&mut self, n: usize, times: u32) {
        for _ in 0..times {
            let permit = self.try_acquire(n).unwrap();
            self.settle(n, permit, &failed());
        }
    }

    /// Lets all members read the store's record.
    pub(crate) fn all_read(&mut self) {
        (0..self.members.len()).for_each(|n| self.read(n));
    }

    /// Opens the circuit with failures in two members.
    pub(crate) fn trip(&mut self) {
        for n in [0, 1, 0] {
            self.pass(ms(1));
            self.fail(n, 1);
        }
        self.decide(0);
        assert_eq!(self.store.record.as_ref().map(Record::status), Some(CircuitStatus::Open));
        self.all_read();
        self.changes.clear();
    }
}

pub(crate) fn decided(decision: Decision) -> Result<Permit, Refusal> {
    match decision {
        Decision::Admitted(permit) => Ok(permit),
        Decision::Refused(refusal) => Err(refusal),
    }
}
