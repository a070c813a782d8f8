//! Creates reminders: checks the limits, and inserts the rows.

use std::sync::Arc;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{Purpose, Reminder, ReminderId, ReminderSettings, Revision};
use breakerbox_storage::records::NewReminder;
use breakerbox_storage::{RecordsError, TenantEntry};
use rusqlite::{ErrorCode, params};

use super::{SqliteRecords, TENANT, found};
use crate::WriteTransaction;
use crate::columns::{id, micros, number};
use crate::error::JobError;
use crate::reminders::stored::{ACTIVE, NO_REQUEST, StoredReminder};
use crate::reminders::totals;
use crate::submit::room_for;

/// Inserts a reminder, after checking the limits. The caller wakes the scheduler.
pub(super) fn create(
    records: &SqliteRecords,
    transaction: &mut WriteTransaction<'_>,
    new: &NewReminder,
) -> Result<Reminder, JobError<RecordsError>> {
    let tenant = records.directory.tenant(&new.tenant);
    let tenant = tenant.ok_or_else(|| RecordsError::missing(TENANT, &new.tenant))?;
    tenant.key_of(Purpose::Reminders, new.settings.url.as_str())?;
    let size = new.payload.len() as u64;
    admit(transaction, &tenant, size, 1)?;
    let wanted = transaction.next_id().number();
    insert(transaction, wanted, tenant.row, new)?;
    totals::add(transaction.connection(), tenant.row, size)?;
    found(transaction.connection(), ReminderId(id(wanted)))
}

/// Wakes the scheduler after the commit.
pub(super) fn wake_scheduler(records: &SqliteRecords, transaction: &mut WriteTransaction<'_>) {
    let directory = Arc::clone(&records.directory);
    transaction.report_after_commit(move || directory.reminders_changed());
}

/// Checks that the tenant's limit and the disk allow `more` reminders with this number of bytes.
pub(super) fn admit(
    transaction: &mut WriteTransaction<'_>,
    tenant: &TenantEntry,
    bytes: u64,
    more: u64,
) -> Result<(), JobError<RecordsError>> {
    let now = totals::of(transaction.connection(), tenant.row)?;
    let limit = tenant.reminders.limit;
    if now.count.saturating_add(more) > limit.count || now.bytes.saturating_add(bytes) > limit.bytes {
        let (count, bytes) = (now.count, now.bytes);
        return Err(RecordsError::RemindersFull { tenant: tenant.id.clone(), count, bytes }.into());
    }
    let room = room_for(transaction, more, bytes);
    room.map_err(|below| RecordsError::DiskReserve { free: below.free, reserve: below.reserve }.into())
}

fn insert(
    transaction: &mut WriteTransaction<'_>,
    wanted: i64,
    tenant: i64,
    new: &NewReminder,
) -> Result<(), JobError<RecordsError>> {
    let now = micros(transaction.wall());
    let settings = &new.settings;
    let first = settings.schedule.first();
    let inserted = transaction
        .connection()
        .prepare_cached(
            "INSERT INTO reminders (id, tenant, reference, settings, size, state, asked, turn, runs, numbered, skipped, look_at,
                 revision, created_at, changed_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, 0, 0, 0, ?8, ?9, ?10, ?10)",
        )?
        .execute(params![
            wanted,
            tenant,
            settings.reference,
            StoredReminder::of(settings).write(),
            number(new.payload.len() as u64),
            ACTIVE,
            NO_REQUEST,
            micros(first.unwrap_or(Timestamp::ZERO)),
            Revision::FIRST.0,
            now,
        ]);
    taken_reference(inserted, settings)?;
    transaction
        .connection()
        .prepare_cached("INSERT INTO reminder_payloads (reminder, payload) VALUES (?1, ?2)")?
        .execute(params![wanted, &new.payload[..]])?;
    Ok(())
}

/// Converts a uniqueness violation to an error about the reference, which is the only unique column.
pub(super) fn taken_reference(
    written: rusqlite::Result<usize>,
    settings: &ReminderSettings,
) -> Result<(), JobError<RecordsError>> {
    match written {
        Ok(_) => Ok(()),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            let name = settings.reference.clone().unwrap_or_default();
            Err(RecordsError::Exists { what: "reminder with the reference", name }.into())
        }
        Err(error) => Err(error.into()),
    }
}
