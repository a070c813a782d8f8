//! Events, deliveries and attempts, read on the reader threads.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::objects::{
    Attempt, Backlog, Delivery, DeliveryFilter, DeliveryId, DeliveryState, EndpointId, Event, EventFilter,
    EventId, EventSummary, Id, NewEvent, ReminderId, RunId, TenantNumber,
};
use breakerbox_storage::RecordsError;
use breakerbox_storage::records::{Cursor, Deliveries, Page, PageOf, UnfinishedWork};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::scan::{Order, Scan};
use super::{SqliteRecords, listed, readable};
use crate::columns::{content_type_of, id, number, parsed, priority, state, time, whole};
use crate::last_attempts;
use breakerbox_storage::records::cursors::{CursorPosition, page, position};

pub(super) const DELIVERY: &str = "delivery";

/// The maximum number of rows that are read for one page, so that a page takes at most a few milliseconds.
const LOOKS: usize = 20_000;

/// Returns the delivery with this id, as the API shows it.
pub(super) fn show(connection: &Connection, delivery: i64) -> rusqlite::Result<Option<Delivery>> {
    connection
        .prepare_cached(
            "SELECT d.id, t.id, d.event, e.kind, d.lane, e.url, d.priority, d.state, d.reason, d.attempts, d.due_at,
                    d.expires_at, d.finished_at, e.reminder, e.run, c.lane IS NOT NULL AND d.state = 0, nullif(c.closed_at, 0),
                    d.tenant, a.started_at, a.status, a.fault, a.detail
             FROM deliveries d JOIN events e ON e.id = d.event JOIN tenants t ON t.row = d.tenant
                  LEFT JOIN closed_lanes c ON c.lane = d.lane
                  LEFT JOIN attempts a ON a.delivery = d.id AND a.number = d.requests WHERE d.id = ?1",
        )?
        .query_row([delivery], shown)
        .optional()
}

fn shown(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    let delivery = DeliveryId(id(row.get(0)?));
    let url: Option<Arc<str>> = row.get(5)?;
    let endpoint = EndpointId(id(row.get(4)?));
    let attempts = row.get(9)?;
    // A delivery that waits in a closed lane counts as cancelled, even if its row does not say so yet.
    let is_cancelled: bool = row.get(15)?;
    let state =
        if is_cancelled { DeliveryState::Cancelled } else { state(row.get(7)?, row.get(8)?, attempts) };
    let while_waiting = |column: usize| {
        let at: Option<i64> = row.get(column)?;
        Ok::<_, rusqlite::Error>(at.filter(|_| !state.is_finished()).map(time))
    };
    Ok(Delivery {
        id: delivery,
        tenant: parsed(1, row.get_ref(1)?.as_str()?)?,
        owner: TenantNumber(row.get(17)?),
        event: EventId(id(row.get(2)?)),
        kind: parsed(3, row.get_ref(3)?.as_str()?)?,
        lane: endpoint.into(),
        endpoint: url.is_none().then_some(endpoint),
        url,
        run: match row.get::<_, Option<i64>>(13)? {
            Some(reminder) => Some(RunId { reminder: ReminderId(id(reminder)), number: row.get(14)? }),
            None => None,
        },
        priority: priority(row.get(6)?),
        state,
        attempts,
        last_attempt: match row.get::<_, Option<i64>>(18)? {
            Some(_) => Some(last_attempts::read(row, 18)?),
            None => None,
        },
        due_at: while_waiting(10)?,
        expires_at: while_waiting(11)?,
        created_at: delivery.0.made_at(),
        finished_at: row.get::<_, Option<i64>>(if is_cancelled { 16 } else { 12 })?.map(time),
    })
}

fn event(row: &Row<'_>) -> rusqlite::Result<Event> {
    let event = EventId(id(row.get(0)?));
    let url = row.get_ref(8)?.as_str_or_null()?;
    Ok(Event {
        id: event,
        tenant: parsed(1, row.get_ref(1)?.as_str()?)?,
        owner: TenantNumber(row.get(11)?),
        submitted: NewEvent {
            kind: parsed(2, row.get_ref(2)?.as_str()?)?,
            payload: Bytes::from(row.get::<_, Vec<u8>>(3)?),
            content_type: content_type_of(row.get(4)?),
            priority: priority(row.get(5)?),
            url: url.map(|url| parsed(8, url)).transpose()?,
            not_before: row.get::<_, Option<i64>>(6)?.map(time),
            expires_at: row.get::<_, Option<i64>>(7)?.map(time),
        },
        accepted_at: event.0.made_at(),
        deliveries: row.get(9)?,
        fanning_out: row.get(10)?,
    })
}

fn attempt(row: &Row<'_>) -> rusqlite::Result<(u64, Attempt)> {
    let attempt = Attempt {
        started_at: time(row.get(1)?),
        latency: Duration::from_micros(whole(row.get(2)?)),
        status: row.get(3)?,
        fault: row.get_ref(4)?.as_str_or_null()?.map(last_attempts::fault_of),
        detail: row.get(5)?,
        probe: row.get(6)?,
        response: Bytes::from(row.get::<_, Option<Vec<u8>>>(7)?.unwrap_or_default()),
    };
    Ok((whole(row.get(0)?), attempt))
}

#[async_trait]
impl Deliveries for SqliteRecords {
    async fn event(&self, wanted: EventId) -> Result<Event, RecordsError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT e.id, t.id, e.kind, p.payload, e.content_type, e.priority, e.not_before, e.expires_at, e.url,
                            e.fan_out, coalesce((SELECT e.fan_out - position FROM fan_outs WHERE event = e.id), 0),
                            e.tenant
                     FROM events e JOIN payloads p ON p.event = e.id JOIN tenants t ON t.row = e.tenant WHERE e.id = ?1",
                )?;
                readable(statement.query_row([wanted.number()], event).optional(), "event", wanted)
            })
            .await
    }

    async fn events(&self, filter: &EventFilter, of: &PageOf) -> Result<Page<EventSummary>, RecordsError> {
        self.list_events(filter, of).await
    }

    async fn deliveries(&self, filter: &DeliveryFilter, of: &PageOf) -> Result<Page<Delivery>, RecordsError> {
        let after = position::<Id>(of)?.map(Id::number);
        let (filter, size) = (filter.clone(), of.size());
        self.database
            .read(move |connection| {
                let Some(scan) = Scan::new(&filter, connection)? else {
                    return Ok(Page { items: Vec::new(), next: None });
                };
                let found = scan.run(connection, Order::NewestFirst, after, size, LOOKS)?;
                let mut items = Vec::with_capacity(found.ids.len());
                for found in found.ids {
                    let shown = show(connection, found).transpose();
                    let shown = shown.map(|shown| listed(shown, DELIVERY, DeliveryId(id(found))));
                    items.extend(shown.transpose()?.flatten());
                }
                Ok(Page { items, next: found.stopped_at.map(|at| Cursor(id(at).write())) })
            })
            .await
    }

    async fn delivery(&self, wanted: DeliveryId) -> Result<Delivery, RecordsError> {
        self.database
            .read(move |connection| readable(show(connection, wanted.number()), DELIVERY, wanted))
            .await
    }

    async fn attempts(&self, wanted: DeliveryId, of: &PageOf) -> Result<Page<Attempt>, RecordsError> {
        let before = position::<u64>(of)?;
        let size = of.size();
        let found = self
            .database
            .read(move |connection| {
                let exists = connection
                    .prepare_cached("SELECT 1 FROM deliveries WHERE id = ?1")?
                    .exists([wanted.number()])?;
                if !exists {
                    return Err(RecordsError::missing(DELIVERY, wanted).into());
                }
                let mut statement = connection.prepare_cached(
                    "SELECT number, started_at, latency, status, fault, detail, probe, response FROM attempts
                     WHERE delivery = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3",
                )?;
                let before = before.map_or(i64::MAX, number);
                let rows = statement
                    .query_map(params![wanted.number(), before, number(size as u64 + 1)], attempt)?;
                Ok(page(rows.collect::<Result<_, _>>()?, size, |(number, _): &(u64, Attempt)| *number))
            })
            .await?;
        Ok(Page { items: found.items.into_iter().map(|(_, attempt)| attempt).collect(), next: found.next })
    }

    async fn cancel_delivery(&self, id: DeliveryId) -> Result<Delivery, RecordsError> {
        self.cancel_one(id).await
    }

    async fn resend_delivery(&self, id: DeliveryId) -> Result<Delivery, RecordsError> {
        self.resend_one(id).await
    }

    async fn waiting(&self) -> Result<UnfinishedWork, RecordsError> {
        // The writer has these counts in memory; a transaction that writes nothing is very cheap.
        self.database
            .write(|transaction| {
                let (unfinished, tenants) = transaction.writer_state.total();
                let backlog = Backlog { count: unfinished.count, bytes: unfinished.bytes };
                Ok(UnfinishedWork { backlog, tenants, fanning_out: transaction.writer_state.fanning_out() })
            })
            .await
    }
}
