//! Stops reminders whose row can't be read, for example because a newer version wrote it or because its time zone is
//! no longer known. Such a reminder can't fire, so it must not stay due: it would be checked again and again, and
//! enough of them would prevent all others from firing.
//!
//! It no longer counts towards limits, and its reference becomes free, so that its owner can create it again. It is
//! logged once, and its owner is notified.

use std::sync::Arc;

use breakerbox_model::notifications::{LastResult, Notification};
use breakerbox_model::objects::ReminderId;
use breakerbox_model::reminder::StopReason;
use breakerbox_storage::QueueError;
use rusqlite::{OptionalExtension, params};

use super::stored::{CANCELLED, FINISHED, NO_REQUEST, STOPPED, reason};
use super::totals;
use crate::columns::{id, micros, whole};
use crate::error::JobError;
use crate::job::Command;
use crate::transaction::WriteTransaction;
use breakerbox_storage::Routes;

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
pub(crate) struct StopUnreadable {
    pub(crate) reminders: Vec<Unreadable>,
    pub(crate) routes: Arc<dyn Routes>,
}

impl Command for StopUnreadable {
    type Output = ();

    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<(), JobError<QueueError>> {
        self.reminders.iter().try_for_each(|unreadable| stop(transaction, unreadable, &*self.routes))
    }
}

pub(super) fn stop(
    transaction: &mut WriteTransaction<'_>,
    unreadable: &Unreadable,
    routes: &dyn Routes,
) -> Result<(), JobError<QueueError>> {
    let found = transaction
        .connection
        .prepare_cached(
            "SELECT tenant, state, size, numbered, reference FROM reminders WHERE id = ?1 AND turn = ?2",
        )?
        .query_row(params![unreadable.id, unreadable.version], |row| {
            let reference: Option<String> = row.get(4)?;
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get(2)?, row.get(3)?, reference))
        })
        .optional()?;
    let Some((tenant, state, size, numbered, reference)) = found else { return Ok(()) };
    let has_ended = matches!(state, FINISHED | CANCELLED);
    let reminder = ReminderId(id(unreadable.id));
    tracing::error!(%reminder, reference, error = unreadable.error, "can't read a reminder; it is stopped");
    let connection = transaction.connection;
    if has_ended {
        // The reminder has already ended: only the requested run is dropped.
        connection
            .prepare_cached("UPDATE reminders SET turn = turn + 1, look_at = NULL, asked = ?2 WHERE id = ?1")?
            .execute(params![unreadable.id, NO_REQUEST])?;
        return Ok(());
    }
    connection
        .prepare_cached(
            "UPDATE reminders SET turn = turn + 1, state = ?2, reason = ?3, reference = NULL, look_at = NULL, asked = ?4,
                 open_run = NULL, ended_at = ?5
             WHERE id = ?1",
        )?
        .execute(params![
            unreadable.id,
            STOPPED,
            reason(StopReason::Unreadable),
            NO_REQUEST,
            micros(transaction.wall)
        ])?;
    totals::remove(connection, tenant, whole(size))?;
    // If the tenant can't be read, it can't be notified either.
    let Ok(tenant) = transaction.writer_state.tenant(connection, tenant) else { return Ok(()) };
    let run = u32::try_from(whole(numbered)).unwrap_or(u32::MAX);
    let why = StopReason::Unreadable.text();
    let (id, last) = (reminder.to_string(), LastResult::default());
    let notification = Notification::reminder_stopped(tenant, id, run, "", why, last, transaction.wall);
    transaction.notify(&notification, routes)?;
    Ok(())
}
