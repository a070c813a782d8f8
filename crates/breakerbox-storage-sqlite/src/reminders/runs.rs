//! Updates a reminder when its run ends, in the same transaction.

use breakerbox_model::reminder::Missed;
use rusqlite::{Connection, OptionalExtension, params};

use super::stored::{CANCELLED, PAUSED};
use crate::columns::micros;
use crate::transaction::WriteTransaction;

/// Schedules an immediate check of the reminder, because its run has ended. This has no effect if the delivery is not
/// a run, or not the latest run.
pub(crate) fn ended(connection: &Connection, reminder: Option<i64>, delivery: i64) -> rusqlite::Result<()> {
    let Some(reminder) = reminder else { return Ok(()) };
    connection
        .prepare_cached("UPDATE reminders SET look_at = 0 WHERE id = ?1 AND open_run = ?2")?
        .execute(params![reminder, delivery])?;
    Ok(())
}

/// Records that a run was sent so late that it serves the later occurrence `missed.latest`, instead of the
/// one for which it was fired. The occurrences before it count as skipped.
pub(crate) fn stands_for(
    connection: &Connection,
    reminder: i64,
    delivery: i64,
    missed: Missed,
) -> rusqlite::Result<()> {
    // This also counts the occurrence that the run was fired for.
    let skipped = missed.skipped.saturating_add(1);
    let at = micros(missed.latest);
    connection
        .prepare_cached(
            "UPDATE events SET scheduled_at = ?2, skipped = skipped + ?3
             WHERE id = (SELECT event FROM deliveries WHERE id = ?1)",
        )?
        .execute(params![delivery, at, skipped])?;
    connection
        .prepare_cached(
            "UPDATE reminders SET last_at = ?3, ran_at = ?3, skipped = skipped + ?4, turn = turn + 1
             WHERE id = ?1 AND open_run = ?2",
        )?
        .execute(params![reminder, delivery, at, skipped])?;
    Ok(())
}

/// Returns whether a run must not be retried, because its reminder was paused or cancelled while the run was
/// in flight. If the reminder was paused, this function also undoes the firing of the run.
pub(crate) fn is_withdrawn(
    transaction: &mut WriteTransaction<'_>,
    reminder: i64,
    delivery: i64,
) -> rusqlite::Result<bool> {
    let state: Option<i64> = transaction
        .connection
        .prepare_cached("SELECT state FROM reminders WHERE id = ?1 AND open_run = ?2")?
        .query_row(params![reminder, delivery], |row| row.get(0))
        .optional()?;
    if state == Some(PAUSED) {
        undo_firing(transaction.connection, reminder, WasSent::Yes)?;
    }
    Ok(matches!(state, Some(PAUSED | CANCELLED)))
}

/// Whether any of a run's requests may have reached a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WasSent {
    Yes,
    No,
}

/// Undoes the firing of a reminder's latest run. The caller handles the run's delivery.
///
/// The run's number is reused only if no receiver has seen it, because a receiver treats another request with a known
/// `webhook-id` as a retry.
pub(crate) fn undo_firing(connection: &Connection, reminder: i64, was_sent: WasSent) -> rusqlite::Result<()> {
    let free = i64::from(was_sent == WasSent::No);
    connection
        .prepare_cached(
            "UPDATE reminders SET open_run = NULL, runs = runs - 1, numbered = numbered - ?2, last_at = before_at,
                 ran_at = (SELECT scheduled_at FROM events e INDEXED BY runs
                     WHERE e.reminder = reminders.id AND e.run < reminders.numbered ORDER BY e.id DESC LIMIT 1),
                 turn = turn + 1, skipped = skipped - coalesce((SELECT e.skipped FROM deliveries d JOIN events e ON e.id = d.event
                     WHERE d.id = reminders.open_run), 0)
             WHERE id = ?1",
        )?
        .execute(params![reminder, free])?;
    Ok(())
}
