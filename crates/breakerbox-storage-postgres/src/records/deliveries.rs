//! Events, deliveries and attempts, as the API shows them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::objects::{
    Attempt, Backlog, Delivery, DeliveryFilter, DeliveryId, DeliveryState, EndpointId, Event, EventFilter,
    EventId, EventSummary, Id, NewEvent, ReminderId, RunId, TenantNumber,
};
use breakerbox_storage::records::cursors::{CursorPosition, page, position};
use breakerbox_storage::records::{Cursor, Deliveries, Page, PageOf, UnfinishedWork};
use breakerbox_storage::stored::codes::{content_type_of, id, number, priority, state, whole};
use breakerbox_storage::stored::{Unreadable, parsed};
use breakerbox_storage::{QueueError, RecordsError};
use bytes::Bytes;
use tokio_postgres::Row;

use super::PostgresRecords;
use super::scan::{Order, Scan};
use crate::columns::{
    at, column, fault_of, last_attempt, listed, maybe_at, parsed_column, readable, small, unreadable,
};
use crate::database::Transaction;
use crate::error::get;

pub(super) const DELIVERY: &str = "delivery";

/// The maximum number of rows that are read for one page, so that a page takes at most a few milliseconds.
const LOOKS: usize = 20_000;

/// Returns the delivery with this id, as the API shows it.
pub(super) async fn show(transaction: &Transaction, wanted: DeliveryId) -> Result<Delivery, RecordsError> {
    let sql = include_str!("../sql/records/show_deliveries.sql");
    let found = transaction.query_opt(sql, &[&vec![wanted.number()]]).await?;
    readable(found.as_ref().map(shown), DELIVERY, wanted)
}

/// Returns the deliveries with these ids that exist and can be read, in the same order.
pub(super) async fn show_all(
    transaction: &Transaction,
    ids: &[i64],
) -> Result<Vec<Option<Delivery>>, QueueError> {
    let sql = include_str!("../sql/records/show_deliveries.sql");
    let mut found = HashMap::with_capacity(ids.len());
    for row in transaction.query(sql, &[&ids.to_vec()]).await? {
        let number: i64 = get(&row, 0)?;
        found.insert(number, listed(shown(&row), DELIVERY, DeliveryId(id(number))));
    }
    Ok(ids.iter().map(|id| found.remove(id).flatten()).collect())
}

fn shown(row: &Row) -> Result<Delivery, Unreadable> {
    let delivery = DeliveryId(id(column(row, "id")?));
    let url: Option<Arc<str>> = column::<Option<String>>(row, "url")?.map(Into::into);
    let endpoint = EndpointId(id(column(row, "lane")?));
    let attempts = small(row, "attempts")?;
    // A delivery that waits in a closed lane counts as cancelled, even if its row does not say so yet.
    let closed_at = maybe_at(row, "closed_at")?;
    let state = match closed_at {
        Some(_) => DeliveryState::Cancelled,
        None => state(column(row, "state")?, column(row, "reason")?, attempts),
    };
    let while_waiting = |at: Option<_>| at.filter(|_| !state.is_finished());
    Ok(Delivery {
        id: delivery,
        tenant: parsed_column(row, "tenant")?,
        owner: TenantNumber(column(row, "owner")?),
        event: EventId(id(column(row, "event")?)),
        kind: parsed_column(row, "kind")?,
        lane: endpoint.into(),
        endpoint: url.is_none().then_some(endpoint),
        url,
        run: match column::<Option<i64>>(row, "reminder")? {
            Some(reminder) => Some(RunId { reminder: ReminderId(id(reminder)), number: small(row, "run")? }),
            None => None,
        },
        priority: priority(column(row, "priority")?),
        state,
        attempts,
        due_at: while_waiting(maybe_at(row, "due_at")?),
        expires_at: while_waiting(maybe_at(row, "expires_at")?),
        created_at: delivery.0.made_at(),
        finished_at: closed_at.or(maybe_at(row, "finished_at")?),
        last_attempt: match maybe_at(row, "started_at")? {
            Some(_) => Some(last_attempt(row)?),
            None => None,
        },
    })
}

fn event(row: &Row) -> Result<Event, Unreadable> {
    let event = EventId(id(column(row, "id")?));
    Ok(Event {
        id: event,
        tenant: parsed_column(row, "tenant")?,
        owner: TenantNumber(column(row, "owner")?),
        submitted: NewEvent {
            kind: parsed_column(row, "kind")?,
            payload: Bytes::from(column::<Vec<u8>>(row, "payload")?),
            content_type: content_type_of(column(row, "content_type")?),
            priority: priority(column(row, "priority")?),
            url: column::<Option<&str>>(row, "url")?.map(parsed).transpose()?,
            not_before: maybe_at(row, "not_before")?,
            expires_at: maybe_at(row, "expires_at")?,
        },
        accepted_at: event.0.made_at(),
        deliveries: small(row, "fan_out")?,
        fanning_out: small(row, "fanning_out")?,
    })
}

fn attempt(row: &Row) -> Result<(u64, Attempt), Unreadable> {
    let status: Option<i64> = column(row, "status")?;
    let attempt = Attempt {
        started_at: at(row, "started_at")?,
        latency: Duration::from_micros(whole(column(row, "latency")?)),
        status: status.map(u16::try_from).transpose().map_err(Unreadable::new)?,
        fault: column::<Option<&str>>(row, "fault")?.map(fault_of),
        detail: column(row, "detail")?,
        probe: column(row, "probe")?,
        response: Bytes::from(column::<Option<Vec<u8>>>(row, "response")?.unwrap_or_default()),
    };
    Ok((whole(column(row, "number")?), attempt))
}

#[async_trait]
impl Deliveries for PostgresRecords {
    async fn event(&self, wanted: EventId) -> Result<Event, RecordsError> {
        let sql = include_str!("../sql/records/show_event.sql");
        let rows = self.database.read(sql, &[&wanted.number()]).await?;
        readable(rows.first().map(event), "event", wanted)
    }

    async fn events(&self, filter: &EventFilter, of: &PageOf) -> Result<Page<EventSummary>, RecordsError> {
        self.list_events(filter, of).await
    }

    async fn deliveries(&self, filter: &DeliveryFilter, of: &PageOf) -> Result<Page<Delivery>, RecordsError> {
        let after = position::<Id>(of)?.map(Id::number);
        let transaction = self.database.begin_read().await?;
        let Some(scan) = Scan::new(filter, &transaction).await? else {
            transaction.commit().await?;
            return Ok(Page { items: Vec::new(), next: None });
        };
        let found = scan.run(&transaction, Order::NewestFirst, after, of.size(), LOOKS).await?;
        let items = show_all(&transaction, &found.ids).await?.into_iter().flatten().collect();
        transaction.commit().await?;
        Ok(Page { items, next: found.stopped_at.map(|at| Cursor(id(at).write())) })
    }

    async fn delivery(&self, wanted: DeliveryId) -> Result<Delivery, RecordsError> {
        let sql = include_str!("../sql/records/show_deliveries.sql");
        let rows = self.database.read(sql, &[&vec![wanted.number()]]).await?;
        readable(rows.first().map(shown), DELIVERY, wanted)
    }

    async fn attempts(&self, wanted: DeliveryId, of: &PageOf) -> Result<Page<Attempt>, RecordsError> {
        let before = position::<u64>(of)?.map_or(i64::MAX, number);
        let size = of.size();
        let transaction = self.database.begin_read().await?;
        let sql = include_str!("../sql/records/delivery_exists.sql");
        let exists = transaction.query_opt(sql, &[&wanted.number()]).await?;
        if exists.is_none() {
            transaction.commit().await?;
            return Err(RecordsError::missing(DELIVERY, wanted));
        }
        let sql = include_str!("../sql/records/list_attempts.sql");
        let rows = transaction.query(sql, &[&wanted.number(), &before, &number(size as u64 + 1)]).await?;
        transaction.commit().await?;
        let found = rows.iter().map(|row| attempt(row).map_err(unreadable)).collect::<Result<_, _>>()?;
        let found = page(found, size, |(number, _): &(u64, Attempt)| *number);
        Ok(Page { items: found.items.into_iter().map(|(_, attempt)| attempt).collect(), next: found.next })
    }

    async fn cancel_delivery(&self, id: DeliveryId) -> Result<Delivery, RecordsError> {
        self.cancel_one(id).await
    }

    async fn resend_delivery(&self, id: DeliveryId) -> Result<Delivery, RecordsError> {
        self.resend_one(id).await
    }

    async fn waiting(&self) -> Result<UnfinishedWork, RecordsError> {
        let sql = include_str!("../sql/records/unfinished_work.sql");
        let rows = self.database.read(sql, &[]).await?;
        let row = rows.first().ok_or(QueueError::Closed)?;
        Ok(UnfinishedWork {
            backlog: Backlog { count: whole(get(row, 0)?), bytes: whole(get(row, 1)?) },
            tenants: whole(get(row, 2)?),
            fanning_out: whole(get(row, 3)?),
        })
    }
}
