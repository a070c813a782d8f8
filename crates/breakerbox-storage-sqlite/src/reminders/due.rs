//! Finds the reminders that have to be checked, by one seek in an index that contains only those.

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{DeliveryState, FailReason, ReminderId};
use breakerbox_model::reminder::{ClientRequest, DueReminder, OpenRun, ReminderVersion, RunResult};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::stored::{ACTIVE, StoredReminder, TO_RESUME, TO_RUN_NOW};
use super::unreadable::Unreadable;
use crate::columns::{id, is_unreadable, micros, number, parsed, state, time, unreadable};

pub(crate) const NEXT: &str = "SELECT look_at FROM reminders INDEXED BY reminders_to_look_at
    WHERE look_at IS NOT NULL ORDER BY look_at LIMIT 1";

pub(crate) const UNTIL: &str = "SELECT r.id, t.id, r.turn, r.state, r.settings, r.runs, r.last_at, r.asked, r.open_run,
        d.state, d.reason, d.attempts, (SELECT started_at FROM attempts WHERE delivery = r.open_run AND number = 1)
    FROM reminders r INDEXED BY reminders_to_look_at
        LEFT JOIN tenants t ON t.row = r.tenant LEFT JOIN deliveries d ON d.id = r.open_run
    WHERE r.look_at <= ?1 ORDER BY r.look_at LIMIT ?2";

pub(crate) fn next(connection: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    connection.prepare_cached(NEXT)?.query_row([], |row| row.get(0).map(time)).optional()
}

/// Reminders that have to be checked.
pub(crate) struct DueRows {
    pub(crate) readable: Vec<DueReminder>,
    /// Reminders whose row can't be read. They must not block the others.
    pub(crate) unreadable: Vec<Unreadable>,
}

pub(crate) fn until(connection: &Connection, until: Timestamp, limit: usize) -> rusqlite::Result<DueRows> {
    let mut statement = connection.prepare_cached(UNTIL)?;
    let mut rows = statement.query(params![micros(until), number(limit as u64)])?;
    let mut due = DueRows { readable: Vec::new(), unreadable: Vec::new() };
    while let Some(row) = rows.next()? {
        match due_reminder(row) {
            Ok(due_reminder) => due.readable.push(due_reminder),
            Err(error) if is_unreadable(&error) => {
                due.unreadable.push(Unreadable {
                    id: row.get(0)?,
                    version: row.get(2)?,
                    error: error.to_string(),
                });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(due)
}

fn due_reminder(row: &Row<'_>) -> rusqlite::Result<DueReminder> {
    let stored = StoredReminder::read(row.get_ref(4)?.as_str()?).map_err(unreadable(4))?;
    Ok(DueReminder {
        id: ReminderId(id(row.get(0)?)),
        tenant: parsed(1, row.get_ref(1)?.as_str()?)?,
        version: ReminderVersion(row.get(2)?),
        is_active: row.get::<_, i64>(3)? == ACTIVE,
        schedule: stored.schedule,
        catch_up: stored.catch_up,
        runs: row.get(5)?,
        last_at: row.get::<_, Option<i64>>(6)?.map(time),
        request: match row.get(7)? {
            TO_RESUME => Some(ClientRequest::Resume),
            TO_RUN_NOW => Some(ClientRequest::RunNow),
            _ => None,
        },
        run: open_run(row)?,
    })
}

fn open_run(row: &Row<'_>) -> rusqlite::Result<OpenRun> {
    if row.get::<_, Option<i64>>(8)?.is_none() {
        return Ok(OpenRun::None);
    }
    let how = match row.get::<_, Option<i64>>(9)? {
        // The delivery no longer exists, so it can't end in any other way.
        None => RunResult::Cancelled,
        Some(number) => match state(number, row.get(10)?, row.get(11)?) {
            DeliveryState::Delivered => RunResult::Delivered,
            DeliveryState::Failed(FailReason::Rejected) => RunResult::Rejected,
            DeliveryState::Failed(FailReason::Gone) => RunResult::Gone,
            DeliveryState::Failed(FailReason::Exhausted | FailReason::Unreadable) => RunResult::Exhausted,
            DeliveryState::Failed(FailReason::Expired) => RunResult::Expired,
            DeliveryState::Cancelled => RunResult::Cancelled,
            DeliveryState::Pending | DeliveryState::InFlight | DeliveryState::Retrying => {
                return Ok(OpenRun::Unfinished);
            }
        },
    };
    Ok(OpenRun::Ended { how, first_sent_at: row.get::<_, Option<i64>>(12)?.map(time) })
}
