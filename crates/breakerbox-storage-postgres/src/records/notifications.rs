//! Lists, sends and deletes notifications. They are inserted together with their cause.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::notifications::{COUNTED, Headline, Kind, Notification};
use breakerbox_model::objects::{Id, NotificationId, TenantId};
use breakerbox_storage::records::cursors::position;
use breakerbox_storage::records::{
    Cursor, Failed, NotificationFilter, Notifications, Page, PageOf, PastNotification, PastSend, SendResult,
    SendState, WaitingNotification, WaitingTarget,
};
use breakerbox_storage::stored::codes::{id, micros, number, send_state, send_state_number, whole};
use breakerbox_storage::stored::{Unreadable, parsed};
use breakerbox_storage::{QueueError, RecordsError};
use tokio_postgres::Row;

use super::PostgresRecords;
use crate::columns::{at, column, listed, maybe_at, parsed_column, readable, small, unreadable};
use crate::database::Transaction;
use crate::error::get;
use crate::notifications::{lock, notify};
use crate::outages::{give_up_trips, settle_trip, trip};

/// The maximum number of notifications that are read for one page.
const LOOKS: usize = 5_000;
/// The number of notifications that are read at once.
const PIECE: usize = 500;
/// The time by which a transaction may outlast its time limit, until the server ends it.
const MARGIN: Duration = Duration::from_secs(5);

fn notification(row: &Row) -> Result<(NotificationId, Notification), Unreadable> {
    let notification = Notification {
        tenant: tenant(row)?,
        subject: column::<String>(row, "subject")?.into(),
        epoch: whole(column(row, "epoch")?),
        at: at(row, "at")?,
        news: serde_json::from_str(column(row, "news")?).map_err(Unreadable::new)?,
    };
    Ok((NotificationId(id(column(row, "id")?)), notification))
}

fn tenant(row: &Row) -> Result<Option<TenantId>, Unreadable> {
    column::<Option<&str>>(row, "tenant")?.map(parsed).transpose()
}

fn send(row: &Row) -> Result<PastSend, Unreadable> {
    let state = send_state(column(row, "state")?);
    let due_at = at(row, "due_at")?;
    Ok(PastSend {
        target: column::<String>(row, "target")?.into(),
        state,
        tries: small(row, "tries")?,
        due_at: (state == SendState::Waiting).then_some(due_at),
        tried_at: maybe_at(row, "settled_at")?,
        answer: column(row, "answer")?,
        message: column(row, "message")?,
    })
}

/// Returns the progress of notifications at their targets.
async fn sends(
    transaction: &Transaction,
    notifications: Vec<i64>,
) -> Result<HashMap<i64, Vec<PastSend>>, QueueError> {
    let sql = include_str!("../sql/records/sends_of_notifications.sql");
    let mut found: HashMap<i64, Vec<PastSend>> = HashMap::new();
    for row in transaction.query(sql, &[&notifications]).await? {
        let of: i64 = get(&row, 0)?;
        found.entry(of).or_default().extend(listed(send(&row), "notification", NotificationId(id(of))));
    }
    Ok(found)
}

/// Returns a page of notifications that are older than `before`.
async fn list(
    transaction: &Transaction,
    filter: &NotificationFilter,
    own: Option<&[Arc<str>]>,
    mut before: i64,
    size: usize,
) -> Result<Page<PastNotification>, QueueError> {
    let mut items = Vec::new();
    let owner: Option<i64> = match &filter.tenant {
        None => None,
        Some(tenant) => {
            let sql = include_str!("../sql/records/tenant_by_name.sql");
            let Some(found) = transaction.query_opt(sql, &[&tenant.as_str()]).await? else {
                return Ok(Page { items, next: None });
            };
            Some(get(&found, 0)?)
        }
    };
    let sql = if owner.is_some() {
        include_str!("../sql/records/list_notifications_of_tenant.sql")
    } else {
        include_str!("../sql/records/list_notifications.sql")
    };
    let mut last = None;
    let next = |last: Option<i64>| last.map(|last| Cursor(id(last).to_string()));
    for looked in (0..=LOOKS).step_by(PIECE) {
        if looked == LOOKS {
            return Ok(Page { items, next: next(last) });
        }
        let rows = transaction.query(sql, &[&before, &owner, &number(PIECE as u64)]).await?;
        let ids = rows.iter().map(|row| get::<i64>(row, 0)).collect::<Result<Vec<_>, _>>()?;
        let mut sends = sends(transaction, ids.clone()).await?;
        for (row, number) in rows.iter().zip(&ids) {
            if items.len() == size {
                return Ok(Page { items, next: next(last) });
            }
            last = Some(*number);
            let id = NotificationId(id(*number));
            let Some((_, notification)) = listed(notification(row), "notification", id) else { continue };
            if filter.kind.is_some_and(|kind| notification.kind() != kind) {
                continue;
            }
            let sends = sends.remove(number).unwrap_or_default();
            let counts = |send: &PastSend| own.is_none_or(|own| own.contains(&send.target));
            if filter.state.is_some_and(|state| !sends.iter().any(|send| counts(send) && send.state == state))
            {
                continue;
            }
            items.push(PastNotification { id, notification, sends });
        }
        match ids.last() {
            Some(last) if ids.len() == PIECE => before = *last,
            _ => break,
        }
    }
    Ok(Page { items, next: None })
}

#[async_trait]
impl Notifications for PostgresRecords {
    async fn notify(&self, notification: Notification) -> Result<bool, QueueError> {
        let work = self.begin().await?;
        let is_new = notify(&work.transaction, &notification, &*self.directory).await?;
        work.commit(&self.directory).await?;
        Ok(is_new)
    }

    async fn due_trips(&self, limit: usize) -> Result<Vec<Notification>, QueueError> {
        let sql = include_str!("../sql/records/due_outages.sql");
        let now = micros(self.database.now());
        let (mut due, mut broken) = (Vec::new(), Vec::new());
        for row in self.database.read(sql, &[&now, &number(limit as u64)]).await? {
            match trip(&row) {
                Ok(trip) => due.push(trip),
                Err(_) => broken.push(get::<String>(&row, 0)?),
            }
        }
        if !broken.is_empty() {
            let work = self.begin().await?;
            give_up_trips(&work.transaction, broken).await?;
            work.commit(&self.directory).await?;
        }
        Ok(due)
    }

    async fn settle_trip(&self, trip: Notification, is_over: bool) -> Result<bool, QueueError> {
        let work = self.begin().await?;
        let is_sent = settle_trip(&work.transaction, &trip, is_over, &*self.directory).await?;
        work.commit(&self.directory).await?;
        Ok(is_sent)
    }

    async fn notifications(
        &self,
        filter: &NotificationFilter,
        of: &PageOf,
    ) -> Result<Page<PastNotification>, RecordsError> {
        let before = position::<Id>(of)?.map_or(i64::MAX, Id::number);
        let own: Option<Vec<Arc<str>>> = filter.tenant.as_ref().map(|tenant| {
            let entry = self.directory.tenant(tenant);
            let targets = entry.iter().flat_map(|entry| &entry.source.settings.notification_targets);
            targets.map(|target| Arc::clone(&target.name)).collect()
        });
        let transaction = self.database.begin_read().await?;
        let page = list(&transaction, filter, own.as_deref(), before, of.size()).await?;
        transaction.commit().await?;
        Ok(page)
    }

    async fn notification(&self, wanted: NotificationId) -> Result<PastNotification, RecordsError> {
        let transaction = self.database.begin_read().await?;
        let sql = include_str!("../sql/records/show_notification.sql");
        let found = transaction.query_opt(sql, &[&wanted.number()]).await?;
        let (id, notification) = readable(found.as_ref().map(notification), "notification", wanted)?;
        let sends = sends(&transaction, vec![wanted.number()]).await?;
        transaction.commit().await?;
        Ok(PastNotification { id, notification, sends: sends.into_values().flatten().collect() })
    }

    async fn waiting_targets(&self) -> Result<Vec<WaitingTarget>, QueueError> {
        let sql = include_str!("../sql/records/waiting_targets.sql");
        let now = micros(self.database.now());
        let rows = self.database.read(sql, &[&now, &number(COUNTED)]).await?;
        let read = |row: &Row| {
            Ok(WaitingTarget {
                name: column::<String>(row, "name")?.into(),
                tenant: tenant(row)?,
                waiting: whole(column(row, "waiting")?),
                not_kept: whole(column(row, "not_kept")?),
                due: whole(column(row, "due")?),
            })
        };
        rows.iter().map(|row| read(row).map_err(unreadable)).collect()
    }

    async fn due_notifications(
        &self,
        target: &str,
        limit: usize,
    ) -> Result<Vec<WaitingNotification>, QueueError> {
        let sql = include_str!("../sql/records/due_notifications.sql");
        let now = micros(self.database.now());
        let rows = self.database.read(sql, &[&target, &now, &number(limit as u64)]).await?;
        let read = |row: &Row| {
            let kind: &str = column(row, "kind")?;
            let kind = Kind::ALL.iter().find(|known| known.name() == kind).copied();
            let headline = Headline {
                id: NotificationId(id(column(row, "id")?)),
                kind: kind.unwrap_or(Kind::Test),
                subject: column::<String>(row, "subject")?.into(),
                tenant: tenant(row)?,
                at: at(row, "at")?,
            };
            Ok(WaitingNotification { headline, tries: small(row, "tries")? })
        };
        let mut found =
            rows.iter().map(|row| read(row).map_err(unreadable)).collect::<Result<Vec<_>, _>>()?;
        found.sort_by_key(|waiting| waiting.headline.id);
        Ok(found)
    }

    async fn settle_message(&self, result: SendResult) -> Result<(), QueueError> {
        let work = self.begin().await?;
        lock(&work.transaction).await?;
        let (mut ids, mut states, mut due) = (Vec::new(), Vec::new(), Vec::new());
        for (notification, state, due_at) in &result.notifications {
            ids.push(notification.number());
            states.push(send_state_number(*state));
            due.push(micros(*due_at));
        }
        let sql = include_str!("../sql/records/settle_sends_if_waiting.sql");
        let target = &*result.target;
        let settled = work
            .transaction
            .query_opt(
                sql,
                &[
                    &target,
                    &ids,
                    &states,
                    &due,
                    &i64::from(result.tried),
                    &micros(work.now),
                    &result.answer,
                    &result.message,
                ],
            )
            .await?;
        let ended: i64 = settled.map_or(Ok(0), |row| get(&row, 0))?;
        let sql = include_str!("../sql/records/count_settled_sends.sql");
        work.transaction.execute(sql, &[&target, &ended, &number(result.said_not_kept)]).await?;
        let sql = include_str!("../sql/records/delete_target_if_idle.sql");
        work.transaction.execute(sql, &[&target]).await?;
        work.commit(&self.directory).await
    }

    async fn prune_notifications(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError> {
        let work = self.begin().await?;
        let sql = include_str!("../sql/records/prune_notifications.sql");
        let before = Id::first_at(before).number();
        let deleted = work.transaction.execute(sql, &[&before, &number(limit as u64)]).await?;
        work.commit(&self.directory).await?;
        Ok(deleted)
    }

    async fn failed_since(&self, from: Timestamp) -> Result<Failed, QueueError> {
        // A transaction that is still open may have ended deliveries a moment ago. They must not be in the past of the
        // next call, so the period ends before the oldest of these transactions can have begun. A clock that tests set
        // does not run meanwhile.
        let until = match self.database.given_now() {
            None => self.database.now().before(self.database.time_limit() + MARGIN),
            Some(_) => self.database.now(),
        };
        let until = until.max(from);
        let sql = include_str!("../sql/records/failed_between.sql");
        let rows = self.database.read(sql, &[&micros(from), &micros(until)]).await?;
        let read = |row: &Row| {
            let minute = whole(column(row, "minute")?).saturating_mul(60_000_000);
            let tenant = parsed_column(row, "tenant")?;
            Ok((tenant, Timestamp::from_micros(minute), whole(column(row, "count")?)))
        };
        let of = rows.iter().map(|row| read(row).map_err(unreadable)).collect::<Result<_, _>>()?;
        Ok(Failed { until, of })
    }
}
