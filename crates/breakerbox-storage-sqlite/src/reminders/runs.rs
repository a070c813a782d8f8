//! What the end of a run means for its reminder. All in the transaction that ends it.

use breakerbox_model::reminder::Missed;
use rusqlite::{Connection, OptionalExtension, params};

use super::kept::{CANCELLED, PAUSED};
use crate::columns::micros;
use crate::writer::Writing;

/// A run has ended: its reminder is looked at at once. A delivery that is no run, or not the latest, means nothing.
pub(crate) fn ended(connection: &Connection, reminder: Option<i64>, delivery: i64) -> rusqlite::Result<()> {
    let Some(reminder) = reminder else { return Ok(()) };
    connection
        .prepare_cached("UPDATE reminders SET look_at = 0 WHERE id = ?1 AND open_run = ?2")?
        .execute(params![reminder, delivery])?;
    Ok(())
}

/// A run was sent later than it was due, and stands for a later occurrence than it was fired for.
pub(crate) fn stands_for(
    connection: &Connection,
    reminder: i64,
    delivery: i64,
    missed: Missed,
) -> rusqlite::Result<()> {
    // Besides those before the latest one, the one that it was fired for.
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

/// Whether a run that would be tried again must not be, because its reminder was paused or cancelled meanwhile. If so, a paused
/// one is as if it had not been fired.
pub(crate) fn is_called_off(
    writing: &mut Writing<'_>,
    reminder: i64,
    delivery: i64,
) -> rusqlite::Result<bool> {
    let state: Option<i64> = writing
        .connection
        .prepare_cached("SELECT state FROM reminders WHERE id = ?1 AND open_run = ?2")?
        .query_row(params![reminder, delivery], |row| row.get(0))
        .optional()?;
    if state == Some(PAUSED) {
        unfire(writing.connection, reminder, WasSent::Yes)?;
    }
    Ok(matches!(state, Some(PAUSED | CANCELLED)))
}

/// Whether a receiver may have heard of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WasSent {
    Yes,
    No,
}

/// The latest run of a reminder is as if it had not been fired. Its delivery is the caller's business.
///
/// Its number is used again only if no receiver has heard of it: whoever knows a `webhook-id` takes the next request with it
/// for a repetition.
pub(crate) fn unfire(connection: &Connection, reminder: i64, was_sent: WasSent) -> rusqlite::Result<()> {
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
