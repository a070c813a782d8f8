//! The shared state of a run: the time, the history, and the trace.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakerbox::{Clock, Timestamp};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::history::{Counts, FleetOfOneBroken, History, KeyHistory, WorkerHistory};
use super::sampling::SampledHistory;
use super::scenario::{Flavour, Scenario};

/// The store's clock at the start of a run.
pub(super) const STORE_BEGINS_AT: Timestamp = Timestamp::from_millis(1_700_000_000_000);

pub(super) struct World {
    pub(super) scenario: Scenario,
    start: Instant,
    history: Mutex<History>,
    trace: Option<Mutex<Vec<String>>>,
    /// Whether the run is over, so that callers must stop.
    pub(super) is_over: AtomicBool,
    /// Wakes the run when a violation is recorded.
    pub(super) broken: Notify,
}

impl World {
    pub(super) fn new(scenario: Scenario, traced: bool) -> Arc<Self> {
        let mut history = History {
            agree_within: scenario.settings.agree_within(),
            store_timeout: scenario.settings.store_timeout,
            one_is_broken: (scenario.flavour == Flavour::OneBroken)
                .then(|| FleetOfOneBroken { policy: scenario.policy.clone(), settings: scenario.settings }),
            well_beside_broken: (scenario.flavour == Flavour::BrokenProber).then(|| scenario.well_at()),
            watches_ramps: scenario.flavour == Flavour::Crowd,
            ..History::default()
        };
        let key = || KeyHistory { applied: Some(Counts::default()), ..KeyHistory::default() };
        history.keys.resize_with(scenario.endpoints.len(), key);
        history.workers.resize_with(scenario.workers.len(), WorkerHistory::default);
        history.sampled = SampledHistory::new(&scenario);
        Arc::new(Self {
            scenario,
            start: Instant::now(),
            history: Mutex::new(history),
            trace: traced.then(Mutex::default),
            is_over: AtomicBool::new(false),
            broken: Notify::new(),
        })
    }

    /// Returns the virtual time since the start of the run.
    pub(super) fn at(&self) -> Duration {
        self.start.elapsed()
    }

    pub(super) fn worker_clock(&self, worker: usize) -> WorkerClock {
        WorkerClock { start: self.start, skew: self.scenario.workers[worker].skew }
    }

    pub(super) fn instant(&self, at: Duration) -> Instant {
        self.start + at
    }

    /// Returns the time of the store's clock.
    pub(super) fn store_time(&self) -> Timestamp {
        STORE_BEGINS_AT + self.at()
    }

    pub(super) fn has_healed(&self) -> bool {
        self.at() >= self.scenario.healed_at
    }

    /// Changes the history, and notifies `broken` if the change recorded a violation.
    pub(super) fn write<R>(&self, write: impl FnOnce(&mut History) -> R) -> R {
        let mut history = self.history();
        let before = history.violations.len();
        let result = write(&mut history);
        let new: Vec<_> = history.violations[before..].iter().map(ToString::to_string).collect();
        drop(history);
        for violation in new {
            self.note(|| format!("VIOLATION {violation}"));
            self.broken.notify_one();
        }
        result
    }

    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line to the trace, if a trace was requested.
    pub(super) fn note(&self, line: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            let line = format!("{:>11.6} {}", self.at().as_secs_f64(), line());
            trace.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }

    pub(super) fn take_trace(&self) -> Vec<String> {
        let take = |trace: &Mutex<Vec<String>>| {
            std::mem::take(&mut *trace.lock().unwrap_or_else(PoisonError::into_inner))
        };
        self.trace.as_ref().map(take).unwrap_or_default()
    }
}

/// The store's clock.
pub(super) struct StoreClock(pub(super) Arc<World>);

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        self.0.store_time()
    }
}

/// A worker's clock, which runs at the same rate as all other clocks, with an offset.
#[derive(Clone, Copy)]
pub(super) struct WorkerClock {
    start: Instant,
    skew: Duration,
}

impl Clock for WorkerClock {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.skew + self.start.elapsed()
    }
}
