//! Accepts a batch in one transaction: events, payloads, a delivery for each endpoint, the idempotency key.
//!
//! The transaction writes a bounded number of deliveries per tenant, and a durable job ([`fan_out`](super::fan_out))
//! writes the rest. Limits count all deliveries at once.
//!
//! A batch is rejected before the first row is written. A retry with the same idempotency key is detected before the
//! limits are checked, and writes nothing.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::{Key, Timestamp};
use breakerbox_model::objects::{EventId, EventType, LaneId, NewBatch, NewEvent};
use breakerbox_storage::clock::Drift;
use breakerbox_storage::{QueueError, SubmitError, Submitted, SubmittedEvent};

use super::columns::id;
use super::disk::BelowReserve;
use super::fan_out::{self, Audience, NewFanOut};
use super::fresh::{FreshDeliveries, FreshDelivery, FreshEvent};
use super::idempotency::{Earlier, earlier, remember_events};
use super::job::Command;
use super::lanes;
use super::transaction::WriteTransaction;
use crate::error::JobError;
use breakerbox_storage::{Routes, TenantRoutes};

/// The maximum number of deliveries written by the accepting transaction itself.
pub(super) const WRITTEN_AT_SUBMIT: u32 = 1_000;
/// The approximate number of bytes that a delivery takes on disk, with its attempt and the log, in addition to its
/// payload.
const BYTES_EACH: u32 = 1_024;

pub(super) struct Submit {
    pub(super) batch: NewBatch,
    pub(super) routes: Arc<dyn Routes>,
    pub(super) deliveries: FreshDeliveries,
}

/// The destination of one of an event's deliveries.
#[derive(Clone, Copy)]
struct DeliveryTarget {
    lane: LaneId,
    expires_at: Option<Timestamp>,
}

impl Command for Submit {
    type Output = Result<Submitted, SubmitError>;

    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<Self::Output, JobError<QueueError>> {
        let Some(tenant) = self.routes.tenant(&self.batch.tenant) else {
            return Ok(Err(SubmitError::UnknownTenant(self.batch.tenant.clone())));
        };
        if let Some(key) = &self.batch.idempotency
            && let Some(earlier) = earlier(transaction, tenant.row(), key)?
        {
            return Ok(answered_before(&earlier));
        }
        let mut keys = Vec::new();
        for event in &self.batch.events {
            let key = event
                .url
                .as_ref()
                .map(|url| Key::of(self.batch.tenant.as_str(), url.as_str(), tenant.circuit_by()));
            match key.transpose() {
                Ok(key) => keys.push(key),
                Err(error) => return Ok(Err(SubmitError::Url(error))),
            }
        }
        let fan_outs = self.fan_outs(&*tenant);
        if let Err(refused) = admit(transaction, &*tenant, &self.batch.events, &fan_outs) {
            return Ok(Err(refused));
        }
        Ok(Ok(self.write(transaction, &*tenant, &keys, &fan_outs)?))
    }

    fn on_rollback(&mut self) {
        self.deliveries.on_rollback();
    }

    fn on_caller_gone(&mut self, answer: Self::Output) {
        let Ok(accepted) = answer else { return };
        self.deliveries.on_caller_gone(&accepted.taken, accepted.woken);
    }

    fn bytes(&self) -> usize {
        self.batch.events.iter().map(|event| event.payload.len() + BYTES_EACH as usize).sum()
    }
}

impl Submit {
    /// Returns the number of deliveries for each event of the batch.
    fn fan_outs(&self, tenant: &dyn TenantRoutes) -> Vec<u32> {
        let of_event = |event: &NewEvent| match &event.url {
            Some(_) => 1,
            None => u32::try_from(tenant.endpoint_count(&event.kind)).unwrap_or(u32::MAX),
        };
        self.batch.events.iter().map(of_event).collect()
    }

    fn write(
        &mut self,
        transaction: &mut WriteTransaction<'_>,
        tenant: &dyn TenantRoutes,
        keys: &[Option<Key>],
        fan_outs: &[u32],
    ) -> Result<Submitted, JobError<QueueError>> {
        let (connection, now, row) = (transaction.connection, transaction.now, tenant.row());
        let (wall, drift) = (transaction.wall, transaction.drift());
        let mut lanes_of_keys = Vec::with_capacity(keys.len());
        for key in keys {
            lanes_of_keys.push(match key {
                Some(key) => {
                    Some(lanes::of_key(connection, transaction.writer_state, row, key.text(), wall)?)
                }
                None => None,
            });
        }
        let ids = fan_outs.iter().fold(0_u32, |ids, fan_out| ids.saturating_add(*fan_out).saturating_add(1));
        let first = transaction.writer_state.next_ids(ids, wall).number();
        let mut accepted = Submitted {
            events: Vec::with_capacity(fan_outs.len()),
            repeated: false,
            taken: Vec::new(),
            woken: Vec::new(),
            deferred: 0,
        };
        let mut next = first;
        let mut room = transaction.writer_state.room_in_group(row).min(WRITTEN_AT_SUBMIT);
        // The audience of the previous event; events of the same type share it.
        let mut shared = None;
        for (index, fan_out) in fan_outs.iter().copied().enumerate() {
            let event = &self.batch.events[index];
            let event_id = next;
            // An event for a dynamic URL has one row, which is no more work than a fan-out job.
            let written = if event.url.is_some() { fan_out } else { fan_out.min(room) };
            room = room.saturating_sub(written);
            transaction.writer_state.wrote_in_group(row, written);
            let targets = targets(tenant, event, written, now, drift);
            let size = event.payload.len() as u64;
            let fresh = FreshEvent {
                id: event_id,
                tenant: &self.batch.tenant,
                tenant_row: row,
                kind: &event.kind,
                content_type: &event.content_type,
                priority: event.priority,
                payload: &event.payload,
                fan_out,
                not_before: event.not_before,
                expires_at: event.expires_at,
                url: event.url.as_ref().map(|url| Arc::from(url.as_str())),
                key: keys[index].as_ref().map(|key| Arc::from(key.text())),
                run: None,
            };
            fresh.insert(transaction)?;
            let due_at = starts_at(event, now, drift);
            for target in targets {
                next += 1;
                let delivery = FreshDelivery {
                    id: next,
                    lane: lanes_of_keys[index].map_or(target.lane, |lane| LaneId(id(lane))),
                    due_at,
                    expires_at: target.expires_at,
                    is_ripe: due_at <= now && target.expires_at.is_none_or(|at| at > now),
                };
                let (taken, woken) = (&mut accepted.taken, &mut accepted.woken);
                self.deliveries.insert(transaction, &fresh, delivery, taken, woken)?;
            }
            let rest = fan_out - written;
            if rest > 0 {
                let audience = match shared.take() {
                    Some((kind, audience)) if kind == &event.kind => audience,
                    _ => audience(tenant, &event.kind, fan_out),
                };
                let new = NewFanOut {
                    tenant: row,
                    event: event_id,
                    audience: &audience,
                    written,
                    rest,
                    size,
                    due_at,
                };
                fan_out::defer(transaction, new)?;
                shared = Some((&event.kind, audience));
                accepted.deferred += u64::from(rest);
            }
            next = event_id + i64::from(fan_out) + 1;
            accepted.events.push(SubmittedEvent { id: EventId(id(event_id)), deliveries: fan_out });
        }
        if let Some(key) = &self.batch.idempotency {
            let fan_outs: Vec<u8> =
                accepted.events.iter().flat_map(|event| event.deliveries.to_le_bytes()).collect();
            remember_events(connection, row, first, key, &fan_outs)?;
        }
        Ok(accepted)
    }
}

/// Returns the destinations of an event's first `written` deliveries. For a dynamic URL, the lane in the
/// result is only a placeholder.
fn targets(
    tenant: &dyn TenantRoutes,
    event: &NewEvent,
    written: u32,
    now: Timestamp,
    drift: Drift,
) -> Vec<DeliveryTarget> {
    let start = starts_at(event, now, drift);
    let own = event.expires_at.map(|at| drift.to_store(at));
    let expires = |after: Option<Duration>| own.or(after.map(|after| start + after));
    if event.url.is_some() {
        return vec![DeliveryTarget { lane: LaneId(id(0)), expires_at: expires(tenant.expires_after()) }];
    }
    let mut targets = Vec::with_capacity(written as usize);
    if written > 0 {
        tenant.endpoints(&event.kind, &mut |route| {
            if targets.len() < written as usize {
                targets.push(DeliveryTarget { lane: route.lane, expires_at: expires(route.expires_after) });
            }
        });
    }
    targets
}

/// Returns all endpoints that receive an event; `fan_out` is their number.
fn audience(tenant: &dyn TenantRoutes, kind: &EventType, fan_out: u32) -> Audience {
    let mut audience = Audience::with_room_for(fan_out);
    tenant.endpoints(kind, &mut |route| audience.push(route));
    audience
}

/// Returns the earliest time at which an event may be sent, converted from the client's wall-clock time to
/// the store clock. It is at least `now`.
fn starts_at(event: &NewEvent, now: Timestamp, drift: Drift) -> Timestamp {
    event.not_before.map_or(now, |at| drift.to_store(at).max(now))
}

/// Checks that the backlog limit and the disk allow the whole batch.
fn admit(
    transaction: &mut WriteTransaction<'_>,
    tenant: &dyn TenantRoutes,
    events: &[NewEvent],
    fan_outs: &[u32],
) -> Result<(), SubmitError> {
    let (mut count, mut bytes, mut payloads) = (0_u64, 0_u64, 0_u64);
    for (event, fan_out) in events.iter().zip(fan_outs) {
        count += u64::from(*fan_out);
        bytes = bytes.saturating_add((event.payload.len() as u64).saturating_mul(u64::from(*fan_out)));
        payloads += event.payload.len() as u64;
    }
    let limit = tenant.backlog();
    let now = transaction.writer_state.unfinished(tenant.row());
    let is_over =
        now.count.saturating_add(count) > limit.count || now.bytes.saturating_add(bytes) > limit.bytes;
    if count > 0 && is_over {
        return Err(SubmitError::BacklogFull { waiting: now.count, bytes: now.bytes });
    }
    let room = room_for(transaction, count, payloads);
    room.map_err(|below| SubmitError::DiskReserve { free: below.free, reserve: below.reserve })
}

/// Checks that the disk has room for this number of deliveries and payload bytes.
pub(super) fn room_for(
    transaction: &mut WriteTransaction<'_>,
    deliveries: u64,
    bytes: u64,
) -> Result<(), BelowReserve> {
    // Each byte is written twice: to the write-ahead log, and later to the database.
    let wanted = bytes.saturating_mul(2).saturating_add((deliveries + 1).saturating_mul(BYTES_EACH.into()));
    transaction.writer_state.disk.admits(wanted)
}

/// Returns the stored result of an earlier request with the same key.
fn answered_before(earlier: &Earlier) -> Result<Submitted, SubmitError> {
    if !earlier.is_same {
        return Err(SubmitError::KeyReused);
    }
    let mut next = earlier.id;
    let events = earlier.fan_outs.as_chunks::<4>().0.iter().map(|bytes| {
        let deliveries = u32::from_le_bytes(*bytes);
        let event = SubmittedEvent { id: EventId(id(next)), deliveries };
        next += i64::from(deliveries) + 1;
        event
    });
    let events = events.collect();
    Ok(Submitted { events, repeated: true, taken: Vec::new(), woken: Vec::new(), deferred: 0 })
}
