//! The health of the gateway. It is checked every few seconds, so that health endpoints, metrics and log agree, and a
//! health request is cheap.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakerbox::{Breakerbox, StoreHealth};
use breakerbox_core::own_outage::Outage;
use breakerbox_model::objects::Moment;
use breakerbox_storage::records::Records;
use breakerbox_storage_sqlite::{Database, FreeSpace, SqliteCircuits};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{info, warn};

use super::clock_watch::ClockWatch;
use super::own_outage;
use crate::api::{Health, HealthReport};
use crate::dispatch::Dispatch;
use crate::notifications::Notifier;
use crate::telemetry::Metrics;
use crate::telemetry::labels::{CircuitState, Label, LaneState, Waiting};

/// The interval between health checks.
const EVERY: Duration = Duration::from_secs(2);

/// The timeout of one health check.
const LIMIT: Duration = Duration::from_secs(10);

/// The reason that a gateway in trial mode reports.
const TRIAL: &str = "dev: trial mode, which allows loopback addresses; do not use it in production";

/// The result of the latest health checks.
#[derive(Default)]
pub(super) struct Report(Mutex<HealthState>);

#[derive(Default)]
struct HealthState {
    degraded: Vec<String>,
    /// The reason why the database accepts no writes. `None` if it accepts them.
    unwritable: Option<String>,
    /// Whether this process can no longer write, and has to be restarted.
    is_dead: bool,
    is_stopping: bool,
    /// The outage on the gateway's own side.
    own_outage: Option<Outage>,
}

impl Report {
    /// Sets the reasons why the gateway is degraded, although it still works.
    fn degraded(&self, degraded: Vec<String>) {
        let mut known = self.known();
        if known.degraded != degraded {
            if degraded.is_empty() {
                info!("no longer degraded");
            } else {
                warn!(reasons = ?degraded, "degraded");
            }
            known.degraded = degraded;
        }
    }

    /// Sets the reason why the database accepts no writes (`None` if it accepts them), and whether the process has to
    /// be restarted.
    pub(super) fn writes_fail(&self, reason: Option<String>, is_dead: bool) {
        let mut known = self.known();
        (known.unwritable, known.is_dead) = (reason, is_dead);
    }

    /// Sets the outage on the gateway's own side. `None` if there is none.
    fn own_outage(&self, outage: Option<Outage>) {
        self.known().own_outage = outage;
    }

    /// Records that the gateway is stopping.
    pub(super) fn stopping(&self) {
        self.known().is_stopping = true;
    }

    fn takes_writes(&self) -> bool {
        self.known().unwritable.is_none()
    }

    fn known(&self) -> MutexGuard<'_, HealthState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Health for Report {
    fn report(&self) -> HealthReport {
        let known = self.known();
        let stopping = known.is_stopping.then(|| "gateway: is stopping".to_owned());
        let mut reasons: Vec<String> = stopping.into_iter().chain(known.unwritable.clone()).collect();
        let ready = reasons.is_empty();
        reasons.extend_from_slice(&known.degraded);
        // A stopping gateway closes its database itself, so a closed database does not make it dead.
        HealthReport {
            alive: !known.is_dead || known.is_stopping,
            ready,
            degraded: reasons,
            own_outage: known.own_outage,
        }
    }
}

/// Runs the checks, and updates the report and the gauges.
pub(super) struct Watcher {
    pub(super) database: Database,
    pub(super) clock: ClockWatch,
    pub(super) breakers: Breakerbox,
    pub(super) circuits: Arc<SqliteCircuits>,
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) records: Arc<dyn Records>,
    pub(super) free_space: FreeSpace,
    pub(super) reserve: u64,
    pub(super) notifier: Arc<Notifier>,
    /// The total number of calls made without a circuit, as of the last check.
    pub(super) uncontrolled: AtomicU64,
    /// The reason why the open-file limit is too small for the settings. `None` if the limit suffices.
    pub(super) shortfall: Option<String>,
    /// Whether the gateway runs for a trial.
    pub(super) is_trial: bool,
}

impl Watcher {
    pub(super) async fn run(mut self, report: Arc<Report>) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // A part that hangs must not prevent checks of the others.
            let degraded = timeout(LIMIT, self.check()).await;
            let late = |_| vec![format!("database: no response within {LIMIT:?}")];
            report.degraded(degraded.unwrap_or_else(late));
            report.own_outage(self.dispatch.own_outages().ongoing());
            if !report.takes_writes() {
                self.metrics.database_up.set(0);
            }
        }
    }

    async fn check(&mut self) -> Vec<String> {
        let mut degraded = Vec::from_iter(self.shortfall.clone());
        degraded.extend(self.is_trial.then(|| TRIAL.to_owned()));
        degraded.extend(self.metrics.local_faults.current());
        degraded.extend(self.dispatch.own_outages().ongoing().as_ref().map(own_outage::degraded));
        let parked = self.check_dispatch();
        self.check_circuits(&mut degraded).await;
        self.check_backlog(parked, &mut degraded).await;
        self.check_disk(&mut degraded);
        self.check_clock(&mut degraded).await;
        for (target, since) in self.notifier.failing() {
            let since = Moment(since);
            degraded.push(format!("notifications: {target} has accepted none since {since}"));
        }
        degraded
    }

    /// Updates the dispatch gauges. Returns the number of parked deliveries.
    fn check_dispatch(&self) -> u64 {
        let seen = self.dispatch.snapshot();
        self.metrics.slots.set(seen.slots.into());
        self.metrics.slots_in_use.set(seen.slots_in_use.into());
        self.metrics.lanes.of(LaneState::Awake).set(number(seen.lanes.awake));
        self.metrics.lanes.of(LaneState::Asleep).set(number(seen.lanes.asleep));
        self.metrics.lanes.of(LaneState::Idle).set(number(seen.lanes.idle));
        seen.lanes.parked
    }

    async fn check_circuits(&self, degraded: &mut Vec<String>) {
        match self.circuits.write_rest().await {
            Ok(0) => {}
            Ok(unwritten) => degraded.push(format!("circuits: {unwritten} records are not on disk yet")),
            Err(error) => degraded.push(format!("circuits: records can't be written: {error}")),
        }
        let mut by_state = [0_i64; CircuitState::ALL.len()];
        self.breakers.for_each(|circuit| by_state[CircuitState::from(circuit.status()).index()] += 1);
        for (state, count) in CircuitState::ALL.iter().zip(by_state) {
            self.metrics.circuits.of(*state).set(count);
        }
        let counts = self.breakers.counts();
        let late = counts.late_results;
        self.metrics.late_results.inc_by(late.saturating_sub(self.metrics.late_results.get()));
        let lost = matches!(self.breakers.store_health(), Some(StoreHealth::Degraded { .. }));
        self.metrics.store_up.set((!lost).into());
        if lost {
            degraded.push("circuits: the store does not respond; this process uses its own circuits".into());
        }
        // Only calls since the last check count, so that an overload is no longer reported once it is over.
        if self.uncontrolled.swap(counts.uncontrolled, Ordering::Relaxed) < counts.uncontrolled {
            degraded.push(
                "circuits: some calls are made without a circuit; raise circuits.max, or circuits.tenant_max and circuits.tenant_bytes"
                    .into(),
            );
        }
    }

    async fn check_backlog(&self, parked: u64, degraded: &mut Vec<String>) {
        let waiting = self.records.waiting().await;
        self.metrics.database_up.set(waiting.is_ok().into());
        match waiting {
            Ok(waiting) => {
                let (count, bytes) = (waiting.backlog.count, waiting.backlog.bytes);
                let fanning_out = waiting.fanning_out.min(count);
                let parked = parked.min(count - fanning_out);
                self.metrics.backlog_bytes.set(number(bytes));
                self.metrics.backlog.of(Waiting::FanningOut).set(number(fanning_out));
                self.metrics.backlog.of(Waiting::Moving).set(number(count - fanning_out - parked));
                self.metrics.backlog.of(Waiting::Parked).set(number(parked));
            }
            Err(error) => degraded.push(format!("database: {error}")),
        }
    }

    async fn check_clock(&mut self, degraded: &mut Vec<String>) {
        let check = self.clock.check();
        #[allow(clippy::cast_possible_truncation, reason = "whole seconds are enough")]
        self.metrics.clock_drift.set(check.drift.seconds().round() as i64);
        degraded.extend(check.degraded);
        if check.is_new {
            warn!(drift = %check.drift, "the wall clock was changed, or the machine was suspended");
        }
        if let Err(error) = self.database.note_drift(check.drift).await {
            warn!(%error, "can't store the drift of the clock; the next start will not detect it");
        }
    }

    fn check_disk(&self, degraded: &mut Vec<String>) {
        if let Ok(free) = self.free_space.bytes() {
            self.metrics.disk_free.set(number(free));
            if free < self.reserve {
                degraded.push(format!(
                    "disk: {free} bytes are free, but {} are reserved (limits.disk_reserve); events are refused",
                    self.reserve
                ));
            }
        }
        let size = |suffix: &str| {
            let mut path = self.database.path().as_os_str().to_owned();
            path.push(suffix);
            std::fs::metadata(path).map(|found| found.len())
        };
        if let Ok(bytes) = size("") {
            self.metrics.database_bytes.set(number(bytes));
        }
        self.metrics.wal_bytes.set(number(size("-wal").unwrap_or(0)));
    }
}

fn number(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
