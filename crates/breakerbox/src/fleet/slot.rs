//! The store that a process uses: the one that it was given, or the same one reopened for its last reports.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::store::Store;

pub(crate) struct StoreSlot {
    given: Arc<dyn Store>,
    reopened: OnceLock<Arc<dyn Store>>,
}

impl StoreSlot {
    pub(super) const fn new(given: Arc<dyn Store>) -> Self {
        Self { given, reopened: OnceLock::new() }
    }

    /// Reopens the store with connections of the current runtime, if it supports that.
    pub(super) fn reopen(&self) {
        if let Some(store) = self.given.reopen() {
            // The first reopened store stays.
            let _ = self.reopened.set(store);
        }
    }
}

impl StoreSlot {
    /// Returns the store to use now.
    pub(super) fn current(&self) -> Arc<dyn Store> {
        Arc::clone(self.reopened.get().unwrap_or(&self.given))
    }
}

impl Deref for StoreSlot {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &**self.reopened.get().unwrap_or(&self.given)
    }
}
