//! Handles a startup at which the newest stored time is ahead of the clock.
//!
//! Either the clock was ahead earlier, or it is behind now. Stored times from the future would delay everything:
//! deliveries would be due hours later, circuits would stay open, and nothing would be old enough to be pruned. So
//! each stored time that something waits for is limited to now plus its own duration. Ids are not changed: see
//! [`ids`](super::ids).
//!
//! This reads each delivery once, which is acceptable because such startups are rare.

use std::path::Path;
use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_storage::clock::Drift;
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::micros;
use super::error::OpenError;
use super::ids;

/// A startup is refused if the newest stored time is ahead of the clock by more than this, unless the operator
/// accepts the step.
const REFUSED_FROM: Duration = Duration::from_secs(86_400);

/// The name in the table `meta` for the wall-clock time of the latest startup.
const STARTED_AT: &str = "started_at";
/// The name in the table `meta` for the time by which the store clock was ahead of the wall clock, in
/// microseconds, as it was last stored.
const STORE_AHEAD: &str = "store_ahead";
/// The name in the table `meta` for the mark that due times which depend on a retry schedule still have to be
/// bounded.
const PENDING: &str = "clock_step_pending";

/// Reports that the newest stored time was ahead of the clock at startup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockStep {
    /// The time by which the newest stored time was ahead of the clock.
    pub ahead: Duration,
}

fn value(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    connection.query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0)).optional()
}

fn set(connection: &Connection, name: &str, value: i64) -> rusqlite::Result<()> {
    connection
        .execute("INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)", params![name, value])
        .map(drop)
}

/// Checks whether stored times are ahead of the clock, and bounds those that need only the data in the file.
/// Due times that depend on a retry schedule are bounded later, before [`done`] is called. Returns `None` if
/// nothing has to be bounded.
pub(super) fn look(
    connection: &mut Connection,
    path: &Path,
    now: Timestamp,
    is_accepted: bool,
) -> Result<Option<ClockStep>, OpenError> {
    let failed = |error| OpenError::Database { path: path.to_owned(), error };
    let ahead = ahead(connection, now).map_err(failed)?;
    if ahead > REFUSED_FROM && !is_accepted {
        return Err(OpenError::ClockAhead { path: path.to_owned(), newest: now + ahead, now });
    }
    let is_pending = value(connection, PENDING).map_err(failed)?.is_some();
    let is_step = ahead > ids::TOLERANCE;
    let transaction = connection.transaction().map_err(failed)?;
    if is_step {
        bound(&transaction, now).map_err(failed)?;
    }
    set(&transaction, STARTED_AT, micros(now)).map_err(failed)?;
    transaction.execute("DELETE FROM meta WHERE name = ?1", [STORE_AHEAD]).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    Ok((is_step || is_pending).then_some(ClockStep { ahead }))
}

/// Returns the time by which the newest stored time is ahead of the clock, or zero if it is not ahead.
fn ahead(connection: &Connection, now: Timestamp) -> rusqlite::Result<Duration> {
    let started_at = value(connection, STARTED_AT)?.map_or(Timestamp::ZERO, super::columns::time);
    let newest = ids::newest(connection)?.made_at().max(started_at);
    let store_ahead = value(connection, STORE_AHEAD)?.and_then(|micros| u64::try_from(micros).ok());
    Ok(newest.since(now).max(Duration::from_micros(store_ahead.unwrap_or(0))))
}

/// Bounds stored times that are in the future to the current time, and marks the due times that depend on a
/// retry schedule as still to be bounded.
fn bound(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    ids::note_ahead(connection, now)?;
    let now = micros(now);
    // Keeps the time to live. The time of an id is its upper 42 bits, in milliseconds.
    connection.execute(
        "UPDATE deliveries SET expires_at = max(?1, ?1 + expires_at - (id >> 21) * 1000)
         WHERE state < 2 AND expires_at IS NOT NULL AND (id >> 21) * 1000 > ?1",
        [now],
    )?;
    for (table, column) in [
        ("deliveries", "finished_at"),
        ("reminders", "ended_at"),
        ("tenants", "deleted_at"),
        ("lanes", "used_at"),
        ("jobs", "finished_at"),
        ("closed_lanes", "closed_at"),
    ] {
        connection.execute(&format!("UPDATE {table} SET {column} = ?1 WHERE {column} > ?1"), [now])?;
    }
    connection.execute(
        "UPDATE fan_outs SET due_at = max(?1, coalesce((SELECT not_before FROM events WHERE id = fan_outs.event), 0))
         WHERE due_at > ?1",
        [now],
    )?;
    connection.execute("UPDATE notification_sends SET due_at = ?1 WHERE state = 0 AND due_at > ?1", [now])?;
    set(connection, PENDING, 1)
}

/// Records that all due times are bounded.
pub(super) fn done(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM meta WHERE name = ?1", [PENDING]).map(drop)
}

/// Stores the time by which the store clock is ahead of the wall clock, or deletes the stored value if it is
/// not ahead. After a restart, times that the store clock has set are ahead by that much, and have to be
/// bounded.
pub(super) fn note(connection: &Connection, drift: Drift) -> rusqlite::Result<()> {
    match drift {
        Drift::Behind(by) => set(connection, STORE_AHEAD, i64::try_from(by.as_micros()).unwrap_or(i64::MAX)),
        Drift::Ahead(_) => connection.execute("DELETE FROM meta WHERE name = ?1", [STORE_AHEAD]).map(drop),
    }
}
