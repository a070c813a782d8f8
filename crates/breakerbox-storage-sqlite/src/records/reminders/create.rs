//! New reminders: the check of limits, and their rows.

use std::sync::Arc;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{Purpose, Reminder, ReminderId, ReminderSettings, Revision};
use breakerbox_storage::records::NewReminder;
use breakerbox_storage::{RecordsError, TenantEntry};
use rusqlite::{ErrorCode, params};

use super::{SqliteRecords, TENANT, found};
use crate::Writing;
use crate::accept::room_for;
use crate::columns::{id, micros, number};
use crate::error::JobError;
use crate::reminders::kept::{ACTIVE, Kept, NOTHING_ASKED};
use crate::reminders::totals;

/// Creates a reminder. The caller wakes the scheduler.
pub(super) fn create(
    records: &SqliteRecords,
    writing: &mut Writing<'_>,
    new: &NewReminder,
) -> Result<Reminder, JobError<RecordsError>> {
    let tenant = records.directory.tenant(&new.tenant);
    let tenant = tenant.ok_or_else(|| RecordsError::missing(TENANT, &new.tenant))?;
    tenant.key_of(Purpose::Reminders, new.settings.url.as_str())?;
    let size = new.payload.len() as u64;
    admit(writing, &tenant, size, 1)?;
    let wanted = writing.next_id().number();
    insert(writing, wanted, tenant.row, new)?;
    totals::add(writing.connection(), tenant.row, size)?;
    found(writing.connection(), ReminderId(id(wanted)))
}

/// Wakes the scheduler after the commit.
pub(super) fn ring(records: &SqliteRecords, writing: &mut Writing<'_>) {
    let directory = Arc::clone(&records.directory);
    writing.tell_after_commit(move || directory.reminders_changed());
}

/// Checks that the tenant's limit and the disk have room for so many more reminders, with so many bytes.
pub(super) fn admit(
    writing: &mut Writing<'_>,
    tenant: &TenantEntry,
    bytes: u64,
    more: u64,
) -> Result<(), JobError<RecordsError>> {
    let now = totals::of(writing.connection(), tenant.row)?;
    let limit = tenant.reminders.limit;
    if now.count.saturating_add(more) > limit.count || now.bytes.saturating_add(bytes) > limit.bytes {
        let (count, bytes) = (now.count, now.bytes);
        return Err(RecordsError::RemindersFull { tenant: tenant.id.clone(), count, bytes }.into());
    }
    let room = room_for(writing, more, bytes);
    room.map_err(|below| RecordsError::DiskReserve { free: below.free, reserve: below.reserve }.into())
}

fn insert(
    writing: &mut Writing<'_>,
    wanted: i64,
    tenant: i64,
    new: &NewReminder,
) -> Result<(), JobError<RecordsError>> {
    let now = micros(writing.wall());
    let settings = &new.settings;
    let first = settings.schedule.first();
    let inserted = writing
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
            Kept::of(settings).write(),
            number(new.payload.len() as u64),
            ACTIVE,
            NOTHING_ASKED,
            micros(first.unwrap_or(Timestamp::ZERO)),
            Revision::FIRST.0,
            now,
        ]);
    taken_reference(inserted, settings)?;
    writing
        .connection()
        .prepare_cached("INSERT INTO reminder_payloads (reminder, payload) VALUES (?1, ?2)")?
        .execute(params![wanted, &new.payload[..]])?;
    Ok(())
}

/// The reference is the only column that must be unique.
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
