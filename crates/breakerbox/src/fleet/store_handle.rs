//! The store that a process uses: the configured one, or the same one reopened for the last reports.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::store::Store;

pub(crate) struct StoreHandle {
    released: Arc<dyn Store>,
    reopened: OnceLock<Arc<dyn Store>>,
}

impl StoreHandle {
    pub(super) const fn new(released: Arc<dyn Store>) -> Self {
        Self { released, reopened: OnceLock::new() }
    }

    /// Reopens the store with connections in the current runtime, if the store supports that.
    pub(super) fn reopen(&self) {
        if let Some(store) = self.released.reopen() {
            // If the store was already reopened, the first one is kept.
            let _ = self.reopened.set(store);
        }
    }
}

impl StoreHandle {
    /// Returns the store to use now, which is the reopened one if there is one.
    pub(super) fn current(&self) -> Arc<dyn Store> {
        Arc::clone(self.reopened.get().unwrap_or(&self.released))
    }
}

impl Deref for StoreHandle {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &**self.reopened.get().unwrap_or(&self.released)
    }
}
