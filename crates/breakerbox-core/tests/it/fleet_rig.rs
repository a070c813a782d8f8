//! A fleet on a bench: some members, a store that is a plain value, one clock. Every message is a step of the test's own.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::fleet::{
    Consistency, Delta, Learnt, LeaseAnswer, Member, MemberAnswer, Merged, Moment, Proposal, Reported,
    SharedWindow, Tell, Waits,
};
use breakerbox_core::{
    Change, Decision, Draw, Epoch, Outcome, Permit, Policy, PolicyBuilder, Record, Refusal, Settlement,
    Status, Timestamp, Totals,
};

use crate::rig::{at, failed, ms};

pub(crate) const WAITS: Waits =
    Waits { swap: Duration::from_millis(500), confirm: Duration::from_millis(1_000) };

/// What a store does, and no more.
#[derive(Default, Clone)]
pub(crate) struct ModelStore {
    pub(crate) record: Option<Record>,
    window: SharedWindow,
}

impl ModelStore {
    pub(crate) fn merge(&mut self, delta: &Delta, now: Timestamp) -> Merged {
        let late = self.record.as_ref().map_or(Epoch::default(), |record| record.epoch) != delta.epoch;
        if !late {
            self.window.add(delta, now);
        }
        let totals = self.window.totals(delta.window, now);
        Merged::new(late, totals, self.window.latest_outcomes(), self.record.clone())
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
    /// Who heard of what.
    pub(crate) changes: Vec<(usize, Change)>,
    draws: u128,
}

impl Fleet {
    /// Members that have read that there is nothing to know.
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
            changes: Vec::new(),
            draws: 0,
        };
        (0..members).for_each(|n| fleet.read(n));
        fleet
    }

    pub(crate) fn draw(&mut self) -> Draw {
        self.draws += 1;
        Draw(self.draws)
    }

    /// One step of one member.
    pub(crate) fn step<R>(&mut self, n: usize, step: impl FnOnce(&mut Member, Moment<'_>) -> R) -> R {
        let draw = self.draw();
        step(&mut self.members[n], Moment { policy: &self.policy, draw, now: self.now, waits: self.waits })
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    pub(crate) fn status(&self, n: usize) -> Status {
        self.members[n].circuit().status()
    }

    /// Reads the store's record, and learns it.
    pub(crate) fn read(&mut self, n: usize) {
        let record = self.store.record.clone();
        let learnt = self.step(n, |member, at| member.learn(record, at));
        self.took(n, learnt);
    }

    /// Tells the observers, and swaps in what is to be published again.
    pub(crate) fn took(&mut self, n: usize, learnt: Learnt) {
        self.changes.extend(learnt.change.map(|change| (n, change)));
        if let Some(proposal) = learnt.publish {
            self.swap(n, &proposal);
        }
    }

    pub(crate) fn answer(&mut self, n: usize) -> MemberAnswer {
        self.step(n, |member, at| member.ask(at.policy, at.draw, at.now))
    }

    /// Asks, and does what is needed for an answer.
    pub(crate) fn ask(&mut self, n: usize) -> Result<Permit, Refusal> {
        match self.answer(n) {
            MemberAnswer::Decided(asked) => {
                self.changes.extend(asked.change.map(|change| (n, change)));
                decided(asked.decision)
            }
            MemberAnswer::Unknown => {
                self.read(n);
                self.ask(n)
            }
            MemberAnswer::LeaseDue => self.take_lease(n),
        }
    }

    pub(crate) fn take_lease(&mut self, n: usize) -> Result<Permit, Refusal> {
        let record = self.store.record.clone();
        let (learnt, answer) = self.step(n, |member, at| member.lease(record, at));
        self.took(n, learnt);
        match answer {
            LeaseAnswer::Decided(asked) => decided(asked.decision),
            LeaseAnswer::Swap(proposal) if self.store.swap(&proposal, self.now) => {
                let (change, permit) = self.step(n, |member, at| member.leased(&proposal, at.policy, at.now));
                self.changes.extend(change.map(|change| (n, change)));
                match permit {
                    Some(permit) => Ok(permit),
                    None => self.ask(n),
                }
            }
            LeaseAnswer::Swap(_) => {
                self.read(n);
                self.ask(n)
            }
        }
    }

    /// Swaps a proposal in, and lets its maker know.
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

    pub(crate) fn report(&mut self, n: usize, permit: Permit, outcome: &Outcome) -> Reported {
        self.step(n, |member, at| member.settle(permit, outcome, at.policy, at.draw, at.now))
    }

    /// Settles, and tells the store whatever it should hear, at once.
    pub(crate) fn settle(&mut self, n: usize, permit: Permit, outcome: &Outcome) -> Settlement {
        let Reported { settled, tell } = self.report(n, permit, outcome);
        self.changes.extend(settled.change.map(|change| (n, change)));
        self.say(n, tell);
        settled.settlement
    }

    pub(crate) fn say(&mut self, n: usize, tell: Tell) {
        match tell {
            Tell::Nothing => {}
            Tell::Later | Tell::Soon | Tell::In(_) | Tell::Now => self.tell(n),
            Tell::One { epoch, outcome } => {
                let delta = Delta::of_one("e1".into(), epoch, &outcome, &self.policy);
                let merged = self.store.merge(&delta, self.now);
                let told = self.step(n, |member, at| member.told_one(&merged, at));
                self.took(n, told.learnt);
                self.say(n, told.tell);
            }
            Tell::Swap(proposal) => _ = self.swap(n, &proposal),
        }
    }

    /// Tells the store what there is to tell.
    pub(crate) fn tell(&mut self, n: usize) {
        if let Some(delta) = self.delta(n) {
            let merged = self.store.merge(&delta, self.now);
            self.hear(n, &merged);
        }
    }

    pub(crate) fn delta(&mut self, n: usize) -> Option<Delta> {
        let key: Arc<str> = "e1".into();
        self.step(n, |member, at| member.take_delta(&key, at.policy, at.now))
    }

    pub(crate) fn hear(&mut self, n: usize, merged: &Merged) {
        let told = self.step(n, |member, at| member.told(merged, at));
        self.took(n, told.learnt);
        if let Tell::Swap(proposal) = told.tell {
            self.swap(n, &proposal);
        }
    }

    /// Makes calls that are answered at once.
    pub(crate) fn fail(&mut self, n: usize, times: u32) {
        for _ in 0..times {
            let permit = self.ask(n).unwrap();
            self.settle(n, permit, &failed());
        }
    }

    /// Everybody reads what is there.
    pub(crate) fn all_read(&mut self) {
        (0..self.members.len()).for_each(|n| self.read(n));
    }

    /// Opens the circuit, by failures that two members saw.
    pub(crate) fn trip(&mut self) {
        for n in [0, 1, 0] {
            self.pass(ms(1));
            self.fail(n, 1);
        }
        assert_eq!(self.store.record.as_ref().map(Record::status), Some(Status::Open));
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
