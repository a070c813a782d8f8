//! The rows of new events and their deliveries, and direct dispatch: a delivery for which a slot can be reserved is leased
//! when it is inserted. Submitting an event and firing a reminder run both use it.
//!
//! A reserved slot is released if the rows do not become durable, or if the caller is gone by then.

use std::collections::HashMap;
use std::sync::Arc;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{DeliveryId, EventId, EventType, LaneId, Priority, TenantId};
use breakerbox_storage::stored::codes::{content_type, id, level};
use breakerbox_storage::{Lease, Leased, LeasedRun, QueueError, Reservations, WaitingLane};
use bytes::Bytes;

use super::abandoned::AbandonedResults;
use super::backlogs::BacklogChanges;
use super::database::Transaction;
use super::lanes::OneWaiting;
use super::rows::{DeliveryRow, DeliveryRows, EventRow, EventRows, NewRun, code};

/// A new event, with the data that all its deliveries share.
pub(crate) struct FreshEvent<'e> {
    pub(crate) id: i64,
    pub(crate) tenant: &'e TenantId,
    pub(crate) tenant_row: i64,
    pub(crate) kind: &'e EventType,
    pub(crate) content_type: &'e Arc<str>,
    pub(crate) priority: Priority,
    pub(crate) payload: &'e Bytes,
    pub(crate) fan_out: u32,
    pub(crate) not_before: Option<Timestamp>,
    pub(crate) expires_at: Option<Timestamp>,
    /// The dynamic URL. `None`: the deliveries go to the endpoints' URLs.
    pub(crate) url: Option<&'e str>,
    /// The key of the dynamic URL's circuit. `None`: the deliveries go to endpoints.
    pub(crate) key: Option<Arc<str>>,
    /// The reminder run that the event is for. `None`: a client submitted the event.
    pub(crate) run: Option<NewRun>,
}

/// A delivery of a new event.
#[derive(Clone, Copy)]
pub(crate) struct FreshDelivery {
    pub(crate) id: i64,
    pub(crate) lane: LaneId,
    pub(crate) due_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    /// Whether the delivery is due and has not expired, so that a slot may be reserved for it.
    pub(crate) is_ripe: bool,
}

/// Slots that were reserved for deliveries. They are released when this is dropped, unless they are kept.
pub(crate) struct Reserved {
    reservations: Arc<dyn Reservations>,
    lanes: Vec<LaneId>,
}

impl Reserved {
    pub(crate) fn new(reservations: &Arc<dyn Reservations>) -> Self {
        Self { reservations: Arc::clone(reservations), lanes: Vec::new() }
    }

    /// Keeps the slots, because the caller has the deliveries.
    pub(crate) fn keep(mut self) {
        self.lanes.clear();
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.lanes.drain(..).for_each(|lane| self.reservations.release(lane));
    }
}

/// What the caller of a job gets: deliveries that this process takes, and lanes in which others wait.
pub(crate) struct Dispatched {
    pub(crate) taken: Vec<Leased>,
    pub(crate) woken: Vec<WaitingLane>,
    pub(crate) reserved: Reserved,
}

impl Dispatched {
    pub(crate) fn new(reservations: &Arc<dyn Reservations>) -> Self {
        Self { taken: Vec::new(), woken: Vec::new(), reserved: Reserved::new(reservations) }
    }

    /// Sets the leases of the deliveries that were taken.
    pub(crate) fn set_leases(&mut self, leases: &HashMap<i64, i64>) {
        for leased in &mut self.taken {
            leased.lease = Lease(leases.get(&leased.id.number()).copied().unwrap_or_default());
        }
    }
}

/// Releases the reserved slots, and leaves the deliveries to the next reclaim, because they are durable but no caller
/// receives them.
pub(crate) fn on_caller_gone(
    abandoned: &AbandonedResults,
    taken: &[Leased],
    woken: Vec<WaitingLane>,
    reserved: Reserved,
) {
    drop(reserved);
    abandoned.add(taken, woken);
}

/// New rows, to be inserted by one transaction.
#[derive(Default)]
pub(crate) struct FreshRows<'e> {
    events: EventRows<'e>,
    deliveries: DeliveryRows,
    pub(crate) backlogs: BacklogChanges,
}

impl<'e> FreshRows<'e> {
    /// Adds an event with its payload.
    pub(crate) fn add_event(&mut self, event: &FreshEvent<'e>) {
        self.events.push(&EventRow {
            id: event.id,
            tenant: event.tenant_row,
            kind: event.kind.as_str(),
            content_type: content_type(event.content_type),
            priority: code(level(event.priority)),
            fan_out: event.fan_out,
            payload: event.payload,
            not_before: event.not_before,
            expires_at: event.expires_at,
            url: event.url,
            run: event.run,
        });
    }

    /// Adds a delivery. If a slot can be reserved for it, it will be leased; otherwise it waits.
    pub(crate) fn add_delivery(
        &mut self,
        event: &FreshEvent<'e>,
        delivery: FreshDelivery,
        dispatched: &mut Dispatched,
    ) {
        let FreshDelivery { lane, due_at, expires_at, is_ripe, .. } = delivery;
        let key = event.key.as_ref();
        let Reserved { reservations, lanes } = &mut dispatched.reserved;
        let lease = is_ripe.then(|| reservations.reserve(lane, event.tenant, key)).flatten();
        self.deliveries.push(DeliveryRow {
            id: delivery.id,
            event: event.id,
            tenant: event.tenant_row,
            lane: lane.number(),
            priority: code(level(event.priority)),
            due_at,
            expires_at,
            size: event.payload.len() as u64,
            reminder: event.run.map(|run| run.id.reminder.number()),
            lease: lease.map(|lease| i64::try_from(lease.as_micros()).unwrap_or(i64::MAX >> 1)),
        });
        self.backlogs.begun(event.tenant_row, lane.number(), event.payload.len() as u64);
        if lease.is_some() {
            lanes.push(lane);
            dispatched.taken.push(event.leased(delivery));
        } else {
            OneWaiting { lane, tenant: event.tenant, key }.wake(
                &mut dispatched.woken,
                event.priority,
                due_at,
            );
        }
    }

    /// Inserts the rows, and returns the leases of the deliveries that this process took.
    pub(crate) async fn insert(&self, transaction: &Transaction) -> Result<HashMap<i64, i64>, QueueError> {
        let (events, leases, backlogs) = tokio::join!(
            biased;
            self.events.insert(transaction),
            self.deliveries.insert(transaction),
            self.backlogs.write(transaction),
        );
        events?;
        let leases = leases?;
        backlogs?;
        Ok(leases.into_iter().collect())
    }
}

impl FreshEvent<'_> {
    /// Returns one of the event's deliveries in the form in which it is dispatched, without its lease.
    fn leased(&self, delivery: FreshDelivery) -> Leased {
        let run = |run: NewRun| LeasedRun { id: run.id, scheduled_at: run.scheduled_at, latest_of: None };
        Leased {
            id: DeliveryId(id(delivery.id)),
            lease: Lease(0),
            lane: delivery.lane,
            tenant: self.tenant.clone(),
            event: EventId(id(self.id)),
            kind: self.kind.clone(),
            payload: self.payload.clone(),
            content_type: Arc::clone(self.content_type),
            priority: self.priority,
            attempts: 0,
            url: self.url.map(Arc::from),
            run: self.run.map(run),
            pulled_from: None,
            created_at: id(self.id).made_at(),
            expires_at: delivery.expires_at,
        }
    }
}
