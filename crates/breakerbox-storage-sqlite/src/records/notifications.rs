//! Lists, sends and deletes notifications. They are inserted together with their cause.

use std::sync::Arc;

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::notifications::{COUNTED, Headline, Kind, News, Notification};
use breakerbox_model::objects::{Id, NotificationId, TenantId};
use breakerbox_storage::records::{
    Cursor, Failed, NotificationFilter, Notifications, Page, PageOf, PastNotification, PastSend, SendResult,
    SendState, WaitingNotification, WaitingTarget,
};
use breakerbox_storage::{QueueError, RecordsError};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{SqliteRecords, listed, readable};
use crate::columns::{id, micros, number, parsed, send_state, send_state_number, time, whole};
use crate::error::JobError;
use crate::outages;
use breakerbox_storage::records::cursors::position;

/// The maximum number of notifications that are read for one page.
const LOOKS: usize = 5_000;

const COLUMNS: &str = "n.id, n.subject, n.epoch, t.id, n.at, n.news FROM notifications n LEFT JOIN tenants t ON t.row = n.tenant";

fn notification(row: &Row<'_>) -> rusqlite::Result<(NotificationId, Notification)> {
    let news: News = serde_json::from_str(row.get_ref(5)?.as_str()?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(5, rusqlite::types::Type::Text, error.into())
    })?;
    let notification = Notification {
        tenant: tenant(row, 3)?,
        subject: row.get(1)?,
        epoch: whole(row.get(2)?),
        at: time(row.get(4)?),
        news,
    };
    Ok((NotificationId(id(row.get(0)?)), notification))
}

fn tenant(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<TenantId>> {
    let name = row.get_ref(column)?.as_str_or_null()?;
    name.map(|name| parsed(column, name)).transpose()
}

fn sends(connection: &Connection, notification: NotificationId) -> rusqlite::Result<Vec<PastSend>> {
    let mut statement = connection.prepare_cached(
        "SELECT target, state, tries, due_at, settled_at, answer, message FROM notification_sends WHERE notification = ?1",
    )?;
    let rows = statement.query_map([notification.number()], |row| {
        let state = send_state(row.get(1)?);
        let due_at = time(row.get(3)?);
        Ok(PastSend {
            target: row.get(0)?,
            state,
            tries: row.get(2)?,
            due_at: (state == SendState::Waiting).then_some(due_at),
            tried_at: row.get::<_, Option<i64>>(4)?.map(time),
            answer: row.get(5)?,
            message: row.get(6)?,
        })
    })?;
    rows.collect()
}

/// Returns a page of notifications that are older than `before`.
fn list(
    connection: &Connection,
    filter: &NotificationFilter,
    own: Option<&[Arc<str>]>,
    before: i64,
    size: usize,
) -> Result<Page<PastNotification>, JobError<RecordsError>> {
    let condition = if filter.tenant.is_some() { "n.tenant = ?2 AND" } else { "?2 IS NULL AND" };
    let row: Option<i64> = match &filter.tenant {
        None => None,
        Some(tenant) => {
            let found = connection
                .prepare_cached("SELECT row FROM tenants WHERE id = ?1 AND deleted_at IS NULL")?
                .query_row([tenant.as_str()], |row| row.get(0))
                .optional()?;
            let Some(found) = found else { return Ok(Page { items: vec![], next: None }) };
            Some(found)
        }
    };
    let mut statement = connection.prepare_cached(&format!(
        "SELECT {COLUMNS} WHERE {condition} n.id < ?1 ORDER BY n.id DESC LIMIT ?3"
    ))?;
    let mut rows = statement.query(params![before, row, number(LOOKS as u64 + 1)])?;
    let mut items = Vec::new();
    let mut last = None;
    let mut looked = 0;
    while let Some(row) = rows.next()? {
        if items.len() == size || looked == LOOKS {
            return Ok(Page { items, next: last.map(|last: NotificationId| Cursor(last.0.to_string())) });
        }
        looked += 1;
        let id = NotificationId(id(row.get(0)?));
        last = Some(id);
        let Some((_, notification)) = listed(notification(row), "notification", id)? else { continue };
        if filter.kind.is_some_and(|kind| notification.kind() != kind) {
            continue;
        }
        let sends = sends(connection, id)?;
        let counts = |send: &PastSend| own.is_none_or(|own| own.contains(&send.target));
        if filter.state.is_some_and(|state| !sends.iter().any(|send| counts(send) && send.state == state)) {
            continue;
        }
        items.push(PastNotification { id, notification, sends });
    }
    Ok(Page { items, next: None })
}

#[async_trait]
impl Notifications for SqliteRecords {
    async fn notify(&self, notification: Notification) -> Result<bool, QueueError> {
        let directory = Arc::clone(&self.directory);
        self.database.write(move |transaction| transaction.notify(&notification, &*directory)).await
    }

    async fn due_trips(&self, limit: usize) -> Result<Vec<Notification>, QueueError> {
        let now = self.database.now();
        let (due, unreadable) = self
            .database
            .read(move |connection| {
                Ok::<_, JobError<QueueError>>(outages::due_trips(connection, now, limit)?)
            })
            .await?;
        if !unreadable.is_empty() {
            self.database.write(move |transaction| transaction.give_up_trips(&unreadable)).await?;
        }
        Ok(due)
    }

    async fn settle_trip(&self, trip: Notification, is_over: bool) -> Result<bool, QueueError> {
        let directory = Arc::clone(&self.directory);
        self.database.write(move |transaction| transaction.settle_trip(&trip, is_over, &*directory)).await
    }

    async fn notifications(
        &self,
        filter: &NotificationFilter,
        of: &PageOf,
    ) -> Result<Page<PastNotification>, RecordsError> {
        let before = position::<Id>(of)?.map_or(i64::MAX, Id::number);
        let (filter, size) = (filter.clone(), of.size());
        let own: Option<Vec<Arc<str>>> = filter.tenant.as_ref().map(|tenant| {
            let entry = self.directory.tenant(tenant);
            let targets = entry.iter().flat_map(|entry| &entry.source.settings.notification_targets);
            targets.map(|target| Arc::clone(&target.name)).collect()
        });
        self.database.read(move |connection| list(connection, &filter, own.as_deref(), before, size)).await
    }

    async fn notification(&self, id: NotificationId) -> Result<PastNotification, RecordsError> {
        self.database
            .read(move |connection| {
                let found = connection
                    .prepare_cached(&format!("SELECT {COLUMNS} WHERE n.id = ?1"))?
                    .query_row([id.number()], notification)
                    .optional();
                let (id, notification) = readable(found, "notification", id)?;
                Ok(PastNotification { id, notification, sends: sends(connection, id)? })
            })
            .await
    }

    async fn waiting_targets(&self) -> Result<Vec<WaitingTarget>, QueueError> {
        let now = self.database.now();
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT w.name, t.id, w.waiting, w.not_kept,
                         (SELECT count(*) FROM (SELECT 1 FROM notification_sends INDEXED BY notifications_waiting
                              WHERE state = 0 AND target = w.name AND due_at <= ?1 LIMIT ?2))
                     FROM notification_targets w INDEXED BY targets_waiting LEFT JOIN tenants t ON t.row = w.tenant
                     WHERE w.waiting > 0",
                )?;
                let rows = statement.query_map(params![micros(now), number(COUNTED)], |row| {
                    Ok(WaitingTarget {
                        name: row.get(0)?,
                        tenant: tenant(row, 1)?,
                        waiting: whole(row.get(2)?),
                        not_kept: whole(row.get(3)?),
                        due: whole(row.get(4)?),
                    })
                })?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }

    async fn due_notifications(
        &self,
        target: &str,
        limit: usize,
    ) -> Result<Vec<WaitingNotification>, QueueError> {
        let (target, now) = (target.to_owned(), self.database.now());
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT n.id, n.kind, n.subject, t.id, n.at, s.tries
                     FROM notification_sends s INDEXED BY notifications_waiting JOIN notifications n ON n.id = s.notification
                         LEFT JOIN tenants t ON t.row = n.tenant
                     WHERE s.state = 0 AND s.target = ?1 AND s.due_at <= ?2 ORDER BY s.due_at, s.notification LIMIT ?3",
                )?;
                let rows = statement.query_map(params![target, micros(now), number(limit as u64)], |row| {
                    let kind = row.get_ref(1)?.as_str()?;
                    let kind = Kind::ALL.iter().find(|known| known.name() == kind).copied();
                    let headline = Headline {
                        id: NotificationId(id(row.get(0)?)),
                        kind: kind.unwrap_or(Kind::Test),
                        subject: row.get(2)?,
                        tenant: tenant(row, 3)?,
                        at: time(row.get(4)?),
                    };
                    Ok(WaitingNotification { headline, tries: row.get(5)? })
                })?;
                let mut found: Vec<WaitingNotification> = rows.collect::<Result<_, _>>()?;
                found.sort_by_key(|waiting| waiting.headline.id);
                Ok(found)
            })
            .await
    }

    async fn settle_message(&self, result: SendResult) -> Result<(), QueueError> {
        self.database
            .write(move |transaction| {
                let connection = transaction.connection();
                let mut update = connection.prepare_cached(
                    "UPDATE notification_sends SET state = ?3, tries = tries + ?4, due_at = ?5, settled_at = ?6, answer = ?7,
                         message = ?8
                     WHERE notification = ?1 AND target = ?2 AND state = 0",
                )?;
                let mut ended = 0_i64;
                for (notification, state, due_at) in &result.notifications {
                    let written = update.execute(params![
                        notification.number(),
                        &*result.target,
                        send_state_number(*state),
                        result.tried,
                        micros(*due_at),
                        micros(transaction.wall()),
                        result.answer,
                        result.message,
                    ])?;
                    ended += i64::from(written > 0 && *state != SendState::Waiting);
                }
                connection
                    .prepare_cached(
                        "UPDATE notification_targets SET waiting = max(waiting - ?2, 0), not_kept = max(not_kept - ?3, 0)
                         WHERE name = ?1",
                    )?
                    .execute(params![&*result.target, ended, number(result.said_not_kept)])?;
                // A target without waiting notifications is deleted, and inserted again when one waits.
                connection
                    .prepare_cached("DELETE FROM notification_targets WHERE name = ?1 AND waiting = 0 AND not_kept = 0")?
                    .execute([&*result.target])?;
                Ok(())
            })
            .await
    }

    async fn prune_notifications(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError> {
        self.database
            .write(move |transaction| {
                let connection = transaction.connection();
                let before = Id::first_at(before).number();
                let old: Vec<i64> = connection
                    .prepare_cached(
                        "SELECT id FROM notifications n WHERE id < ?1
                             AND NOT EXISTS (SELECT 1 FROM notification_sends WHERE notification = n.id AND state = 0)
                         ORDER BY id LIMIT ?2",
                    )?
                    .query_map(params![before, number(limit as u64)], |row| row.get(0))?
                    .collect::<Result<_, _>>()?;
                let mut notifications = connection.prepare_cached("DELETE FROM notifications WHERE id = ?1")?;
                let mut sends = connection.prepare_cached("DELETE FROM notification_sends WHERE notification = ?1")?;
                for notification in &old {
                    notifications.execute([notification])?;
                    sends.execute([notification])?;
                }
                Ok(old.len() as u64)
            })
            .await
    }

    async fn failed_since(&self, from: Timestamp) -> Result<Failed, QueueError> {
        // Deliveries that are committed later are written by a later job, so they can't have an earlier time.
        let until =
            self.database.write(move |transaction| Ok::<_, JobError<QueueError>>(transaction.wall())).await?;
        let of = self
            .database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT t.id, d.finished_at / 60000000 AS minute, count(*) FROM deliveries d INDEXED BY failed_lately JOIN tenants t ON t.row = d.tenant
                     WHERE d.state = 3 AND d.finished_at >= ?1 AND d.finished_at < ?2 AND t.deleted_at IS NULL GROUP BY d.tenant, minute",
                )?;
                let rows = statement.query_map(params![micros(from), micros(until)], |row| {
                    let minute = whole(row.get(1)?);
                    let minute = Timestamp::from_micros(minute.saturating_mul(60_000_000));
                    Ok((parsed(0, row.get_ref(0)?.as_str()?)?, minute, whole(row.get(2)?)))
                })?;
                Ok::<_, JobError<QueueError>>(rows.collect::<Result<_, _>>()?)
            })
            .await?;
        Ok(Failed { until, of })
    }
}
