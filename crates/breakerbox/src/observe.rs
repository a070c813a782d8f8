//! Observers: who hears of changes, after the fact and never under a lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use breakerbox_core::Change;

/// A change of one circuit.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct CircuitChange {
    /// Whose circuit.
    pub key: Arc<str>,
    /// What changed. Two changes may be heard in another order than they happened in; their epochs tell.
    pub change: Change,
}

type Observer = Box<dyn Fn(&CircuitChange) + Send + Sync>;

/// Everybody who wants to hear of changes.
#[derive(Default)]
pub(crate) struct Observers {
    observers: Vec<Observer>,
    panics: AtomicU64,
}

impl Observers {
    pub(crate) fn add(&mut self, observer: Observer) {
        self.observers.push(observer);
    }

    /// Tells all observers. One that panics does not keep the others from hearing, nor the caller from its call.
    #[cold]
    pub(crate) fn tell(&self, key: &str, change: Change) {
        let change = CircuitChange { key: key.into(), change };
        for observer in &self.observers {
            if catch_unwind(AssertUnwindSafe(|| observer(&change))).is_err() {
                self.panics.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}
