//! Finds the reminders that have to be checked, by one seek in an index that contains only those.

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{DeliveryState, FailReason, ReminderId};
use breakerbox_model::reminder::{ClientRequest, DueReminder, OpenRun, ReminderVersion, RunResult};
use breakerbox_storage::QueueError;
use breakerbox_storage::stored::codes::{self, id, micros, time};
use breakerbox_storage::stored::reminder::{ACTIVE, StoredReminder, TO_RESUME, TO_RUN_NOW};
use tokio_postgres::Row;

use super::unreadable::Unreadable;
use crate::database::Database;
use crate::error::get;
use crate::maintenance::bound;
use crate::rows::unsigned;

/// Returns when the next reminder has to be checked.
pub(crate) async fn next(database: &Database) -> Result<Option<Timestamp>, QueueError> {
    let rows = database.read(include_str!("../sql/next_check.sql"), &[]).await?;
    rows.first().map(|row| get(row, 0).map(time)).transpose()
}

/// Reminders that have to be checked.
#[derive(Default)]
pub(crate) struct DueRows {
    pub(crate) readable: Vec<DueReminder>,
    /// Reminders whose row can't be read. They must not block the others.
    pub(crate) unreadable: Vec<Unreadable>,
}

/// Returns up to `limit` reminders that have to be checked by this time.
pub(crate) async fn until(
    database: &Database,
    until: Timestamp,
    limit: usize,
) -> Result<DueRows, QueueError> {
    let rows =
        database.read(include_str!("../sql/due_reminders.sql"), &[&micros(until), &bound(limit)]).await?;
    let mut due = DueRows::default();
    for row in &rows {
        match due_reminder(row) {
            Ok(reminder) => due.readable.push(reminder),
            Err(error) => {
                let (id, version, error) = (get(row, 0)?, get(row, 2)?, error.to_string());
                due.unreadable.push(Unreadable { id, version, error });
            }
        }
    }
    Ok(due)
}

/// Reads a reminder. The error concerns this row alone.
fn due_reminder(row: &Row) -> Result<DueReminder, Box<dyn std::error::Error + Send + Sync>> {
    let stored = StoredReminder::read(row.try_get(4)?)?;
    let tenant: &str = row.try_get::<_, Option<&str>>(1)?.ok_or("its tenant is missing")?;
    Ok(DueReminder {
        id: ReminderId(id(row.try_get(0)?)),
        tenant: tenant.parse()?,
        version: ReminderVersion(row.try_get(2)?),
        is_active: i64::from(row.try_get::<_, i16>(3)?) == ACTIVE,
        schedule: stored.schedule,
        catch_up: stored.catch_up,
        runs: u32::try_from(row.try_get::<_, i64>(5)?)?,
        last_at: row.try_get::<_, Option<i64>>(6)?.map(time),
        request: match i64::from(row.try_get::<_, i16>(7)?) {
            TO_RESUME => Some(ClientRequest::Resume),
            TO_RUN_NOW => Some(ClientRequest::RunNow),
            _ => None,
        },
        run: open_run(row)?,
    })
}

fn open_run(row: &Row) -> Result<OpenRun, tokio_postgres::Error> {
    if row.try_get::<_, Option<i64>>(8)?.is_none() {
        return Ok(OpenRun::None);
    }
    let how = match row.try_get::<_, Option<i16>>(9)? {
        // The delivery no longer exists, so it can't end in any other way.
        None => RunResult::Cancelled,
        Some(number) => {
            let reason = row.try_get::<_, Option<i16>>(10)?.map(i64::from);
            let attempts = unsigned(row.try_get::<_, Option<i32>>(11)?.unwrap_or_default());
            match codes::state(number.into(), reason, attempts) {
                DeliveryState::Delivered => RunResult::Delivered,
                DeliveryState::Failed(FailReason::Rejected) => RunResult::Rejected,
                DeliveryState::Failed(FailReason::Gone) => RunResult::Gone,
                DeliveryState::Failed(FailReason::Exhausted | FailReason::Unreadable) => RunResult::Exhausted,
                DeliveryState::Failed(FailReason::Expired) => RunResult::Expired,
                DeliveryState::Cancelled => RunResult::Cancelled,
                DeliveryState::Pending | DeliveryState::InFlight | DeliveryState::Retrying => {
                    return Ok(OpenRun::Unfinished);
                }
            }
        }
    };
    Ok(OpenRun::Ended { how, first_sent_at: row.try_get::<_, Option<i64>>(12)?.map(time) })
}
