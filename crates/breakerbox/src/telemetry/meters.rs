//! Counters and gauges of the facade `metrics`.
//!
//! What is counted under a lock is kept here as plain numbers until [`Meters::flush`], because the recorder is not this
//! crate's code. The recorder's series are created when the registry first counts something, so that a program may
//! build its registry before it installs its recorder.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ::metrics::{Counter, Gauge, SharedString, counter, gauge};
use breakerbox_core::{Change, CircuitStatus, OutcomeKind, Refusal};

const CALLS: &str = "breakerbox_calls_total";
const REFUSALS: &str = "breakerbox_refusals_total";
const TRANSITIONS: &str = "breakerbox_transitions_total";
const CIRCUITS: &str = "breakerbox_circuits";
const STORE_AVAILABLE: &str = "breakerbox_store_available";

/// The values of the label `outcome`.
const OUTCOMES: [&str; 3] = ["success", "failure", "ignored"];

/// The values of the label `reason`: the names of refusals.
const REASONS: [&str; 10] = [
    "open",
    "open_locally",
    "probing",
    "ramping",
    "trip_pending",
    "store_required",
    "store_lost",
    "forced_open",
    "disabled",
    "other",
];

/// The values of the label `state`. Closed circuits are not counted.
const STATES: [&str; 3] = ["open", "half_open", "disabled"];

pub(super) struct Meters {
    registry: Arc<str>,
    /// The calls that were counted since the last flush, by outcome.
    calls: [AtomicU64; OUTCOMES.len()],
    /// By how many the number of circuits in each state changed since the last flush.
    circuits: [AtomicI64; STATES.len()],
    series: OnceLock<Series>,
}

/// The recorder's series with fixed labels.
struct Series {
    calls: [Counter; OUTCOMES.len()],
    refusals: [Counter; REASONS.len()],
    circuits: [Gauge; STATES.len()],
}

impl Meters {
    pub(super) fn new(registry: Arc<str>) -> Self {
        Self {
            registry,
            calls: [const { AtomicU64::new(0) }; OUTCOMES.len()],
            circuits: [const { AtomicI64::new(0) }; STATES.len()],
            series: OnceLock::new(),
        }
    }

    pub(super) fn add_calls(&self, kind: OutcomeKind, calls: u64) {
        self.calls[outcome(kind)].fetch_add(calls, Ordering::Relaxed);
    }

    /// Counts a circuit that left the state `from` for the state `to`.
    pub(super) fn moved(&self, from: Option<CircuitStatus>, to: Option<CircuitStatus>) {
        for (status, by) in [(from, -1), (to, 1)] {
            if let Some(index) = status.and_then(state) {
                self.circuits[index].fetch_add(by, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn refused(&self, refusal: &Refusal) {
        self.series().refusals[reason(refusal)].increment(1);
    }

    pub(super) fn changed(&self, change: &Change) {
        let (from, to, cause) = (change.from.name(), change.to.name(), change.cause.name());
        counter!(TRANSITIONS, "registry" => self.registry(), "from" => from, "to" => to, "cause" => cause)
            .increment(1);
        self.flush();
    }

    pub(super) fn store_changed(&self, is_available: bool) {
        gauge!(STORE_AVAILABLE, "registry" => self.registry()).set(if is_available { 1.0 } else { 0.0 });
    }

    pub(super) fn flush(&self) {
        for (index, calls) in self.calls.iter().enumerate() {
            // Most of them have not changed, and a load leaves the cache line shared.
            if calls.load(Ordering::Relaxed) != 0 {
                self.series().calls[index].increment(calls.swap(0, Ordering::Relaxed));
            }
        }
        for (index, circuits) in self.circuits.iter().enumerate() {
            if circuits.load(Ordering::Relaxed) != 0 {
                #[allow(clippy::cast_precision_loss)] // There are at most a few million circuits.
                self.series().circuits[index].increment(circuits.swap(0, Ordering::Relaxed) as f64);
            }
        }
    }

    fn registry(&self) -> SharedString {
        Arc::clone(&self.registry).into()
    }

    fn series(&self) -> &Series {
        self.series.get_or_init(|| {
            describe();
            let registry = || self.registry();
            Series {
                calls: OUTCOMES
                    .map(|outcome| counter!(CALLS, "registry" => registry(), "outcome" => outcome)),
                refusals: REASONS
                    .map(|reason| counter!(REFUSALS, "registry" => registry(), "reason" => reason)),
                circuits: STATES.map(|state| gauge!(CIRCUITS, "registry" => registry(), "state" => state)),
            }
        })
    }
}

fn describe() {
    ::metrics::describe_counter!(CALLS, "Calls that were settled, by outcome");
    ::metrics::describe_counter!(REFUSALS, "Calls that a circuit refused, by reason");
    ::metrics::describe_counter!(TRANSITIONS, "Transitions of circuits, by states and cause");
    ::metrics::describe_gauge!(CIRCUITS, "Circuits in this process that are not closed, by state");
    ::metrics::describe_gauge!(STORE_AVAILABLE, "Whether the store can be used: 1 or 0");
}

const fn outcome(kind: OutcomeKind) -> usize {
    match kind {
        OutcomeKind::Success => 0,
        OutcomeKind::Failure => 1,
        OutcomeKind::Ignored => 2,
    }
}

const fn state(status: CircuitStatus) -> Option<usize> {
    match status {
        CircuitStatus::Open => Some(0),
        CircuitStatus::HalfOpen => Some(1),
        CircuitStatus::Disabled => Some(2),
        _ => None,
    }
}

const fn reason(refusal: &Refusal) -> usize {
    match refusal {
        Refusal::Open { .. } => 0,
        Refusal::OpenLocally { .. } => 1,
        Refusal::Probing { .. } => 2,
        Refusal::Ramping { .. } => 3,
        Refusal::TripPending => 4,
        Refusal::StoreRequired => 5,
        Refusal::StoreLost => 6,
        Refusal::ForcedOpen => 7,
        Refusal::Disabled => 8,
        _ => REASONS.len() - 1,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use breakerbox_core::Timestamp;

    use super::*;

    #[test]
    fn the_labels_are_the_names_that_reports_use() {
        let (retry_at, retry_in) = (Timestamp::ZERO, Duration::ZERO);
        let refusals = [
            Refusal::Open { retry_at, retry_in },
            Refusal::OpenLocally { retry_at, retry_in },
            Refusal::Probing { retry_at, retry_in },
            Refusal::Ramping { in_flight: 1, limit: 1 },
            Refusal::TripPending,
            Refusal::StoreRequired,
            Refusal::StoreLost,
            Refusal::ForcedOpen,
            Refusal::Disabled,
        ];
        for refusal in refusals {
            assert_eq!(REASONS[reason(&refusal)], refusal.name());
        }
        for status in [CircuitStatus::Open, CircuitStatus::HalfOpen, CircuitStatus::Disabled] {
            assert_eq!(state(status).map(|index| STATES[index]), Some(status.name()));
        }
        assert_eq!(state(CircuitStatus::Closed), None);
    }

    #[test]
    fn the_store_is_available_or_not() {
        let recorder = metrics_util::debugging::DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        ::metrics::with_local_recorder(&recorder, || {
            let meters = Meters::new("orders".into());
            for (is_available, expected) in [(false, 0.0), (true, 1.0)] {
                meters.store_changed(is_available);
                let (key, _, _, value) = snapshotter.snapshot().into_vec().pop().unwrap();
                assert_eq!(key.key().name(), STORE_AVAILABLE);
                assert_eq!(value, metrics_util::debugging::DebugValue::Gauge(expected.into()));
            }
        });
    }
}
