//! Inserts the rows of a new event and its deliveries, and dispatches a delivery directly if a slot can be reserved.
//! Submitting an event and firing a reminder run both use it.
//!
//! A reserved slot is released if the rows do not become durable, or if the caller is gone by then.

use std::sync::Arc;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{DeliveryId, EventId, EventType, LaneId, Priority, TenantId};
use breakerbox_storage::{Lease, Leased, LeasedRun, Reservations, WaitingLane};
use bytes::Bytes;

use super::abandoned::AbandonedResults;
use super::columns::{LEASED, WAITING, id};
use super::insert::{self, NewDeliveryRow, NewEventRow, NewRun};
use super::lanes::OneWaiting;
use super::transaction::WriteTransaction;
use super::writer_state::Held;

/// Inserts new deliveries, and reserves a slot for those that this process can send at once.
pub(super) struct FreshDeliveries {
    reservations: Arc<dyn Reservations>,
    /// The lane of each reserved slot. The slots are released if the deliveries do not become durable or no
    /// caller receives them.
    reserved: Vec<LaneId>,
    abandoned: AbandonedResults,
}

/// A new event, with the data that all its deliveries share.
pub(super) struct FreshEvent<'e> {
    pub(super) id: i64,
    pub(super) tenant: &'e TenantId,
    pub(super) tenant_row: i64,
    pub(super) kind: &'e EventType,
    pub(super) content_type: &'e Arc<str>,
    pub(super) priority: Priority,
    pub(super) payload: &'e Bytes,
    pub(super) fan_out: u32,
    pub(super) not_before: Option<Timestamp>,
    pub(super) expires_at: Option<Timestamp>,
    /// The dynamic URL. `None`: the deliveries go to the endpoints' URLs.
    pub(super) url: Option<Arc<str>>,
    /// The key of the dynamic URL's circuit. `None`: the deliveries go to endpoints.
    pub(super) key: Option<Arc<str>>,
    /// The reminder run that the event is for. `None`: a client submitted the event.
    pub(super) run: Option<NewRun>,
}

/// A delivery of a new event, to be inserted.
#[derive(Clone, Copy)]
pub(super) struct FreshDelivery {
    pub(super) id: i64,
    pub(super) lane: LaneId,
    pub(super) due_at: Timestamp,
    pub(super) expires_at: Option<Timestamp>,
    /// Whether the delivery is due and has not expired, so that a slot may be reserved for it.
    pub(super) is_ripe: bool,
}

impl FreshDeliveries {
    pub(super) fn new(reservations: Arc<dyn Reservations>, abandoned: AbandonedResults) -> Self {
        Self { reservations, reserved: Vec::new(), abandoned }
    }

    /// Inserts a delivery. If a slot is reserved for it, it is leased and added to `taken`; otherwise it waits, and
    /// its lane is added to `woken`.
    pub(super) fn insert(
        &mut self,
        transaction: &mut WriteTransaction<'_>,
        event: &FreshEvent<'_>,
        delivery: FreshDelivery,
        taken: &mut Vec<Leased>,
        woken: &mut Vec<WaitingLane>,
    ) -> rusqlite::Result<()> {
        let FreshDelivery { lane, due_at, expires_at, is_ripe, .. } = delivery;
        let key = event.key.as_ref();
        let lease = is_ripe.then(|| self.reservations.reserve(lane, event.tenant, key)).flatten();
        if lease.is_some() {
            self.reserved.push(lane);
        }
        let new = NewDeliveryRow {
            id: delivery.id,
            event: event.id,
            tenant: event.tenant_row,
            lane: lane.number(),
            state: if lease.is_some() { LEASED } else { WAITING },
            priority: event.priority,
            due_at,
            expires_at,
            finished_at: None,
        };
        insert::delivery(transaction.connection, new)?;
        let bytes = event.payload.len() as u64;
        transaction.writer_state.begun(event.tenant_row, lane.number(), bytes);
        let Some(lease) = lease else {
            OneWaiting { lane, tenant: event.tenant, key }.wake(woken, event.priority, due_at);
            return Ok(());
        };
        let held = Held {
            lease: Lease(0),
            until: transaction.now + lease,
            lane: lane.number(),
            tenant: event.tenant_row,
            bytes,
            requests: 0,
            reminder: event.run.map(|run| run.id.reminder.number()),
        };
        let lease = transaction.writer_state.hold(delivery.id, held);
        taken.push(event.leased(delivery, lease));
        Ok(())
    }

    /// Releases the reserved slots, because the deliveries did not become durable.
    pub(super) fn on_rollback(&mut self) {
        self.reserved.drain(..).for_each(|lane| self.reservations.release(lane));
    }

    /// Releases the reserved slots, and leaves the deliveries to the next reclaim, because they are durable but no
    /// caller receives them.
    pub(super) fn on_caller_gone(&mut self, taken: &[Leased], woken: Vec<WaitingLane>) {
        self.reserved.drain(..).for_each(|lane| self.reservations.release(lane));
        self.abandoned.add(taken, woken);
    }
}

impl FreshEvent<'_> {
    /// Inserts the event and its payload.
    pub(super) fn insert(&self, transaction: &WriteTransaction<'_>) -> rusqlite::Result<()> {
        let row = NewEventRow {
            id: self.id,
            tenant: self.tenant_row,
            kind: self.kind.as_str(),
            content_type: self.content_type,
            priority: self.priority,
            fan_out: self.fan_out,
            payload: self.payload,
            not_before: self.not_before,
            expires_at: self.expires_at,
            url: self.url.as_deref(),
            run: self.run,
        };
        insert::event(transaction.connection, &row)
    }

    /// Returns one of the event's deliveries in the form in which it is dispatched.
    fn leased(&self, delivery: FreshDelivery, lease: Lease) -> Leased {
        let run = |run: NewRun| LeasedRun { id: run.id, scheduled_at: run.scheduled_at, latest_of: None };
        Leased {
            id: DeliveryId(id(delivery.id)),
            lease,
            lane: delivery.lane,
            tenant: self.tenant.clone(),
            event: EventId(id(self.id)),
            kind: self.kind.clone(),
            payload: self.payload.clone(),
            content_type: Arc::clone(self.content_type),
            priority: self.priority,
            attempts: 0,
            url: self.url.clone(),
            run: self.run.map(run),
            pulled_from: None,
            created_at: id(self.id).made_at(),
            expires_at: delivery.expires_at,
        }
    }
}
