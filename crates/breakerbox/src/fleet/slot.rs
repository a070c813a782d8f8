//! The store that a process uses: the one that it was given, or the same one opened again for its last reports.

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

    /// From now on the store is used with connections of the runtime that this is called in, if it has any.
    pub(super) fn reopen(&self) {
        if let Some(store) = self.given.reopen() {
            // Once opened again it stays so.
            let _ = self.reopened.set(store);
        }
    }
}

impl StoreSlot {
    /// The store that is used now.
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
