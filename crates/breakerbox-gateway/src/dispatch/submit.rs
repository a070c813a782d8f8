//! Accepts batches of events, and dispatches new deliveries directly if their lane is free, without a second write.

use std::sync::{Arc, OnceLock, PoisonError, Weak};

use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::objects::{LaneId, NewBatch, TenantId};
use breakerbox_storage::{Leased, Reservations, SubmitError, Submitted, WaitingLane};

use super::dispatcher::Dispatch;
use super::gates;

/// Accepts events from clients.
#[async_trait]
pub trait EventSubmitter: Send + Sync + 'static {
    /// Commits a batch, and starts its deliveries.
    ///
    /// # Errors
    /// Returns the reason if the batch was not accepted.
    async fn submit(&self, batch: NewBatch) -> Result<Submitted, SubmitError>;
}

#[async_trait]
impl EventSubmitter for Arc<Dispatch> {
    async fn submit(&self, batch: NewBatch) -> Result<Submitted, SubmitError> {
        let events = batch.events.len() as u64;
        let mut accepted = self.queue.submit(batch).await?;
        if !accepted.repeated {
            self.metrics.events_accepted.inc_by(events);
        }
        if accepted.deferred > 0 {
            self.deferred.notify_one();
        }
        self.start_fresh(std::mem::take(&mut accepted.taken), &accepted.woken);
        Ok(accepted)
    }
}

impl Dispatch {
    /// Starts new deliveries: attempts those that were leased when they were committed (`taken`), and wakes the lanes
    /// in which others wait.
    pub(super) fn start_fresh(self: &Arc<Self>, taken: Vec<Leased>, woken: &[WaitingLane]) {
        self.arrived(woken);
        self.metrics.handed_over.inc_by(taken.len() as u64);
        taken.into_iter().for_each(|leased| self.take(leased));
    }

    /// Starts a new delivery that already has its slot. The gates are checked now; if one refuses, the delivery is
    /// given back.
    fn take(self: &Arc<Self>, leased: Leased) {
        let dispatch = Arc::clone(self);
        self.spawn(async move {
            let now = dispatch.now();
            let Some(destination) = dispatch.destination_of(leased.lane) else {
                dispatch.lanes().release_slot(leased.lane, None, now);
                return dispatch.hand_back(leased).await;
            };
            let acquired = match gates::try_acquire(&destination, leased.priority, now) {
                gates::GateDecision::Pass(pass) => Ok(pass),
                gates::GateDecision::Refused(refused) => Err(refused),
                gates::GateDecision::Wait => gates::acquire_waiting(&destination, leased.priority, now).await,
            };
            match acquired {
                Ok(pass) => {
                    let outage = pass.permit.is_probe().then(|| dispatch.outage(&destination));
                    dispatch.attempt(destination, leased, pass, outage).await;
                }
                Err(refused) => {
                    dispatch.refused(leased.lane, None, leased.priority, refused);
                    dispatch.hand_back(leased).await;
                }
            }
        });
    }
}

/// Reserves slots for new deliveries, so that they are dispatched directly. It is created before the dispatcher, which
/// needs the queue; until [`set_dispatch`](Self::set_dispatch) is called, it reserves no slots.
#[derive(Default)]
pub struct DirectDispatch(OnceLock<Weak<Dispatch>>);

impl DirectDispatch {
    /// Sets the dispatcher that takes the deliveries. Only the first call has an effect.
    pub fn set_dispatch(&self, dispatch: &Arc<Dispatch>) {
        // A second call would be a programming error; the first dispatcher stays.
        let _ = self.0.set(Arc::downgrade(dispatch));
    }
}

impl Reservations for DirectDispatch {
    fn reserve(&self, lane: LaneId, tenant: &TenantId, key: Option<&Arc<str>>) -> Option<Duration> {
        let dispatch = self.0.get().and_then(Weak::upgrade)?;
        if dispatch.is_stopping() || dispatch.unsettled.available_permits() == 0 {
            return None;
        }
        let now = dispatch.now();
        let destination = dispatch.destinations.find(lane, tenant, || key.cloned(), now)?;
        let mut lanes = dispatch.lanes();
        if !lanes.contains(lane) {
            if let Some(key) = key {
                let mut dynamic = dispatch.dynamic.lock().unwrap_or_else(PoisonError::into_inner);
                dynamic.insert(lane, Arc::clone(key));
            }
            lanes.register(lane, tenant, destination.max_in_flight());
        }
        lanes.take(lane, now).then(|| dispatch.lease(&destination))
    }

    fn release(&self, lane: LaneId) {
        if let Some(dispatch) = self.0.get().and_then(Weak::upgrade) {
            let now = dispatch.now();
            dispatch.lanes().release_slot(lane, None, now);
        }
    }
}
