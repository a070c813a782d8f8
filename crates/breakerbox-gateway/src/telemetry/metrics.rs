//! The metrics. Every metric is created here, with its name and help text, and is a field of [`Metrics`].
//!
//! Counting is an atomic add; a histogram takes a short lock. Gauges are set periodically by the part that knows the
//! value.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Registry, Unit};

use super::classic;
use super::labels::{
    CircuitState, Class, EventRefusal, Gate, Label, LaneState, NotificationResult, Outcome, PermitEnd,
    PermitRefused, Waiting,
};
use super::local_faults::LocalFaults;

/// One metric for each value of a label.
pub struct ByLabel<L, M> {
    metrics: Vec<M>,
    label: PhantomData<L>,
}

impl<L: Label, M> ByLabel<L, M> {
    /// Returns the metric for this label value.
    pub fn of(&self, label: impl Into<L>) -> &M {
        &self.metrics[label.into().index()]
    }
}

impl<L, M> Debug for ByLabel<L, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ByLabel({})", self.metrics.len())
    }
}

/// All metrics of the gateway.
///
/// ```
/// use breakerbox_gateway::telemetry::Metrics;
/// use breakerbox_gateway::telemetry::labels::Outcome;
///
/// let metrics = Metrics::new();
/// metrics.deliveries.of(Outcome::Delivered).inc();
/// assert!(metrics.encode().contains("breakerbox_deliveries_total{outcome=\"delivered\"} 1\n"));
/// ```
#[derive(Debug)]
pub struct Metrics {
    /// The number of accepted events.
    pub events_accepted: Counter,
    /// The number of refused events, by reason.
    pub events_refused: ByLabel<EventRefusal, Counter>,
    /// The number of attempts by their effect on the delivery, and of deliveries that ended without an attempt.
    pub deliveries: ByLabel<Outcome, Counter>,
    /// The number of requests, by result.
    pub attempts: ByLabel<Class, Counter>,
    /// Local faults: requests that the gateway could not make, and connections that it could not accept.
    pub local_faults: LocalFaults,
    /// 1 while most destinations can't be reached, so that the fault is on the gateway's side, otherwise 0.
    pub own_outage: Gauge,
    /// The number of outages on the gateway's side.
    pub own_outages: Counter,
    /// The number of requests retried on a new connection, because a reused one had been closed.
    pub repeated: Counter,
    /// The number of requests that probed a circuit.
    pub probes: Counter,
    /// The duration of a request, in seconds.
    pub request_seconds: Histogram,
    /// The time from accepting an event to its delivery, in seconds.
    pub delivery_seconds: Histogram,
    /// The time from accepting an event to the first request, in seconds.
    pub wait_seconds: Histogram,
    /// The number of lane refusals, by gate.
    pub refusals: ByLabel<Gate, Counter>,
    /// The number of claims: transactions that lease waiting deliveries.
    pub claims: Counter,
    /// The number of deliveries leased by claims.
    pub claimed: Counter,
    /// The number of deliveries dispatched directly when accepted, without a claim.
    pub handed_over: Counter,
    /// The number of deliveries that were leased and given back without an attempt.
    pub handed_back: Counter,
    /// The number of settlements that came after the lease had ended, and changed nothing.
    pub fenced: Counter,
    /// The number of settlements that could not be written; their deliveries are sent again.
    pub unsettled: Counter,
    /// The number of circuit changes missing from the history.
    pub history_lost: Counter,
    /// The number of outcomes that reached their circuit too late to be counted.
    pub late_results: Counter,
    /// The number of permits given to workers.
    pub permits_given: Counter,
    /// The number of permits refused to workers, by reason.
    pub permits_refused: ByLabel<PermitRefused, Counter>,
    /// The number of outcomes reported by workers, by the result of settling the permit.
    pub permits_settled: ByLabel<PermitEnd, Counter>,
    /// The number of permits that expired unsettled.
    pub permits_expired: Counter,
    /// The number of permits that are neither settled nor expired.
    pub permits_out: Gauge,
    /// The number of committed transactions.
    pub commits: Counter,
    /// The duration of a commit, including the disk sync, in seconds.
    pub commit_seconds: Histogram,
    /// The number of writes in one commit.
    pub commit_writes: Histogram,
    /// The number of lanes, by state.
    pub lanes: ByLabel<LaneState, Gauge>,
    /// The number of requests in flight.
    pub slots_in_use: Gauge,
    /// The maximum number of requests in flight.
    pub slots: Gauge,
    /// The number of circuits in memory, by state.
    pub circuits: ByLabel<CircuitState, Gauge>,
    /// The number of circuit transitions, by the new state.
    pub transitions: ByLabel<CircuitState, Counter>,
    /// The number of waiting deliveries, by where they wait.
    pub backlog: ByLabel<Waiting, Gauge>,
    /// The payload size of waiting deliveries, in bytes.
    pub backlog_bytes: Gauge,
    /// 1 if the circuit store is available, otherwise 0.
    pub store_up: Gauge,
    /// 1 if the database accepts writes, otherwise 0.
    pub database_up: Gauge,
    /// The free disk space for the data directory, in bytes.
    pub disk_free: Gauge,
    /// Seconds by which the wall clock is ahead of the store clock.
    pub clock_drift: Gauge,
    /// The size of the database, in bytes.
    pub database_bytes: Gauge,
    /// The size of the write-ahead log, in bytes.
    pub wal_bytes: Gauge,
    /// The number of finished deliveries that were pruned.
    pub pruned: Counter,
    /// The number of deliveries that expired because they waited too long.
    pub expired: Counter,
    /// The number of reminder runs fired.
    pub reminder_runs: Counter,
    /// The number of reminders stopped by the result of a run.
    pub reminders_stopped: Counter,
    /// The delay between a reminder's due time and the firing of its run, in seconds.
    pub reminder_lag_seconds: Histogram,
    /// The number of attempts to send a notification message, by result, and of notifications given up.
    pub notification_messages: ByLabel<NotificationResult, Counter>,
    /// The number of notifications waiting for a target.
    pub notifications_waiting: Gauge,
    registry: Registry,
}

/// A constant metric set at startup, such as the version.
type Constant = Family<[(&'static str, &'static str); 1], Gauge>;

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Creates all metrics with value zero.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("breakerbox");
        let r = &mut registry;
        let build = Constant::default();
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        r.register("build_info", "Always 1; the label has the running version", build);
        let metrics = Self {
            events_accepted: counter(r, "events_accepted", "Accepted events"),
            events_refused: by_label(r, "events_refused", "Refused requests with events, by reason"),
            deliveries: by_label(
                r,
                "deliveries",
                "Attempts by their effect on the delivery, and deliveries that ended without an attempt",
            ),
            attempts: by_label(r, "attempts", "Requests by result"),
            local_faults: LocalFaults::new(by_label(
                r,
                "local_faults",
                "Faults of the gateway or its host, by cause; no circuit counts them",
            )),
            own_outage: gauge(
                r,
                "own_outage",
                "1 while most destinations can't be reached, because of a fault on the gateway's side, else 0",
            ),
            own_outages: counter(r, "own_outages", "Outages on the gateway's side"),
            repeated: counter(r, "repeated_requests", "Requests repeated on a new connection"),
            probes: counter(r, "probes", "Requests that probed a circuit"),
            request_seconds: seconds(r, "request", "Duration of a request", &REQUEST),
            delivery_seconds: seconds(r, "delivery", "Time from accept to delivery", &DELIVERY),
            wait_seconds: seconds(r, "wait", "Time from accept to the first request", &DELIVERY),
            refusals: by_label(r, "lane_refusals", "Refusals of a lane, by gate"),
            claims: counter(r, "claims", "Claims from lanes"),
            claimed: counter(r, "claimed_deliveries", "Claimed deliveries"),
            handed_over: counter(
                r,
                "direct_dispatches",
                "Deliveries dispatched directly at accept, without a claim",
            ),
            handed_back: counter(r, "leases_returned", "Leased deliveries returned without an attempt"),
            fenced: counter(r, "fenced_settlements", "Settlements after the lease expired"),
            unsettled: counter(
                r,
                "settlements_failed",
                "Settlements that could not be written; the delivery is sent again",
            ),
            history_lost: counter(r, "history_lost", "Changes missing in the circuit history"),
            late_results: counter(r, "late_results", "Late results, which changed no circuit"),
            permits_given: counter(r, "permits_given", "Permits given to workers"),
            permits_refused: by_label(r, "permits_refused", "Refused permits, by reason"),
            permits_settled: by_label(r, "permits_settled", "Settlements by workers, by result"),
            permits_expired: counter(r, "permits_expired", "Permits that were not settled in time"),
            permits_out: gauge(r, "permits_outstanding", "Permits that are not settled yet"),
            commits: counter(r, "commits", "Committed transactions"),
            commit_seconds: seconds(r, "commit", "Duration of a commit, including the sync", &COMMIT),
            commit_writes: histogram(r, "commit_writes", "Writes in one commit", &WRITES),
            lanes: by_label(r, "lanes", "Lanes, by state"),
            slots_in_use: gauge(r, "slots_in_use", "Requests in flight"),
            slots: gauge(r, "slots", "Maximum requests in flight"),
            circuits: by_label(r, "circuits", "Circuits in memory, by state"),
            transitions: by_label(r, "circuit_transitions", "Transitions of circuits, by the new state"),
            backlog: by_label(r, "backlog_deliveries", "Waiting deliveries"),
            backlog_bytes: bytes(r, "backlog", "Bytes of waiting payloads"),
            store_up: gauge(r, "store_up", "1 if the circuit store responds, else 0"),
            database_up: gauge(r, "database_up", "1 if the database accepts writes, else 0"),
            disk_free: bytes(r, "disk_free", "Free space on the disk of the data directory"),
            clock_drift: gauge(
                r,
                "clock_drift_seconds",
                "Seconds by which the wall clock moved ahead of monotonic time since the start",
            ),
            database_bytes: bytes(r, "database", "Size of the database"),
            wal_bytes: bytes(r, "wal", "Size of the database's write-ahead log"),
            pruned: counter(
                r,
                "pruned_deliveries",
                "Finished deliveries deleted at the end of their retention",
            ),
            expired: counter(r, "expired_deliveries", "Deliveries that expired"),
            reminder_runs: counter(r, "reminder_runs", "Fired runs of reminders"),
            reminders_stopped: counter(r, "reminders_stopped", "Reminders stopped by the result of a run"),
            reminder_lag_seconds: seconds(
                r,
                "reminder_lag",
                "Time from an occurrence of a reminder to its run",
                &DELIVERY,
            ),
            notification_messages: by_label(
                r,
                "notification_messages",
                "Messages with notifications, by result",
            ),
            notifications_waiting: gauge(r, "notifications_waiting", "Notifications waiting for a target"),
            registry: Registry::default(),
        };
        Self { registry, ..metrics }
    }

    /// Records a committed transaction.
    pub fn committed(&self, writes: usize, took: Duration) {
        self.commits.inc();
        self.commit_seconds.observe(took.as_secs_f64());
        #[allow(clippy::cast_precision_loss, reason = "there are never so many")]
        self.commit_writes.observe(writes as f64);
    }

    /// Returns all metrics in the classic Prometheus text format, version 0.0.4.
    #[must_use]
    pub fn encode_classic(&self) -> String {
        classic::of_open_metrics(&self.encode())
    }

    /// Returns all metrics in the OpenMetrics text format, which Prometheus reads.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing into a String can't fail, and none of these metrics returns an error.
        let _ = text::encode(&mut text, &self.registry);
        text
    }
}

/// Histogram buckets for the duration of requests, in seconds, up to a long timeout.
const REQUEST: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 60.0];
/// Histogram buckets for the duration of deliveries, in seconds, from milliseconds (direct dispatch) to a day (the last
/// retry).
const DELIVERY: [f64; 16] = [
    0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0, 86_400.0,
];
/// Histogram buckets for the duration of commits, in seconds. A sync takes from a tenth of a millisecond to seconds on
/// a failing disk.
const COMMIT: [f64; 12] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5];
const WRITES: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0];

fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    let counter = Counter::<u64, AtomicU64>::default();
    registry.register(name, help, counter.clone());
    counter
}

fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

fn bytes(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register_with_unit(name, help, Unit::Bytes, gauge.clone());
    gauge
}

fn histogram(registry: &mut Registry, name: &str, help: &str, buckets: &[f64]) -> Histogram {
    let histogram = Histogram::new(buckets.iter().copied());
    registry.register(name, help, histogram.clone());
    histogram
}

fn seconds(registry: &mut Registry, name: &str, help: &str, buckets: &[f64]) -> Histogram {
    let histogram = Histogram::new(buckets.iter().copied());
    registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
    histogram
}

/// Creates a metric for every value of a label, so that every series exists from startup.
fn by_label<L, M>(registry: &mut Registry, name: &str, help: &str) -> ByLabel<L, M>
where
    L: Label,
    M: Clone + Default + Debug + EncodeMetric + TypedMetric + Send + Sync + 'static,
{
    debug_assert!(!matches!(M::TYPE, MetricType::Histogram), "a histogram needs its buckets");
    let family = Family::<[(&'static str, &'static str); 1], M>::default();
    let metrics =
        L::ALL.iter().map(|label| family.get_or_create(&[(L::NAME, label.word())]).clone()).collect();
    registry.register(name, help, family);
    ByLabel { metrics, label: PhantomData }
}
