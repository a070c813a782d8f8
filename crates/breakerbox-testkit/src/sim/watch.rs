//! Checks during a run in addition to those on the store's operations: the changes that observers receive, the
//! reported health, and how many calls at an endpoint are in flight or fail.

use std::time::Duration;

use breakerbox::{Cause, CircuitChange, CircuitStatus, Mode, Record, Refusal, State, StoreHealth};

use super::history::{History, Invariant, WorkerLife};
use super::scenario::Scenario;

/// The maximum number of calls by which races between processes may exceed the ramp's limit.
const RACES: u64 = 3;

/// The changes to one circuit that one worker's observer received.
#[derive(Clone, Default)]
pub(super) struct Observed {
    status: Option<CircuitStatus>,
    mode: Option<Mode>,
    /// The latest epoch in a change that the observer received.
    heard_epoch: u64,
    /// The highest epoch in the worker's own record.
    epoch: u64,
}

/// The calls to one endpoint since its circuit last closed, for checking the ramp.
#[derive(Default)]
pub(super) struct Ramped {
    /// The epoch that started when the circuit closed. `None` if the circuit is not closed, or its ramp is
    /// over or not checked.
    epoch: Option<u64>,
    in_flight: u64,
    successes: u64,
    /// The later of two times: when the circuit closed, and when its ramp last refused a call.
    refused_at: Duration,
}

/// The state of the store, as one worker sees it.
#[derive(Clone, Copy, Default)]
pub(super) struct StoreSeen {
    /// The time since which the store rejects the worker's writes. `None` if the last write succeeded.
    pub(super) refused_since: Option<Duration>,
    /// Whether the worker's health reports the store as lost.
    pub(super) is_lost: bool,
}

impl History {
    /// Records that a worker's observer received a change.
    pub(super) fn observed(&mut self, who: WorkerLife, key: usize, event: &CircuitChange, at: Duration) {
        let change = &event.change;
        let is_order = matches!(change.cause, Cause::Override { .. });
        let observed = self.observed.entry((who, key)).or_default();
        let mode_before = observed.mode.replace(change.mode.clone()).unwrap_or(Mode::Automatic);
        if change.from == change.to && !is_order && mode_before == change.mode {
            let what = format!("{who:?}, e{key} heard that {} is {} now", change.from, change.to);
            self.violate(Invariant::ObserversHear, at, what);
        }
        let observed = self.observed.entry((who, key)).or_default();
        let before = std::mem::replace(&mut observed.heard_epoch, change.epoch.0);
        observed.status = Some(change.to);
        if change.epoch.0 <= before {
            let what = format!("{who:?}, e{key} heard of epoch {}, and before of {before}", change.epoch.0);
            self.violate(Invariant::EpochsGrow, at, what);
        }
    }

    /// Checks that a worker's observer has received the current state of the worker's circuit.
    pub(super) fn compare_observed(&mut self, who: WorkerLife, key: usize, here: &Record, at: Duration) {
        let observed = self.observed.entry((who, key)).or_default();
        let event = observed.status.unwrap_or(CircuitStatus::Closed);
        let epoch = here.cause.as_ref().map_or(0, |_| here.epoch.0);
        let before = observed.epoch;
        observed.epoch = before.max(epoch);
        if event != here.status() {
            let what =
                format!("{who:?}, e{key} is {}, and the last that was heard is {event}", here.status());
            self.violate(Invariant::ObserversHear, at, what);
        }
        if epoch != 0 && epoch < before {
            let what = format!("{who:?}, e{key} went back from epoch {before} to {epoch}");
            self.violate(Invariant::EpochsGrow, at, what);
        }
    }

    /// Records that a worker's health reported the store as lost or connected.
    pub(super) fn store_went(&mut self, who: WorkerLife, health: &StoreHealth, at: Duration) {
        let worker = &mut self.workers[who.worker];
        if worker.life != who.life {
            return;
        }
        worker.store.is_lost = *health != StoreHealth::Connected;
        // A worker that resumes after a pause may find the response to a write from before the pause, and then complete
        // that check of the store with a read.
        let has_just_resumed = at <= worker.resumed_at + self.store_timeout;
        let refuses = self.no_writes_since.is_some_and(|since| at > since + self.store_timeout * 2);
        let refuses = refuses && !has_just_resumed;
        if refuses && *health == StoreHealth::Connected {
            let what = format!("{who:?} takes the store for well, which refuses writes");
            self.violate(Invariant::StoreLossReported, at, what);
        }
    }

    /// Records that the store accepted or rejected a worker's write.
    pub(super) fn store_wrote(&mut self, who: WorkerLife, refused: bool, at: Duration) {
        let worker = &mut self.workers[who.worker];
        if worker.life == who.life {
            worker.store.refused_since = refused.then(|| worker.store.refused_since.unwrap_or(at));
        }
    }

    /// Checks that a worker whose write was rejected some time ago has reported the store as lost.
    pub(super) fn check_reported(&mut self, who: WorkerLife, within: Duration, at: Duration) {
        let worker = &self.workers[who.worker];
        let quiet_since = worker.store.refused_since.map(|since| since.max(worker.resumed_at));
        if quiet_since.is_some_and(|since| at > since + within) && !worker.store.is_lost {
            let what =
                format!("{who:?} says nothing, and the store refuses its writes since {quiet_since:?}");
            self.violate(Invariant::StoreLossReported, at, what);
        }
    }

    /// Records that the store has a new record, which starts a ramp if the circuit has closed after probes.
    pub(super) fn ramp_begins(&mut self, key: usize, record: &Record, at: Duration) {
        let limited = record.state == State::Closed
            && record.cause == Some(Cause::ProbesSucceeded)
            && self.watches_ramps;
        self.keys[key].ramped =
            Ramped { epoch: limited.then_some(record.epoch.0), refused_at: at, ..Ramped::default() };
    }

    /// Records the start of a call that is not a probe. `call` contains the worker, the key and the worker's
    /// epoch. Returns whether the call counts towards the ramp.
    pub(super) fn call_begins(
        &mut self,
        scenario: &Scenario,
        call: (WorkerLife, usize, u64),
        at: Duration,
    ) -> bool {
        let (who, key, epoch) = call;
        let ramped = &mut self.keys[key].ramped;
        if ramped.epoch != Some(epoch) {
            return false;
        }
        ramped.in_flight += 1;
        // 1, then 2 after the first success, 4 after two more, 8 after four more ...
        let limit = 1 << (ramped.successes + 1).ilog2();
        let cap = scenario.policy.ramp_cap().map_or(0, u64::from);
        if limit >= cap || at >= ramped.refused_at + scenario.policy.window() {
            ramped.epoch = None;
            return false;
        }
        if ramped.in_flight > limit + RACES {
            let in_flight = ramped.in_flight;
            let what =
                format!("{who:?} makes {in_flight} calls in flight at e{key}, and the ramp allows {limit}");
            self.violate(Invariant::RampIsShared, at, what);
        }
        true
    }

    /// Records the end of a call that counts towards the ramp.
    pub(super) fn call_ended(&mut self, key: usize, epoch: u64, succeeded: bool) {
        let ramped = &mut self.keys[key].ramped;
        if ramped.epoch == Some(epoch) {
            ramped.in_flight = ramped.in_flight.saturating_sub(1);
            ramped.successes += u64::from(succeeded);
        }
    }

    /// Records that a caller was refused, if the reason was the ramp.
    pub(super) fn refused(&mut self, key: usize, refusal: &Refusal, at: Duration) {
        if matches!(refusal, Refusal::Ramping { .. }) {
            self.tally.ramp_refusals += 1;
            self.keys[key].ramped.refused_at = at;
        }
    }

    /// Records that a short-lived worker's call failed.
    pub(super) fn short_lived_failed(
        &mut self,
        scenario: &Scenario,
        who: WorkerLife,
        key: usize,
        at: Duration,
    ) {
        let policy = &scenario.policy;
        let enough = policy.consecutive_failures().or(policy.failures()).map_or(0, u64::from);
        let key_history = &mut self.keys[key];
        key_history.failed_while_closed += 1;
        if key_history.failed_while_closed < enough {
            return;
        }
        // The last reports are sent, the other workers are asked to report, and the trip is swapped in. Some
        // calls start meanwhile.
        let enough_at = *key_history.enough_failed_at.get_or_insert(at);
        if at > enough_at + scenario.settings.opened_within() {
            let failed = key_history.failed_while_closed;
            let what = format!(
                "{who:?}: {failed} calls to e{key} failed, {enough} had by {enough_at:?}, and it is closed"
            );
            self.violate(Invariant::ShortLivedCount, at, what);
        }
    }
}
