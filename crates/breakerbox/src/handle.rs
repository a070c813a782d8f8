//! The user's reference to the registry, inside a [`Breakerbox`](crate::Breakerbox) or a [`Circuit`](crate::Circuit).
//! When the last one is dropped, the unreported outcomes are reported to the store, within a time limit.
//!
//! Handles are counted separately from the references in background tasks, because a count of all references is
//! ambiguous while a task takes or drops its own.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::fleet;
use crate::fleet::Shared;

pub(crate) struct Handle(Arc<Shared>);

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        if let Some(fleet) = &shared.fleet {
            fleet.handles.fetch_add(1, Ordering::Relaxed);
        }
        Self(shared)
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Clone for Handle {
    #[inline]
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.0))
    }
}

impl Deref for Handle {
    type Target = Arc<Shared>;

    #[inline(always)]
    fn deref(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Drop for Handle {
    #[inline]
    fn drop(&mut self) {
        if let Some(fleet) = &self.0.fleet
            && fleet.handles.fetch_sub(1, Ordering::AcqRel) == 1
        {
            fleet::last_handle(&self.0);
        }
    }
}
