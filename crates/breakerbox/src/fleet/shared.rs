//! The state that all of a registry's handles share. It is in this module, because most of what a fleet does is a
//! step of this state.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use breakerbox_core::Policy;

use super::Fleet;
use crate::cell::Cell;
use crate::clock::Times;
use crate::observe::Observers;
use crate::policies::Policies;
use crate::registry::Registry;
use crate::waiters::Waiters;

/// The state that all of a registry's handles share.
pub(crate) struct Shared {
    pub(crate) times: Times,
    pub(crate) observers: Observers,
    pub(crate) waiters: Waiters,
    pub(crate) registry: Registry<Cell>,
    /// The state for sharing circuits with other processes; `None` if circuits are not shared.
    pub(crate) fleet: Option<Fleet>,
    pub(crate) policies: RwLock<Policies>,
    /// Serialises changes to policies.
    pub(crate) changing: Mutex<()>,
    pub(crate) dry_run: bool,
    pub(crate) late: AtomicU64,
    pub(crate) uncontrolled: AtomicU64,
    pub(crate) unanswered_reports: AtomicU64,
    pub(crate) overlaps: AtomicU64,
    pub(crate) opened_locally: AtomicU64,
}

/// Takes the registry's circuits out of the metrics.
#[cfg(feature = "metrics")]
impl Drop for Shared {
    fn drop(&mut self) {
        self.registry.for_each(|cell| cell.uncount(&self.times));
        self.times.telemetry.flush();
    }
}

impl Shared {
    pub(crate) fn new(
        policy: Policy,
        times: Times,
        observers: Observers,
        registry: Registry<Cell>,
        dry_run: bool,
        fleet: Option<Fleet>,
    ) -> Self {
        Self {
            times,
            observers,
            waiters: Waiters::default(),
            registry,
            fleet,
            policies: RwLock::new(Policies::new(policy)),
            changing: Mutex::new(()),
            dry_run,
            late: AtomicU64::new(0),
            uncontrolled: AtomicU64::new(0),
            unanswered_reports: AtomicU64::new(0),
            overlaps: AtomicU64::new(0),
            opened_locally: AtomicU64::new(0),
        }
    }

    pub(crate) fn policies(&self) -> RwLockReadGuard<'_, Policies> {
        self.policies.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn policies_mut(&self) -> RwLockWriteGuard<'_, Policies> {
        self.policies.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the policy that governs this key, which is the key's own, its tenant's, or the default policy.
    pub(crate) fn policy_of(&self, key: &str) -> Arc<Policy> {
        self.policies().of(key)
    }

    #[cold]
    pub(crate) fn count_uncontrolled(&self) {
        self.uncontrolled.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_overlap(&self) {
        self.overlaps.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_opened_here(&self) {
        self.opened_locally.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_unanswered(&self) {
        self.unanswered_reports.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_late(&self, results: u64) {
        self.late.fetch_add(results, Ordering::Relaxed);
    }
}
