//! Results whose caller is gone, because a client disconnected or a task was dropped. The leased deliveries are not
//! lost: the next [`reclaim`](breakerbox_storage::Queue::reclaim) makes them wait again and returns their lanes.

use std::sync::{Arc, Mutex, PoisonError};

use breakerbox_model::objects::DeliveryId;
use breakerbox_storage::{Lease, Leased, WaitingLane};

/// Results whose caller was gone before it received them. The next reclaim processes them.
#[derive(Clone, Default)]
pub(crate) struct AbandonedResults(Arc<Mutex<Abandoned>>);

#[derive(Default)]
pub(crate) struct Abandoned {
    /// Deliveries that were leased to a caller that is gone, so that no attempt will be made.
    pub(crate) leases: Vec<(DeliveryId, Lease)>,
    /// Lanes with new deliveries, which dispatch was not told about because the caller is gone.
    pub(crate) woken: Vec<WaitingLane>,
}

impl AbandonedResults {
    pub(crate) fn add(&self, leased: &[Leased], woken: Vec<WaitingLane>) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.leases.extend(leased.iter().map(|leased| (leased.id, leased.lease)));
        answers.woken.extend(woken);
    }

    pub(crate) fn take(&self) -> Abandoned {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds results back that were taken but could not be processed, so that the next reclaim tries again.
    pub(crate) fn put_back(&self, taken: Abandoned) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.leases.extend(taken.leases);
        answers.woken.extend(taken.woken);
    }
}
