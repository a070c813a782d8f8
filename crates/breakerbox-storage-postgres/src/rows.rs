//! The rows of new events and deliveries, column by column, as the statements take them.

use breakerbox_core::Timestamp;
use breakerbox_model::objects::RunId;
use breakerbox_storage::QueueError;
use breakerbox_storage::stored::codes::{micros, number};

use super::database::Transaction;
use super::error::get;

/// Converts a code of [`codes`](breakerbox_storage::stored::codes) to its column's type.
pub(crate) fn code(number: i64) -> i16 {
    i16::try_from(number).unwrap_or(i16::MAX)
}

/// Converts a small count to its column's type.
pub(crate) fn small(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Converts a small count from its column's type.
pub(crate) fn unsigned(count: i32) -> u32 {
    u32::try_from(count).unwrap_or(0)
}

/// An event to insert, with its payload.
pub(crate) struct EventRow<'e> {
    pub(crate) id: i64,
    pub(crate) tenant: i64,
    pub(crate) kind: &'e str,
    /// The media type; `None` for JSON.
    pub(crate) content_type: Option<&'e str>,
    pub(crate) priority: i16,
    pub(crate) fan_out: u32,
    pub(crate) payload: &'e [u8],
    pub(crate) not_before: Option<Timestamp>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) url: Option<&'e str>,
    pub(crate) run: Option<NewRun>,
}

/// The reminder run that an event is for.
#[derive(Clone, Copy)]
pub(crate) struct NewRun {
    pub(crate) id: RunId,
    pub(crate) scheduled_at: Timestamp,
    pub(crate) skipped: u32,
    /// Whether the run serves the occurrence that is the latest when the run is sent, rather than when it is fired.
    pub(crate) latest: bool,
}

/// Events to insert.
#[derive(Default)]
pub(crate) struct EventRows<'e> {
    ids: Vec<i64>,
    tenants: Vec<i64>,
    kinds: Vec<&'e str>,
    content_types: Vec<Option<&'e str>>,
    priorities: Vec<i16>,
    fan_outs: Vec<i32>,
    sizes: Vec<i64>,
    not_before: Vec<Option<i64>>,
    expires_at: Vec<Option<i64>>,
    urls: Vec<Option<&'e str>>,
    reminders: Vec<Option<i64>>,
    runs: Vec<Option<i64>>,
    scheduled_at: Vec<Option<i64>>,
    skipped: Vec<Option<i64>>,
    latest: Vec<Option<bool>>,
    payloads: Vec<&'e [u8]>,
}

impl<'e> EventRows<'e> {
    pub(crate) fn push(&mut self, row: &EventRow<'e>) {
        self.ids.push(row.id);
        self.tenants.push(row.tenant);
        self.kinds.push(row.kind);
        self.content_types.push(row.content_type);
        self.priorities.push(row.priority);
        self.fan_outs.push(small(row.fan_out));
        self.sizes.push(number(row.payload.len() as u64));
        self.not_before.push(row.not_before.map(micros));
        self.expires_at.push(row.expires_at.map(micros));
        self.urls.push(row.url);
        self.reminders.push(row.run.map(|run| run.id.reminder.number()));
        self.runs.push(row.run.map(|run| i64::from(run.id.number)));
        self.scheduled_at.push(row.run.map(|run| micros(run.scheduled_at)));
        self.skipped.push(row.run.map(|run| i64::from(run.skipped)));
        self.latest.push(row.run.map(|run| run.latest));
        self.payloads.push(row.payload);
    }

    /// Inserts the events and their payloads.
    pub(crate) async fn insert(&self, transaction: &Transaction) -> Result<(), QueueError> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let (events, payloads) = tokio::join!(
            biased;
            async {
                transaction.query(
                    include_str!("sql/insert_events.sql"),
                    &[
                        &self.ids,
                        &self.tenants,
                        &self.kinds,
                        &self.content_types,
                        &self.priorities,
                        &self.fan_outs,
                        &self.sizes,
                        &self.not_before,
                        &self.expires_at,
                        &self.urls,
                        &self.reminders,
                        &self.runs,
                        &self.scheduled_at,
                        &self.skipped,
                        &self.latest,
                    ],
                ).await
            },
            async {
                transaction.query(include_str!("sql/insert_payloads.sql"), &[&self.ids, &self.payloads]).await
            },
        );
        events.and(payloads).map(drop)
    }
}

/// A delivery to insert.
#[derive(Clone, Copy)]
pub(crate) struct DeliveryRow {
    pub(crate) id: i64,
    pub(crate) event: i64,
    pub(crate) tenant: i64,
    pub(crate) lane: i64,
    pub(crate) priority: i16,
    pub(crate) due_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) size: u64,
    pub(crate) reminder: Option<i64>,
    /// The duration of the lease in microseconds, if this process sends the delivery at once.
    pub(crate) lease: Option<i64>,
}

/// Deliveries to insert.
#[derive(Default)]
pub(crate) struct DeliveryRows {
    ids: Vec<i64>,
    events: Vec<i64>,
    tenants: Vec<i64>,
    lanes: Vec<i64>,
    priorities: Vec<i16>,
    due_at: Vec<i64>,
    expires_at: Vec<Option<i64>>,
    sizes: Vec<i64>,
    reminders: Vec<Option<i64>>,
    leases: Vec<Option<i64>>,
}

impl DeliveryRows {
    pub(crate) fn push(&mut self, row: DeliveryRow) {
        self.ids.push(row.id);
        self.events.push(row.event);
        self.tenants.push(row.tenant);
        self.lanes.push(row.lane);
        self.priorities.push(row.priority);
        self.due_at.push(micros(row.due_at));
        self.expires_at.push(row.expires_at.map(micros));
        self.sizes.push(number(row.size));
        self.reminders.push(row.reminder);
        self.leases.push(row.lease);
    }

    /// Inserts the deliveries, and returns the leases of those that this process took.
    pub(crate) async fn insert(&self, transaction: &Transaction) -> Result<Vec<(i64, i64)>, QueueError> {
        if self.ids.is_empty() {
            return Ok(Vec::new());
        }
        let database = transaction.database();
        let rows = transaction
            .query(
                include_str!("sql/insert_deliveries.sql"),
                &[
                    &database.given_now(),
                    &database.worker(),
                    &self.ids,
                    &self.events,
                    &self.tenants,
                    &self.lanes,
                    &self.priorities,
                    &self.due_at,
                    &self.expires_at,
                    &self.sizes,
                    &self.reminders,
                    &self.leases,
                ],
            )
            .await?;
        rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect()
    }

    /// Inserts the deliveries as cancelled at a time.
    pub(crate) async fn insert_cancelled(
        &self,
        transaction: &Transaction,
        at: Timestamp,
    ) -> Result<(), QueueError> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let at = micros(at);
        let columns: [&dyn super::Value; 9] = [
            &at,
            &self.ids,
            &self.events,
            &self.tenants,
            &self.lanes,
            &self.priorities,
            &self.due_at,
            &self.expires_at,
            &self.sizes,
        ];
        transaction.query(include_str!("sql/insert_cancelled.sql"), &columns).await.map(drop)
    }
}
