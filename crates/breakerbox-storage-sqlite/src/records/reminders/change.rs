//! The effects of changing a reminder on its row, its next step, and a waiting run.

use std::sync::Arc;

use breakerbox_model::objects::{DeliveryId, Purpose, Reminder, ReminderState};
use breakerbox_model::reminder::ScheduleChange;
use breakerbox_storage::records::ReminderChange;
use breakerbox_storage::{RecordsError, TenantEntry};
use rusqlite::{OptionalExtension, params};

use super::SqliteRecords;
use super::create::taken_reference;
use crate::WriteTransaction;
use crate::columns::{WAITING, content_type, level, micros, number, whole};
use crate::error::JobError;
use crate::lanes;
use crate::reminders::runs::{self, WasSent};
use crate::reminders::stored::StoredReminder;

/// Writes a change to a reminder's row.
pub(super) fn write(
    transaction: &mut WriteTransaction<'_>,
    found: &Reminder,
    change: &ReminderChange,
) -> Result<(), JobError<RecordsError>> {
    let settings = &change.settings;
    let size = change.payload.as_ref().map_or(found.payload_size, |payload| payload.len() as u64);
    let written = transaction
        .connection()
        .prepare_cached(
            "UPDATE reminders SET reference = ?2, settings = ?3, size = ?4, revision = ?5, changed_at = ?6, turn = turn + 1
             WHERE id = ?1",
        )?
        .execute(params![
            found.id.number(),
            settings.reference,
            StoredReminder::of(settings).write(),
            number(size),
            found.revision.next().0,
            micros(transaction.wall()),
        ]);
    taken_reference(written, settings)?;
    if let Some(payload) = &change.payload {
        transaction
            .connection()
            .prepare_cached("UPDATE reminder_payloads SET payload = ?2 WHERE reminder = ?1")?
            .execute(params![found.id.number(), &payload[..]])?;
    }
    reschedule(transaction, found, change)
}

/// Replaces a reminder's schedule.
fn reschedule(
    transaction: &mut WriteTransaction<'_>,
    found: &Reminder,
    change: &ReminderChange,
) -> Result<(), JobError<RecordsError>> {
    let (was, is) = (&found.settings.schedule, &change.settings.schedule);
    if was == is {
        return Ok(());
    }
    let wanted = found.id.number();
    let mut is_open = found.open_run.is_some();
    if let ScheduleChange::Restarts { last } = is.change_from(was, change.now) {
        if let Some(run) = found.open_run {
            is_open = !withdraw(transaction, wanted, run)?;
        }
        transaction
            .connection()
            .prepare_cached("UPDATE reminders SET last_at = ?2, before_at = ?2 WHERE id = ?1")?
            .execute(params![wanted, last.map(micros)])?;
    }
    if found.state == ReminderState::Active && !is_open {
        let mut statement =
            transaction.connection().prepare_cached("UPDATE reminders SET look_at = 0 WHERE id = ?1")?;
        statement.execute([wanted])?;
    }
    Ok(())
}

/// Withdraws a run if it is waiting, as if it had not been fired. Returns whether the run was withdrawn.
pub(super) fn withdraw(
    transaction: &mut WriteTransaction<'_>,
    reminder: i64,
    run: DeliveryId,
) -> Result<bool, JobError<RecordsError>> {
    if !transaction.cancel(run)? {
        return Ok(false);
    }
    let was_sent = transaction
        .connection()
        .prepare_cached("SELECT 1 FROM deliveries WHERE id = ?1 AND requests > 0")?
        .exists([run.number()])?;
    let was_sent = if was_sent { WasSent::Yes } else { WasSent::No };
    runs::undo_firing(transaction.connection(), reminder, was_sent)?;
    Ok(true)
}

/// Applies a reminder's new settings to its latest run, if that run is still waiting.
pub(super) fn carry_on(
    records: &SqliteRecords,
    transaction: &mut WriteTransaction<'_>,
    tenant: &TenantEntry,
    found: &Reminder,
    change: &ReminderChange,
) -> Result<(), JobError<RecordsError>> {
    let Some(run) = found.open_run else { return Ok(()) };
    let bounded_waits = transaction
        .connection()
        .prepare_cached("SELECT event, lane FROM deliveries WHERE id = ?1 AND state = ?2")?
        .query_row(params![run.number(), WAITING], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    let Some((event, lane)) = bounded_waits else { return Ok(()) };
    let settings = &change.settings;
    let key = tenant.key_of(Purpose::Reminders, settings.url.as_str())?;
    let new_lane = transaction.lane_of(tenant.row, &key)?;
    let was: i64 = transaction
        .connection()
        .prepare_cached("SELECT size FROM events WHERE id = ?1")?
        .query_row([event], |row| row.get(0))?;
    let is = change.payload.as_ref().map_or(was, |payload| number(payload.len() as u64));
    transaction
        .connection()
        .prepare_cached(
            "UPDATE events SET url = ?2, content_type = ?3, priority = ?4, size = ?5 WHERE id = ?1",
        )?
        .execute(params![
            event,
            settings.url.as_str(),
            content_type(&settings.content_type),
            level(settings.priority),
            is,
        ])?;
    if let Some(payload) = &change.payload {
        transaction
            .connection()
            .prepare_cached("UPDATE payloads SET payload = ?2 WHERE event = ?1")?
            .execute(params![event, &payload[..]])?;
    }
    transaction
        .connection()
        .prepare_cached("UPDATE deliveries SET lane = ?2, priority = ?3 WHERE id = ?1")?
        .execute(params![run.number(), new_lane.number(), level(settings.priority)])?;
    transaction.writer_state.finished(tenant.row, lane, whole(was));
    transaction.writer_state.begun(tenant.row, new_lane.number(), whole(is));
    wake(records, transaction, found, new_lane.number())
}

/// Makes a waiting run due now.
pub(super) fn hurry(
    records: &SqliteRecords,
    transaction: &mut WriteTransaction<'_>,
    found: &Reminder,
    run: i64,
) -> Result<(), JobError<RecordsError>> {
    let lane: Option<i64> = transaction
        .connection()
        .prepare_cached("UPDATE deliveries SET due_at = ?2 WHERE id = ?1 AND state = ?3 RETURNING lane")?
        .query_row(params![run, micros(transaction.now()), WAITING], |row| row.get(0))
        .optional()?;
    // A run in flight needs no change.
    lane.map_or(Ok(()), |lane| wake(records, transaction, found, lane))
}

fn wake(
    records: &SqliteRecords,
    transaction: &mut WriteTransaction<'_>,
    found: &Reminder,
    lane: i64,
) -> Result<(), JobError<RecordsError>> {
    let waiting = lanes::waiting(transaction.connection(), found.tenant.clone(), lane)?;
    let directory = Arc::clone(&records.directory);
    transaction.after_commit(move || directory.woken(&waiting));
    Ok(())
}
