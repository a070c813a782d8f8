//! What one process knows of a shared circuit beyond its record, and what it has not told yet.

use alloc::sync::Arc;
use core::time::Duration;

use super::answers::Consistency;
use super::delta::Delta;
use crate::circuit::Circuit;
use crate::outcome::{Outcome, OutcomeKind};
use crate::policy::Policy;
use crate::record::{Lease, Record};
use crate::time::Timestamp;
use crate::token::{Epoch, Nonce, Version};
use crate::window::{Totals, Window};

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Link {
    pub(super) consistency: Consistency,
    /// What the store had when it was last asked; none: it never was.
    pub(super) seen: Option<Seen>,
    /// Outcomes that the store has not heard of.
    untold: Window,
    last_success: Option<Timestamp>,
    /// The first failure after it.
    run_began: Option<Timestamp>,
    /// Outcomes that it was told of and has not answered.
    telling: Option<Totals>,
    /// What the whole fleet counted, when the store last said so.
    fleet: Totals,
    fleet_at: Timestamp,
    /// How many bad outcomes it may have heard of from here without having said so.
    unsure: u64,
    /// When it last turned out that others had seen bad outcomes too.
    others_at: Option<Timestamp>,
    /// Since when a rule has held over what is known here. Calls are refused until the store has heard all of it.
    pub(super) judging: Option<Timestamp>,
    /// The longest that the destination asked for since it was last judged.
    pub(super) retry_after: Option<Duration>,
    /// While the store is away, and this process decides for itself: the epoch in which it began to.
    pub(super) alone_since: Option<Epoch>,
    /// The probe that this process was given a lease for by the store, until it is settled.
    pub(super) probe: Option<Nonce>,
}

/// A record that was in the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    pub(super) version: Option<Version>,
    pub(super) epoch: Epoch,
}

impl Seen {
    pub(super) fn of(record: Option<&Record>) -> Self {
        Self {
            version: record.map(|record| record.version),
            epoch: record.map_or(Epoch::default(), |record| record.epoch),
        }
    }
}

impl Link {
    pub(super) fn new(policy: &Policy, consistency: Consistency) -> Self {
        Self {
            consistency,
            seen: None,
            untold: Window::new(policy),
            last_success: None,
            run_began: None,
            telling: None,
            fleet: Totals::default(),
            fleet_at: Timestamp::ZERO,
            unsure: 0,
            others_at: None,
            judging: None,
            retry_after: None,
            alone_since: None,
            probe: None,
        }
    }

    pub(super) fn count(&mut self, outcome: &Outcome, policy: &Policy, now: Timestamp) {
        match outcome.kind {
            OutcomeKind::Success => self.note_success(now),
            OutcomeKind::Failure => _ = self.run_began.get_or_insert(now),
            OutcomeKind::Ignored => return,
        }
        self.retry_after = self.retry_after.max(outcome.retry_after);
        self.untold.fit(policy, now);
        self.untold.record(outcome, policy.slow_call(), now);
    }

    /// When they were is not known: some time before now, and before whatever is counted now.
    pub(super) fn count_aside(
        &mut self,
        successes: u32,
        latency_sum: Duration,
        policy: &Policy,
        now: Timestamp,
    ) {
        self.note_success(now.back_by(Duration::from_micros(1)));
        self.untold.fit(policy, now);
        self.untold.record_successes(successes, latency_sum, now);
    }

    fn note_success(&mut self, now: Timestamp) {
        self.last_success = Some(now);
        self.run_began = None;
    }

    pub(super) fn clock_moved(&mut self, before: Timestamp, after: Timestamp) {
        self.untold.clock_moved(before, after);
        let times = [&mut self.last_success, &mut self.run_began, &mut self.judging, &mut self.others_at];
        times
            .into_iter()
            .flatten()
            .chain([&mut self.fleet_at])
            .for_each(|time| *time = time.moved(before, after));
    }

    /// All that is known here: what the fleet counted, and what it has not heard of.
    pub(super) fn totals(&self, policy: &Policy, now: Timestamp) -> Totals {
        // What is older than a window would not be in the store's totals any more.
        let is_fresh = now.since(self.fleet_at) < policy.window();
        let fleet = if is_fresh { self.fleet } else { Totals::default() };
        fleet.then(&self.telling.unwrap_or_default()).then(&self.untold.totals(now))
    }

    pub(super) fn has_something_to_tell(&self, now: Timestamp) -> bool {
        self.judging.is_some() || self.untold.totals(now).calls() > 0
    }

    /// What there is to tell. None: nothing, or the answer to the last is still awaited.
    pub(super) fn take_delta(&mut self, key: &Arc<str>, policy: &Policy, now: Timestamp) -> Option<Delta> {
        let Seen { epoch, .. } = self.seen?;
        if self.telling.is_some() || !self.has_something_to_tell(now) {
            return None;
        }
        self.telling = Some(self.untold.totals(now));
        Some(Delta {
            key: Arc::clone(key),
            epoch,
            window: policy.window(),
            buckets: self.untold.drain(now),
            last_success: self.last_success.take().map(|at| now.since(at)),
            run_began: self.run_began.take().map(|at| now.since(at)),
            keep_for: policy.window(),
        })
    }

    /// The store has answered; none: nobody knows whether it heard.
    pub(super) fn answered(&mut self, fleet: Option<Totals>, now: Timestamp) {
        let told = self.telling.take().map_or(0, |told| told.bad());
        let Some(fleet) = fleet else {
            self.unsure = self.unsure.saturating_add(told);
            return;
        };
        let own = self.fleet.bad().saturating_add(told).saturating_add(self.unsure);
        if fleet.bad() > own {
            self.others_at = Some(now);
        }
        self.unsure = 0;
        self.fleet = fleet;
        self.fleet_at = now;
    }

    /// Whether others have seen bad outcomes within a window. Some that they saw may go unnoticed while older ones drop out
    /// of the window; none is noticed that they did not see.
    pub(super) fn others_agree(&self, policy: &Policy, now: Timestamp) -> bool {
        self.others_at.is_some_and(|at| now.since(at) < policy.window())
    }

    /// Whether a record of the same epoch is from before this process took its lease. Versions have no order, and records are
    /// heard on more than one way. But while a lease lives nobody but its holder changes the record, so any other was there
    /// before.
    pub(super) fn is_older_than_own_lease(
        &self,
        circuit: &Circuit,
        record: Option<&Record>,
        now: Timestamp,
    ) -> bool {
        let own = self.own_lease(circuit, now);
        let theirs = record.and_then(|record| record.lease);
        own.is_some_and(|own| theirs.is_none_or(|theirs| theirs.nonce != own.nonce))
    }

    /// The lease of this process's own probe, while it is under way and in time.
    pub(super) fn own_lease(&self, circuit: &Circuit, now: Timestamp) -> Option<Lease> {
        circuit.record().lease.filter(|own| self.probe == Some(own.nonce) && own.is_live(now))
    }

    /// Another epoch begins: whatever was counted belongs to the one before.
    pub(super) fn begin_epoch(&mut self) {
        self.untold.clear();
        self.last_success = None;
        self.run_began = None;
        // An answer is still awaited, and will say that all of it came too late.
        self.telling = self.telling.map(|_| Totals::default());
        self.fleet = Totals::default();
        self.unsure = 0;
        self.others_at = None;
        self.judging = None;
        self.retry_after = None;
        self.probe = None;
    }
}
