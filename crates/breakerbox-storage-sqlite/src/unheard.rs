//! What was leased or woken for somebody who is gone: a client hung up, a task was dropped. It is not lost: the next
//! [`reclaim`](breakerbox_storage::Queue::reclaim) makes it wait again and tells of its lanes.

use std::sync::{Arc, Mutex, PoisonError};

use breakerbox_model::objects::DeliveryId;
use breakerbox_storage::{Lease, Leased, WaitingLane};

/// What nobody has heard of.
#[derive(Clone, Default)]
pub(super) struct Unheard(Arc<Mutex<Answers>>);

#[derive(Default)]
pub(super) struct Answers {
    /// Leased, and nobody will try it.
    pub(super) leases: Vec<(DeliveryId, Lease)>,
    /// Woken, and nobody knows.
    pub(super) woken: Vec<WaitingLane>,
}

impl Unheard {
    pub(super) fn add(&self, leased: &[Leased], woken: Vec<WaitingLane>) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.leases.extend(leased.iter().map(|leased| (leased.id, leased.lease)));
        answers.woken.extend(woken);
    }

    pub(super) fn take(&self) -> Answers {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What was taken and could not be dealt with.
    pub(super) fn put_back(&self, taken: Answers) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.leases.extend(taken.leases);
        answers.woken.extend(taken.woken);
    }
}
