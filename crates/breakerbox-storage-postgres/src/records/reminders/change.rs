//! The effects of changing a reminder on its row, its next step, and a waiting run.

use std::collections::BTreeMap;

use breakerbox_model::objects::{DeliveryId, Purpose, Reminder, ReminderState};
use breakerbox_model::reminder::ScheduleChange;
use breakerbox_storage::records::ReminderChange;
use breakerbox_storage::stored::codes::{content_type, level, micros, number, whole};
use breakerbox_storage::stored::reminder::StoredReminder;
use breakerbox_storage::{RecordsError, TenantEntry};

use super::super::cancel_and_resend::cancel;
use super::super::work::Work;
use super::create::taken_reference;
use crate::backlogs::BacklogChanges;
use crate::error::get;
use crate::lanes::{DynamicLanes, waiting_of};

/// Writes a change to a reminder's row.
pub(super) async fn write(
    work: &Work,
    found: &Reminder,
    change: &ReminderChange,
) -> Result<(), RecordsError> {
    let settings = &change.settings;
    let size = change.payload.as_ref().map_or(found.payload_size, |payload| payload.len() as u64);
    let written = work
        .transaction
        .execute(
            include_str!("../../sql/records/update_reminder.sql"),
            &[
                &found.id.number(),
                &settings.reference,
                &StoredReminder::of(settings).write(),
                &number(size),
                &found.revision.next().0,
                &micros(work.now),
            ],
        )
        .await;
    taken_reference(written, settings)?;
    if let Some(payload) = &change.payload {
        let sql = include_str!("../../sql/records/update_reminder_payload.sql");
        work.transaction.execute(sql, &[&found.id.number(), &&payload[..]]).await?;
    }
    reschedule(work, found, change).await
}

/// Replaces a reminder's schedule.
async fn reschedule(work: &Work, found: &Reminder, change: &ReminderChange) -> Result<(), RecordsError> {
    let (was, is) = (&found.settings.schedule, &change.settings.schedule);
    if was == is {
        return Ok(());
    }
    let wanted = found.id.number();
    let mut is_open = found.open_run.is_some();
    if let ScheduleChange::Restarts { last } = is.change_from(was, change.now) {
        if let Some(run) = found.open_run {
            is_open = !withdraw(work, wanted, run).await?;
        }
        let sql = include_str!("../../sql/records/restart_reminder.sql");
        work.transaction.execute(sql, &[&wanted, &last.map(micros)]).await?;
    }
    if found.state == ReminderState::Active && !is_open {
        let sql = include_str!("../../sql/records/check_reminder_now.sql");
        work.transaction.execute(sql, &[&wanted]).await?;
    }
    Ok(())
}

/// Withdraws a run if it is waiting, as if it had not been fired. Returns whether the run was withdrawn.
///
/// The run's number is reused only if no receiver has seen it, because a receiver treats another request with a known
/// `webhook-id` as a retry.
pub(super) async fn withdraw(work: &Work, reminder: i64, run: DeliveryId) -> Result<bool, RecordsError> {
    if !cancel(work, run).await? {
        return Ok(false);
    }
    let sql = include_str!("../../sql/records/undo_firing.sql");
    work.transaction.execute(sql, &[&reminder, &run.number()]).await?;
    Ok(true)
}

/// Applies a reminder's new settings to its latest run, if that run is still waiting.
pub(super) async fn carry_on(
    work: &mut Work,
    tenant: &TenantEntry,
    found: &Reminder,
    change: &ReminderChange,
) -> Result<(), RecordsError> {
    let Some(run) = found.open_run else { return Ok(()) };
    let sql = include_str!("../../sql/records/waiting_run.sql");
    let Some(row) = work.transaction.query_opt(sql, &[&run.number()]).await? else { return Ok(()) };
    let (event, lane, was): (i64, i64, i64) = (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
    let settings = &change.settings;
    let key = tenant.key_of(Purpose::Reminders, settings.url.as_str())?;
    let mut lanes = DynamicLanes::default();
    lanes.want(tenant.row, &key);
    lanes.find(&work.transaction).await?;
    let new_lane = lanes.get(tenant.row, &key);
    let is = change.payload.as_ref().map_or(was, |payload| number(payload.len() as u64));
    let level = level(settings.priority);
    let sql = include_str!("../../sql/records/update_run_event.sql");
    let content_type = content_type(&settings.content_type);
    work.transaction.execute(sql, &[&event, &settings.url.as_str(), &content_type, &level, &is]).await?;
    if let Some(payload) = &change.payload {
        let sql = include_str!("../../sql/records/update_payload.sql");
        work.transaction.execute(sql, &[&event, &&payload[..]]).await?;
    }
    let sql = include_str!("../../sql/records/move_waiting_run.sql");
    work.transaction.execute(sql, &[&run.number(), &new_lane, &level, &is]).await?;
    let mut changes = BacklogChanges::default();
    changes.ended(tenant.row, lane, whole(was));
    changes.begun(tenant.row, new_lane, whole(is));
    changes.write(&work.transaction).await?;
    wake(work, tenant.row, new_lane).await
}

/// Makes a waiting run due now.
pub(super) async fn hurry(work: &mut Work, found: &Reminder, run: i64) -> Result<(), RecordsError> {
    let sql = include_str!("../../sql/records/hurry_if_waiting.sql");
    let hurried = work.transaction.query_opt(sql, &[&run, &micros(work.now)]).await?;
    // A run in flight needs no change.
    let Some(row) = hurried else { return Ok(()) };
    wake(work, found.owner.0, get(&row, 0)?).await
}

async fn wake(work: &mut Work, tenant: i64, lane: i64) -> Result<(), RecordsError> {
    for waiting in waiting_of(&work.transaction, &BTreeMap::from([(lane, tenant)])).await? {
        work.wake(waiting);
    }
    Ok(())
}
