//! Stops reminders whose row can't be read, for example because a newer version wrote it or because its time zone is no longer
//! known. Such a reminder can't fire, so it must not stay due: it would be checked again and again, and enough of them would
//! prevent all others from firing.
//!
//! It no longer counts towards limits, and its reference becomes free, so that its owner can create it again. It is logged once,
//! and its owner is notified.

use breakerbox_model::notifications::{LastResult, Notification};
use breakerbox_model::objects::ReminderId;
use breakerbox_model::reminder::StopReason;
use breakerbox_storage::stored::codes::{id, micros};
use breakerbox_storage::stored::reminder::{CANCELLED, FINISHED, reason};
use breakerbox_storage::{QueueError, Routes};

use super::remove_from_totals;
use crate::database::Database;
use crate::database::Transaction;
use crate::error::get;
use crate::notifications::notify;
use crate::rows::code;

/// A reminder whose row can't be read.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) id: i64,
    /// The version of the row that was read.
    pub(crate) version: i64,
    /// The error that occurred when the row was read.
    pub(crate) error: String,
}

/// Stops unreadable reminders, except those whose row has changed since it was read.
pub(crate) async fn stop_all(
    database: &Database,
    reminders: &[Unreadable],
    routes: &dyn Routes,
) -> Result<(), QueueError> {
    database
        .within(async {
            let transaction = database.begin().await?;
            for unreadable in reminders {
                stop(&transaction, unreadable, routes).await?;
            }
            transaction.commit().await
        })
        .await
}

pub(super) async fn stop(
    transaction: &Transaction,
    unreadable: &Unreadable,
    routes: &dyn Routes,
) -> Result<(), QueueError> {
    let sql = include_str!("../sql/hold_unreadable_if_unchanged.sql");
    let found = transaction.query_opt(sql, &[&unreadable.id, &unreadable.version]).await?;
    let Some(row) = found else { return Ok(()) };
    let (tenant, state): (i64, i16) = (get(&row, 0)?, get(&row, 1)?);
    let reference: Option<&str> = get(&row, 4)?;
    let reminder = ReminderId(id(unreadable.id));
    tracing::error!(%reminder, reference, error = unreadable.error, "can't read a reminder; it is stopped");
    if matches!(i64::from(state), FINISHED | CANCELLED) {
        // The reminder has already ended: only the requested run is dropped.
        let sql = "UPDATE reminders SET turn = turn + 1, look_at = NULL, asked = 0 WHERE id = $1";
        return transaction.execute(sql, &[&unreadable.id]).await.map(drop);
    }
    let now = transaction.now();
    let why = code(reason(StopReason::Unreadable));
    let sql = include_str!("../sql/stop_unreadable.sql");
    transaction.execute(sql, &[&unreadable.id, &why, &micros(now)]).await?;
    remove_from_totals(transaction, tenant, get(&row, 2)?).await?;
    // If the tenant can't be read, it can't be notified either.
    let name = get::<Option<&str>>(&row, 5)?.and_then(|name| name.parse().ok());
    let Some(name) = name else { return Ok(()) };
    let run = u32::try_from(get::<i64>(&row, 3)?).unwrap_or(u32::MAX);
    let why = StopReason::Unreadable.text();
    let (id, last) = (reminder.to_string(), LastResult::default());
    let notification = Notification::reminder_stopped(name, id, run, "", why, last, now);
    notify(transaction, &notification, routes).await.map(drop)
}
