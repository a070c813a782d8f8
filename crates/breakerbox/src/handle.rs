//! A user's reference to the registry: that of a [`Breakerbox`](crate::Breakerbox) or a [`Circuit`](crate::Circuit).
//! When the last one is dropped, the unreported outcomes are reported to the store, within a time limit.

use std::ops::Deref;
use std::sync::Arc;

use crate::fleet;
use crate::fleet::Shared;

#[derive(Clone)]
pub(crate) struct Handle(Arc<Shared>);

impl Handle {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.0
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
        // Two loads for most handles: usually there are others, and only the possibly last one is worth a lock.
        if let Some(fleet) = &self.0.fleet
            && Arc::strong_count(&self.0) <= 1 + fleet.running_tasks.count()
        {
            fleet::last_handle(&self.0);
        }
    }
}
