//! The state that one process keeps about a shared circuit besides its record, including the unreported counts.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::time::Duration;

use super::delta::Delta;
use super::local::LocalCircuit;
use super::reporting::{self, Due, Known, PendingTrip, Suspicion};
use super::results::Consistency;
use super::stand_back::StandBack;
use crate::circuit::Circuit;
use crate::outcome::{OpenedBy, Outcome, OutcomeKind};
use crate::permit::Refusal;
use crate::policy::Policy;
use crate::record::{Lease, Record};
use crate::run::FailureRun;
use crate::time::Timestamp;
use crate::token::{Epoch, Nonce, Version};
use crate::window::{Totals, Window};

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Link {
    pub(super) consistency: Consistency,
    /// Whether this process is the store's only user.
    pub(super) is_exclusive: bool,
    /// The record that the store had when it was last read; `None` if it has not been read yet.
    pub(super) seen: Option<Seen>,
    /// The time at which the store was last known to have the record in `seen`.
    pub(super) seen_at: Timestamp,
    /// The time at which this process first saw the epoch in `seen`.
    epoch_seen_at: Timestamp,
    /// The epoch in which this process dropped an expired record. Another process may still publish that record.
    pub(super) forgotten: Option<Epoch>,
    /// Outcomes that have not been reported to the store yet.
    unreported: Window,
    /// The latest success that has not been reported, which may be older than the window.
    last_success: Option<Timestamp>,
    /// The outcomes in a report that awaits the store's response.
    telling: Option<Totals>,
    /// The whole fleet's counts in the store's latest response. Its run of failures is zero once this process has
    /// reported a success.
    fleet: Totals,
    fleet_at: Timestamp,
    /// Whether the store has responded to a report in this epoch. Until then its run of failures is unknown: it may
    /// be left from before a restart.
    is_run_known: bool,
    /// Whether the circuit's key is under suspicion, and when reports were last requested.
    pub(super) suspicion: Suspicion,
    /// Set while the known counts meet a trip rule. Calls are refused until the other processes have had time to
    /// report.
    pub(super) pending_trip: Option<PendingTrip>,
    /// The latency of this process's latest counted call; while a trip is pending, of the call that met the rule.
    latency: Duration,
    /// The longest retry-after among the unreported outcomes.
    pub(super) retry_after: Option<Duration>,
    /// The longest retry-after among the outcomes reported since the latest decision.
    pub(super) reported_retry_after: Option<Duration>,
    /// Whether the store is unavailable, so that this process decides by itself. Decisions from that time may stay
    /// unpublished after the store has recovered; see [`is_published`](super::Member::is_published).
    pub(super) alone: bool,
    /// The nonce of this process's probe in flight, if the store gave the probe's lease; `None` otherwise.
    pub(super) probe: Option<Nonce>,
    /// This process's latest failed probe; `None` if its latest probe did not fail. The value is kept when a new epoch
    /// begins, because it affects the next half-open state.
    pub(super) stand_back: Option<StandBack>,
    /// The process-local circuit, if it has tripped.
    pub(super) local: Option<Box<LocalCircuit>>,
}

/// Identifies a record in the store by its epoch and version.
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
            is_exclusive: false,
            seen: None,
            seen_at: Timestamp::ZERO,
            epoch_seen_at: Timestamp::ZERO,
            forgotten: None,
            unreported: Window::new(policy),
            last_success: None,
            telling: None,
            fleet: Totals::default(),
            fleet_at: Timestamp::ZERO,
            is_run_known: false,
            suspicion: Suspicion::default(),
            pending_trip: None,
            latency: Duration::ZERO,
            retry_after: None,
            reported_retry_after: None,
            alone: false,
            probe: None,
            stand_back: None,
            local: None,
        }
    }

    /// Records that the store had the record `there` at `now`, by the store's clock.
    pub(super) fn note_seen(&mut self, there: Seen, now: Timestamp) {
        if self.seen.is_none_or(|seen| seen.epoch != there.epoch) {
            self.epoch_seen_at = now;
        }
        self.seen = Some(there);
        self.seen_at = now;
    }

    /// Whether the response is outdated, because this process has seen a newer record since the store responded. For
    /// example, a pushed change may overtake the response to a read. An outdated response does not show that the store
    /// lost a write. If the response seems older than `answered_within`, the store's timeout, returns false, because
    /// the store's clock must have been set back.
    pub(super) fn is_overtaken(
        &self,
        there: Seen,
        answered_at: Timestamp,
        answered_within: Duration,
    ) -> bool {
        self.seen.is_some_and(|seen| there.epoch < seen.epoch)
            && answered_at < self.epoch_seen_at
            && self.epoch_seen_at.since(answered_at) <= answered_within
    }

    pub(super) fn count(&mut self, outcome: &Outcome, policy: &Policy, now: Timestamp) {
        match outcome.kind {
            OutcomeKind::Success => self.last_success = Some(now),
            OutcomeKind::Failure => {}
            OutcomeKind::Ignored => return,
        }
        if self.pending_trip.is_none() {
            self.latency = outcome.latency;
        }
        self.retry_after = self.retry_after.max(outcome.retry_after);
        self.unreported.fit(policy, now);
        self.unreported.record(outcome, policy.slow_call(), now);
    }

    /// Adds successes that a caller counted itself. Their exact times are unknown, but all of them are earlier than any
    /// outcome counted after this call.
    pub(super) fn add_successes(
        &mut self,
        successes: u32,
        latency_sum: Duration,
        policy: &Policy,
        now: Timestamp,
    ) {
        self.last_success = Some(now.back_by(Duration::from_micros(1)));
        self.unreported.fit(policy, now);
        self.unreported.record_successes(successes, latency_sum, now);
    }

    pub(super) fn clock_moved(&mut self, before: Timestamp, after: Timestamp) {
        self.unreported.clock_moved(before, after);
        self.suspicion.clock_moved(before, after);
        if let Some(pending_trip) = &mut self.pending_trip {
            pending_trip.clock_moved(before, after);
        }
        let known = [&mut self.fleet_at, &mut self.seen_at, &mut self.epoch_seen_at];
        self.last_success.iter_mut().chain(known).for_each(|time| *time = time.moved(before, after));
    }

    /// Returns all counts that this process knows, which are the fleet's counts plus this process's unreported ones.
    pub(super) fn totals(&self, policy: &Policy, now: Timestamp) -> Totals {
        let age = now.since(self.fleet_at);
        // The store's totals would no longer contain counts older than a window, except the run of failures.
        let mut fleet = if age < policy.window() { self.fleet } else { Totals::default() };
        fleet.failure_run = if age < FailureRun::KEPT_FOR { self.fleet.failure_run } else { 0 };
        let mut reported = fleet.then(&self.telling.unwrap_or_default());
        if self.last_success.is_some() {
            // It ended the run, even if it is older than the window.
            reported.failure_run = 0;
        }
        reported.then(&self.unreported.totals(now))
    }

    /// Whether this state must be kept, because it has counts that the store does not have, or a pending trip.
    pub(super) fn has_unreported(&self, now: Timestamp) -> bool {
        self.pending_trip.is_some() || self.has_counts(now) || self.ends_run()
    }

    /// Whether there are unreported outcomes in the window, or an unreported run of failures.
    fn has_counts(&self, now: Timestamp) -> bool {
        let unreported = self.unreported.totals(now);
        unreported.calls() > 0 || unreported.failure_run > 0
    }

    /// Whether the store has a run of failures, as far as this process knows. After a restart, an exclusive store may
    /// have one that this process does not know yet.
    fn may_have_run(&self) -> bool {
        self.fleet.failure_run > 0
            || self.telling.is_some_and(|telling| telling.failure_run > 0)
            || self.is_exclusive && !self.is_run_known
    }

    /// Whether an unreported success ends the store's run of failures.
    fn ends_run(&self) -> bool {
        self.last_success.is_some() && self.may_have_run()
    }

    /// Whether the next success must be counted at once, because it ends the store's run of failures.
    pub(super) fn awaits_success(&self) -> bool {
        self.last_success.is_none() && self.may_have_run()
    }

    /// Whether a report awaits the store's response.
    pub(super) const fn awaits_answer(&self) -> bool {
        self.telling.is_some()
    }

    /// Makes a report of all unreported counts due at once.
    pub(super) fn request_report(&mut self, now: Timestamp) {
        self.suspicion.is_report_wanted |= self.has_counts(now) || self.ends_run();
    }

    /// Makes a report due at once, as another process requested. Even a success that is older than the window must be
    /// reported, because it may be later than the failures that the other process knows.
    pub(super) fn handle_report_call(&mut self, policy: &Policy, now: Timestamp) {
        self.suspicion.handle_report_call(policy, now);
        self.suspicion.is_report_wanted |= self.has_counts(now) || self.last_success.is_some();
    }

    /// Returns when this process must report. `own` contains all of this process's outcomes. No report is due while a
    /// response is awaited.
    pub(super) fn due(&self, policy: &Policy, own: &Totals, now: Timestamp) -> Due {
        let unreported = self.unreported.totals(now);
        if self.telling.is_some() {
            Due::Never
        } else if self.pending_trip.is_some() {
            // A process that waits to trip schedules its next report itself. This handles one that was interrupted.
            Due::Later
        } else {
            let by_counts = self.due_by_counts(&unreported, policy, own, now);
            // A process without failures or slow calls does not decide, so it need not read the store's totals.
            let look_in = self.suspicion.look_due_in(now).filter(|_| own.bad() > 0);
            look_in.map_or(by_counts, |wait| by_counts.at_the_latest_in(wait))
        }
    }

    fn due_by_counts(&self, unreported: &Totals, policy: &Policy, own: &Totals, now: Timestamp) -> Due {
        if self.suspicion.is_report_wanted {
            return Due::Now;
        }
        let has_counts = unreported.calls() > 0 || unreported.failure_run > 0;
        if has_counts && self.consistency == Consistency::Strict {
            return Due::Now;
        }
        if has_counts && self.suspicion.holds(now) {
            return if unreported.bad() > 0 { Due::Soon } else { Due::Later };
        }
        let all = self.totals(policy, now);
        let run = self.unreported.run(now);
        let run_began = (!run.is_empty()).then_some(run.began);
        let known = Known { unreported, all: &all, own, run_began };
        match reporting::due(policy, &known, now) {
            Due::Never if self.ends_run() => Due::Later,
            due => due,
        }
    }

    /// Returns the counts to report; `None` if no report is due, or if the previous one still awaits its response.
    pub(super) fn take_delta(
        &mut self,
        key: &Arc<str>,
        policy: &Policy,
        own: &Totals,
        now: Timestamp,
    ) -> Option<Delta> {
        let Seen { epoch, .. } = self.seen?;
        if matches!(self.due(policy, own, now), Due::Never | Due::After(_)) {
            return None;
        }
        let unreported = self.unreported.totals(now);
        self.suspicion.is_report_wanted = false;
        if unreported.calls() > 0 {
            self.suspicion.report();
        }
        self.telling = Some(unreported);
        self.reported_retry_after = self.reported_retry_after.max(self.retry_after.take());
        if self.last_success.is_some() {
            self.fleet.failure_run = 0;
        }
        let run = self.unreported.run(now).delta(now);
        Some(Delta {
            key: Arc::clone(key),
            epoch,
            window: policy.window(),
            buckets: self.unreported.drain(now),
            last_success: self.last_success.take().map(|at| now.since(at)),
            run,
            keep_for: policy.window(),
        })
    }

    /// Returns how long this process's calls require the circuit to stay open if it trips now.
    pub(super) fn opened_by(&self) -> OpenedBy {
        let retry_after = self.retry_after.max(self.reported_retry_after);
        OpenedBy { latency: self.latency, retry_after }
    }

    /// Handles the response to a report. `None` means that there was no response, and the store may or may not have
    /// counted the report.
    pub(super) fn answered(&mut self, fleet: Option<Totals>, now: Timestamp) {
        self.telling = None;
        if let Some(fleet) = fleet {
            self.fleet = fleet;
            self.fleet_at = now;
            self.is_run_known = true;
        }
    }

    /// Returns the refusal for a caller that would otherwise get the probe; `None` if this process need not let other
    /// processes probe first.
    pub(super) fn stands_back(&self, record: &Record, now: Timestamp) -> Option<Refusal> {
        self.stand_back.and_then(|memory| memory.refusal(record, now))
    }

    /// Whether `record`, which has the same epoch, is older than this process's lease. Versions have no order, and
    /// records arrive by more than one path. While a lease is live, only its holder changes the record, so any record
    /// without this lease is older.
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

    /// Returns the lease of this process's own probe, while the probe is in flight and the lease is live.
    pub(super) fn own_lease(&self, circuit: &Circuit, now: Timestamp) -> Option<Lease> {
        circuit.record().lease.filter(|own| self.probe == Some(own.nonce) && own.is_live(now))
    }

    /// Begins a new epoch. Drops all counts, because they belong to the previous epoch.
    pub(super) fn begin_epoch(&mut self) {
        self.unreported.clear();
        self.last_success = None;
        // The response that is still awaited will state that these counts are late.
        self.telling = self.telling.map(|_| Totals::default());
        self.fleet = Totals::default();
        self.is_run_known = false;
        self.suspicion = Suspicion::default();
        self.pending_trip = None;
        self.latency = Duration::ZERO;
        self.retry_after = None;
        self.reported_retry_after = None;
        self.probe = None;
        self.local = None;
    }
}
