//! A user's reference to the registry: that of a [`Breakerbox`](crate::Breakerbox) or a [`Circuit`](crate::Circuit). When the
//! last one is dropped, what the store has not heard is reported, within a bound.

use std::ops::Deref;
use std::sync::Arc;

use crate::breakerbox::Shared;
use crate::fleet;

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
        // Two loads for most handles: there are others, and only a suspicion is worth a lock.
        if let Some(fleet) = &self.0.fleet
            && Arc::strong_count(&self.0) <= 1 + fleet.under_way.count()
        {
            fleet::last_handle(&self.0);
        }
    }
}
