//! Writes circuit history and the notifications that belong to it. Observers must not wait, so changes go through a
//! bounded channel to a task that writes them in batches. If the channel is full, a change is not recorded; this is
//! counted and logged.
//!
//! A change and its notifications are written in one commit. After a crash between the commit of a circuit's record and
//! that of its history, the record contains everything needed, and the next start [catches up](catch_up).

use std::sync::Arc;
use std::time::Duration;

use breakerbox::CircuitChange;
use breakerbox::store::{ListQuery, Store};
use breakerbox_core::{Change, CircuitStatus, Record, Timestamp};
use breakerbox_model::notifications::{Notification, is_old};
use breakerbox_model::objects::{PastChange, ShownKey};
use breakerbox_storage::QueueError;
use breakerbox_storage::clock::{Drift, StoreClock};
use breakerbox_storage::records::{Notifications, ObservedChange, PageOf, Records, RecordsError};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use crate::notifications::{ChangeToReport, NotificationBuilder};
use crate::telemetry::Metrics;

/// The maximum number of changes waiting to be written.
const QUEUE_CAPACITY: usize = 65_536;

/// The maximum number of changes in one write.
const BATCH: usize = 500;

/// The maximum number of attempts to write a batch.
const TRIES: u32 = 10;

/// An entry in the writer's queue: a circuit change, or a notification that belongs to none.
enum Entry {
    Change(PastChange),
    Notification(Box<Notification>),
}

/// Queues changes for the writer, without waiting.
#[derive(Clone)]
pub(super) struct HistoryWriter {
    queue: mpsc::Sender<Entry>,
    clock: StoreClock,
    metrics: Arc<Metrics>,
}

/// The task that writes the queued changes.
pub(super) struct HistoryTask {
    queue: mpsc::Receiver<Entry>,
    metrics: Arc<Metrics>,
}

pub(super) fn channel(metrics: &Arc<Metrics>, clock: StoreClock) -> (HistoryWriter, HistoryTask) {
    let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
    (
        HistoryWriter { queue: sender, clock, metrics: Arc::clone(metrics) },
        HistoryTask { queue: receiver, metrics: Arc::clone(metrics) },
    )
}

/// Converts the times of a recent change to wall-clock time, for display.
fn by_wall_clock(mut change: Change, drift: Drift) -> Change {
    change.at = drift.to_wall(change.at);
    change.retry_at = change.retry_at.map(|at| drift.to_wall(at));
    change.last_success = change.last_success.map(|at| drift.to_wall(at));
    change
}

impl HistoryWriter {
    /// Queues a circuit change.
    pub(super) fn record(&self, observed: &CircuitChange) {
        let change = by_wall_clock(observed.change.clone(), self.clock.drift().noticeable());
        let change = PastChange { key: Arc::clone(&observed.key), change };
        if self.queue.try_send(Entry::Change(change)).is_err() {
            self.metrics.history_lost.inc();
            error!(circuit = %ShownKey(&observed.key), "too many changes at once; a change is missing in the history");
        }
    }

    /// Queues a notification that does not belong to a circuit change.
    pub(super) fn notify(&self, notification: Notification) {
        let kind = notification.kind();
        if self.queue.try_send(Entry::Notification(Box::new(notification))).is_err() {
            self.metrics.history_lost.inc();
            error!(%kind, "too many changes at once; a notification is lost");
        }
    }
}

impl HistoryTask {
    /// Writes queued changes until all senders are dropped.
    pub(super) async fn run(mut self, records: Arc<dyn Records>, notification_builder: NotificationBuilder) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.queue.recv_many(&mut batch, BATCH).await > 0 {
            let (mut changes, mut notifications) = (Vec::new(), Vec::new());
            for entry in batch.drain(..) {
                match entry {
                    Entry::Change(change) => changes.push(ChangeToReport::from(change)),
                    Entry::Notification(notification) => notifications.push(*notification),
                }
            }
            let changes = notification_builder.build(changes);
            let count = changes.len();
            let write = || records.append_history(changes.clone());
            self.persist(count, write).await;
            for notification in notifications {
                let write = || records.notify(notification.clone());
                self.persist(1, write).await;
            }
        }
    }

    /// Tries a write until it succeeds, at most [`TRIES`] times. If it never does, reports `count` changes as lost.
    async fn persist<T, F>(&self, count: usize, write: impl Fn() -> F)
    where
        F: Future<Output = Result<T, QueueError>>,
    {
        if count == 0 {
            return;
        }
        for _ in 0..TRIES {
            match write().await {
                Ok(_) => return,
                Err(error) => warn!(%error, count, "can't write circuit history; retrying"),
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.metrics.history_lost.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
        error!(count, "changes are missing in the circuit history");
    }
}

/// Adds circuit changes that are missing from the history because the process ended before they were written, and
/// creates their notifications. Old changes are left out. Returns the number of changes added.
///
/// Only a circuit's latest change is known. If the change that started an outage is missing, the notification for a
/// later change reports the outage.
pub(super) async fn catch_up(
    store: &dyn Store,
    records: &dyn Records,
    notification_builder: &NotificationBuilder,
    now: Timestamp,
) -> Result<u64, RecordsError> {
    let mut query = ListQuery { prefix: String::new(), status: None, after: None, limit: BATCH };
    let mut written = 0;
    loop {
        let page = match store.list(&query).await {
            Ok(page) => page,
            Err(error) => {
                warn!(%error, "can't list circuits; changes at the last stop may be missing in the history");
                return Ok(written);
            }
        };
        let mut missing = Vec::new();
        for (key, record) in &page.circuits {
            if record.cause.is_some() && !is_old(record.changed_at, now) {
                missing.extend(unwritten(records, key, record).await?);
            }
        }
        written += append(records, notification_builder.build(missing)).await?;
        query.after = page.next;
        if query.after.is_none() {
            if written > 0 {
                info!(
                    written,
                    "wrote changes of circuits that were missing in the history since the last stop"
                );
            }
            return Ok(written);
        }
    }
}

async fn append(records: &dyn Records, changes: Vec<ObservedChange>) -> Result<u64, RecordsError> {
    if changes.is_empty() { Ok(0) } else { Ok(records.append_history(changes).await?) }
}

/// Returns the change in a record, if it is missing from the history.
async fn unwritten(
    records: &dyn Records,
    key: &Arc<str>,
    record: &Record,
) -> Result<Option<ChangeToReport>, RecordsError> {
    let latest = records.circuit_history(key, &PageOf::first(1)).await?.items.pop();
    if latest.as_ref().is_some_and(|latest| latest.change.epoch >= record.epoch) {
        return Ok(None);
    }
    let before = latest.map_or(CircuitStatus::Closed, |latest| latest.change.to);
    let from = record.cause.as_ref().and_then(breakerbox_core::Cause::leaves).unwrap_or(before);
    let change = Change::to(record, from);
    Ok(change.map(|change| ChangeToReport {
        is_unreported_outage: record.is_automatic()
            && before == CircuitStatus::Closed
            && from != CircuitStatus::Closed,
        change: PastChange { key: Arc::clone(key), change },
    }))
}

/// Reports at startup that the circuit store is available. Targets that were notified of its loss before the restart
/// are notified of the recovery.
pub(super) async fn store_is_here(records: &dyn Notifications, now: Timestamp) -> Result<(), QueueError> {
    records.notify(Notification::store_back(now)).await.map(drop)
}
