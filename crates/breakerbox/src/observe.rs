//! Observers: functions that receive changes after they have happened, and are never called under a lock.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use breakerbox_core::{Change, Refusal};

use crate::telemetry::Telemetry;

/// One circuit's change, as observers receive it.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct CircuitChange {
    /// The key of the circuit.
    pub key: Arc<str>,
    /// The transition. Two changes may arrive in a different order than they happened; compare their epochs.
    pub change: Change,
}

/// Whether the store is available.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreHealth {
    /// The store responds to reads and accepts writes.
    Connected,
    /// The store does not respond, or rejects writes. Circuits are not shared until the store recovers.
    Degraded {
        /// The latest error, with the messages of its causes.
        error: String,
    },
}

impl fmt::Display for StoreHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => f.write_str("connected"),
            Self::Degraded { error } => write!(f, "degraded: {error}"),
        }
    }
}

type ChangeObserver = Box<dyn Fn(&CircuitChange) + Send + Sync>;
type StoreObserver = Box<dyn Fn(&StoreHealth) + Send + Sync>;
type RefusalObserver = Box<dyn Fn(&str, &Refusal) + Send + Sync>;

/// All observers in a registry.
#[derive(Default)]
pub(crate) struct Observers {
    telemetry: Telemetry,
    of_changes: Vec<ChangeObserver>,
    /// Called for each call that dry-run mode admitted although the circuit refused it.
    of_refusals: Vec<RefusalObserver>,
    of_the_store: Vec<StoreObserver>,
    panics: AtomicU64,
}

impl Observers {
    /// Sets the registry's telemetry, before the registry is built.
    pub(crate) fn set_telemetry(&mut self, telemetry: Telemetry) {
        self.telemetry = telemetry;
    }

    pub(crate) fn add(&mut self, observer: impl Fn(&CircuitChange) + Send + Sync + 'static) {
        self.of_changes.push(Box::new(observer));
    }

    pub(crate) fn add_for_refusals(&mut self, observer: impl Fn(&str, &Refusal) + Send + Sync + 'static) {
        self.of_refusals.push(Box::new(observer));
    }

    #[cold]
    pub(crate) fn notify(&self, key: &str, change: Change) {
        self.guard(|| self.telemetry.changed(key, &change));
        let change = CircuitChange { key: key.into(), change };
        self.of_changes.iter().for_each(|observer| self.guard(|| observer(&change)));
    }

    pub(crate) fn add_for_store(&mut self, observer: impl Fn(&StoreHealth) + Send + Sync + 'static) {
        self.of_the_store.push(Box::new(observer));
    }

    pub(crate) fn notify_store(&self, health: &StoreHealth) {
        let error = match health {
            StoreHealth::Connected => None,
            StoreHealth::Degraded { error } => Some(error.as_str()),
        };
        self.guard(|| self.telemetry.store_changed(error));
        self.of_the_store.iter().for_each(|observer| self.guard(|| observer(health)));
    }

    pub(crate) fn notify_refusal(&self, key: &str, refusal: &Refusal) {
        self.of_refusals.iter().for_each(|observer| self.guard(|| observer(key, refusal)));
    }

    /// Runs an observer. A panic in the observer affects neither other observers nor the caller's call.
    pub(crate) fn guard(&self, call: impl FnOnce()) {
        if !call_guarded(call) {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}

/// Runs a user's code. Returns false if the code panicked.
pub(crate) fn call_guarded(call: impl FnOnce()) -> bool {
    let Err(thrown) = catch_unwind(AssertUnwindSafe(call)) else { return true };
    // Dropping the panic payload may panic too; the payload of that second panic is never dropped.
    if let Err(thrown_again) = catch_unwind(AssertUnwindSafe(|| drop(thrown))) {
        std::mem::forget(thrown_again);
    }
    false
}
