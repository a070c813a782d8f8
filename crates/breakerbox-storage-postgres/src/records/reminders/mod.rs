//! The API's operations on reminders. Each change wakes the scheduler after the commit.
//!
//! | part | task |
//! | --- | --- |
//! | `create` | creates reminders |
//! | `change` | the effects of a change on a reminder and its run |
//! | `list` | lists reminders and their runs |
//!
//! **Locks.** An operation first locks the waiting or leased run of the reminder, then the reminder: the order in which a
//! settlement locks them.

mod change;
mod create;
mod list;

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{
    Backlog, DeliveryId, Id, Purpose, Reminder, ReminderId, ReminderState, Revision, Run, TenantNumber,
};
use breakerbox_storage::records::cursors::position;
use breakerbox_storage::records::{
    Edit, NewReminder, Page, PageOf, ReminderChange, ReminderFilter, Reminders,
};
use breakerbox_storage::stored::Unreadable;
use breakerbox_storage::stored::codes::{id, micros, number, whole};
use breakerbox_storage::stored::reminder::{
    ACTIVE, CANCELLED, NO_REQUEST, PAUSED, StoredReminder, TO_RESUME, TO_RUN_NOW, state,
};
use breakerbox_storage::stored::settings::TENANT;
use breakerbox_storage::{QueueError, RecordsError};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio_postgres::Row;

use self::change::{carry_on, hurry, withdraw, write};
use super::cancel_and_resend::cancel;
use super::work::Work;
use super::{PostgresRecords, unchanged};
use crate::columns::{at, column, maybe_at, parsed_column, readable, small};
use crate::database::Transaction;
use crate::error::get;

const REMINDER: &str = "reminder";

/// How often the lock of a reminder is tried again because another run became its open one in the meantime.
const LOCK_TRIES: usize = 4;

/// Reads a reminder from its row.
fn reminder(row: &Row) -> Result<Reminder, Unreadable> {
    let stored = StoredReminder::read(column(row, "settings")?)?;
    let changed_at = at(row, "changed_at")?;
    let open_run = column::<Option<i64>>(row, "open_run")?.map(|number| DeliveryId(id(number)));
    Ok(Reminder {
        id: ReminderId(id(column(row, "id")?)),
        tenant: parsed_column(row, "tenant")?,
        owner: TenantNumber(column(row, "owner")?),
        settings: stored.settings(column(row, "reference")?)?,
        payload_size: whole(column(row, "size")?),
        state: state(column(row, "state")?, column(row, "reason")?),
        runs: small(row, "runs")?,
        skipped: whole(column(row, "skipped")?),
        last_at: maybe_at(row, "ran_at")?,
        done_until: maybe_at(row, "last_at")?,
        // A reminder that has to be checked at once has been due since it was changed.
        next_at: maybe_at(row, "look_at")?.filter(|_| open_run.is_none()).map(|next| next.max(changed_at)),
        open_run,
        created_at: at(row, "created_at")?,
        changed_at,
        revision: Revision(column(row, "revision")?),
    })
}

async fn found(transaction: &Transaction, wanted: ReminderId) -> Result<Reminder, RecordsError> {
    let sql = include_str!("../../sql/records/show_reminder.sql");
    let found = transaction.query_opt(sql, &[&wanted.number()]).await?;
    readable(found.as_ref().map(reminder), REMINDER, wanted)
}

/// Locks a reminder and its unfinished run until the commit, and returns the reminder.
async fn lock(transaction: &Transaction, wanted: ReminderId) -> Result<Reminder, RecordsError> {
    for _ in 0..LOCK_TRIES {
        let sql = include_str!("../../sql/records/lock_open_run.sql");
        let run = transaction.query_opt(sql, &[&wanted.number()]).await?;
        let run: Option<i64> = run.map(|row| get(&row, 0)).transpose()?;
        let sql = include_str!("../../sql/records/lock_reminder_if_open_run.sql");
        if transaction.query_opt(sql, &[&wanted.number(), &run]).await?.is_some() {
            return found(transaction, wanted).await;
        }
        // Reports a reminder that does not exist.
        found(transaction, wanted).await?;
    }
    Err(QueueError::Busy.into())
}

impl PostgresRecords {
    /// Runs an operation on an existing reminder, and returns the reminder in its new state.
    async fn act_on(
        &self,
        work: &mut Work,
        wanted: ReminderId,
        act: impl for<'a> FnOnce(&'a Self, &'a mut Work, &'a Reminder) -> BoxFuture<'a, Result<(), RecordsError>>
        + Send,
    ) -> Result<Reminder, RecordsError> {
        let reminder = lock(&work.transaction, wanted).await?;
        act(self, work, &reminder).await?;
        work.wake_scheduler();
        found(&work.transaction, wanted).await
    }

    async fn act(
        &self,
        wanted: ReminderId,
        act: impl for<'a> FnOnce(&'a Self, &'a mut Work, &'a Reminder) -> BoxFuture<'a, Result<(), RecordsError>>
        + Send,
    ) -> Result<Reminder, RecordsError> {
        let mut work = self.begin().await?;
        let reminder = self.act_on(&mut work, wanted, act).await?;
        work.commit(&self.directory).await?;
        Ok(reminder)
    }

    /// Fires a run in addition to the schedule, or makes a waiting run due now.
    pub(super) async fn run_reminder_now(
        &self,
        work: &mut Work,
        wanted: ReminderId,
    ) -> Result<Reminder, RecordsError> {
        self.act_on(work, wanted, |_, work, found| {
            Box::pin(async move {
                if found.state == ReminderState::Cancelled {
                    return Err(refused(found, "run"));
                }
                if let Some(run) = found.open_run {
                    return hurry(work, found, run.number()).await;
                }
                let sql = include_str!("../../sql/records/ask_for_run.sql");
                work.transaction.execute(sql, &[&found.id.number(), &TO_RUN_NOW]).await?;
                Ok(())
            })
        })
        .await
    }

    /// Brings the directory up to date if it lacks a tenant of new reminders.
    pub(super) async fn know_tenants(&self, new: &[NewReminder]) -> Result<(), QueueError> {
        let knows = |directory: &breakerbox_storage::Directory| {
            new.iter().all(|new| directory.tenant(&new.tenant).is_some()).then_some(())
        };
        self.look_up(knows).await.map(drop)
    }

    /// Returns the number and payload bytes of a tenant's unfinished reminders.
    pub(super) async fn reminder_totals(&self, work: &Work, tenant: i64) -> Result<Backlog, QueueError> {
        let sql = include_str!("../../sql/records/reminder_totals.sql");
        let found = work.transaction.query_opt(sql, &[&tenant]).await?;
        found.map_or(Ok(Backlog { count: 0, bytes: 0 }), |row| {
            Ok(Backlog { count: whole(get(&row, 0)?), bytes: whole(get(&row, 1)?) })
        })
    }
}

/// Changes a tenant's counts of unfinished reminders.
async fn count(transaction: &Transaction, tenant: i64, count: i64, bytes: i64) -> Result<(), QueueError> {
    let sql = include_str!("../../sql/records/add_reminder_totals.sql");
    transaction.execute(sql, &[&tenant, &count, &bytes]).await.map(drop)
}

#[async_trait]
impl Reminders for PostgresRecords {
    async fn create_reminder(&self, new: NewReminder) -> Result<Reminder, RecordsError> {
        self.know_tenants(std::slice::from_ref(&new)).await?;
        let mut work = self.begin().await?;
        let reminder = self.insert_reminder(&mut work, new).await?;
        work.commit(&self.directory).await?;
        Ok(reminder)
    }

    async fn create_reminders(&self, new: Vec<NewReminder>) -> Result<Vec<Reminder>, RecordsError> {
        self.know_tenants(&new).await?;
        let mut work = self.begin().await?;
        let reminders = self.insert_reminders(&mut work, new).await?;
        work.commit(&self.directory).await?;
        Ok(reminders)
    }

    async fn reminder(&self, wanted: ReminderId) -> Result<Reminder, RecordsError> {
        let sql = include_str!("../../sql/records/show_reminder.sql");
        let rows = self.database.read(sql, &[&wanted.number()]).await?;
        readable(rows.first().map(reminder), REMINDER, wanted)
    }

    async fn reminder_payload(&self, wanted: ReminderId) -> Result<Bytes, RecordsError> {
        let sql = include_str!("../../sql/records/reminder_payload.sql");
        let rows = self.database.read(sql, &[&wanted.number()]).await?;
        let row = rows.first().ok_or_else(|| RecordsError::missing(REMINDER, wanted))?;
        Ok(Bytes::from(get::<Vec<u8>>(row, 0)?))
    }

    async fn reminders(&self, filter: &ReminderFilter, of: &PageOf) -> Result<Page<Reminder>, RecordsError> {
        let before = position::<Id>(of)?.map_or(i64::MAX, Id::number);
        let transaction = self.database.begin_read().await?;
        let page = list::list(&transaction, filter, before, of.size()).await?;
        transaction.commit().await?;
        Ok(page)
    }

    async fn edit_reminder(
        &self,
        wanted: ReminderId,
        edit: Edit<Reminder, ReminderChange>,
        seen: Option<Revision>,
    ) -> Result<Reminder, RecordsError> {
        self.act(wanted, move |records, work, found| {
            Box::pin(async move {
                unchanged(found.revision, seen, REMINDER, &found.id)?;
                if matches!(found.state, ReminderState::Finished | ReminderState::Cancelled) {
                    return Err(refused(found, "changed"));
                }
                let change = edit(found)?;
                let tenant = records.directory.tenant(&found.tenant);
                let tenant = tenant.ok_or_else(|| RecordsError::missing(TENANT, &found.tenant))?;
                tenant.key_of(Purpose::Reminders, change.settings.url.as_str())?;
                if let Some(payload) = &change.payload {
                    let (was, is) = (found.payload_size, payload.len() as u64);
                    records.admit_reminders(work, &tenant, is.saturating_sub(was), 0).await?;
                    count(&work.transaction, tenant.row, 0, number(is) - number(was)).await?;
                }
                write(work, found, &change).await?;
                carry_on(work, &tenant, found, &change).await
            })
        })
        .await
    }

    async fn pause_reminder(&self, wanted: ReminderId) -> Result<Reminder, RecordsError> {
        self.act(wanted, |_, work, found| {
            Box::pin(async move {
                if found.state != ReminderState::Active {
                    return Err(refused(found, "paused"));
                }
                if let Some(run) = found.open_run {
                    withdraw(work, found.id.number(), run).await?;
                }
                set_state(work, found, PAUSED, None, NO_REQUEST).await
            })
        })
        .await
    }

    async fn resume_reminder(&self, wanted: ReminderId) -> Result<Reminder, RecordsError> {
        self.act(wanted, |_, work, found| {
            Box::pin(async move {
                if !matches!(found.state, ReminderState::Paused | ReminderState::Stopped(_)) {
                    return Err(refused(found, "resumed"));
                }
                // If a run is still open, the reminder continues when that run has ended.
                let next_check_at = found.open_run.is_none().then_some(Timestamp::ZERO);
                set_state(work, found, ACTIVE, next_check_at, TO_RESUME).await
            })
        })
        .await
    }

    async fn cancel_reminder(&self, wanted: ReminderId) -> Result<Reminder, RecordsError> {
        self.act(wanted, |_, work, found| {
            Box::pin(async move {
                if found.state == ReminderState::Cancelled {
                    return Ok(());
                }
                if found.state == ReminderState::Finished {
                    return Err(refused(found, "cancelled"));
                }
                set_state(work, found, CANCELLED, None, NO_REQUEST).await?;
                if let Some(run) = found.open_run {
                    cancel(work, run).await?;
                }
                Ok(count(&work.transaction, found.owner.0, -1, -number(found.payload_size)).await?)
            })
        })
        .await
    }

    async fn run_reminder(&self, wanted: ReminderId) -> Result<Reminder, RecordsError> {
        let mut work = self.begin().await?;
        let reminder = self.run_reminder_now(&mut work, wanted).await?;
        work.commit(&self.directory).await?;
        Ok(reminder)
    }

    async fn runs(&self, wanted: ReminderId, of: &PageOf) -> Result<Page<Run>, RecordsError> {
        let before = position::<Id>(of)?.map_or(i64::MAX, Id::number);
        let transaction = self.database.begin_read().await?;
        found(&transaction, wanted).await?;
        let page = list::runs(&transaction, wanted, before, of.size()).await?;
        transaction.commit().await?;
        Ok(page)
    }

    async fn prune_reminders(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError> {
        let work = self.begin().await?;
        let sql = include_str!("../../sql/records/prune_reminders.sql");
        let deleted = work.transaction.query_opt(sql, &[&micros(before), &number(limit as u64)]).await?;
        work.commit(&self.directory).await?;
        deleted.map_or(Ok(0), |row| get::<i64>(&row, 0).map(whole))
    }
}

fn refused(found: &Reminder, verb: &'static str) -> RecordsError {
    RecordsError::ReminderState { id: found.id, state: found.state.name(), verb }
}

async fn set_state(
    work: &Work,
    found: &Reminder,
    state: i64,
    next_check_at: Option<Timestamp>,
    asked: i64,
) -> Result<(), RecordsError> {
    let now = micros(work.now);
    let ended_at = (state == CANCELLED).then_some(now);
    let sql = include_str!("../../sql/records/set_reminder_state.sql");
    let revision = found.revision.next().0;
    let look_at = next_check_at.map(micros);
    work.transaction
        .execute(sql, &[&found.id.number(), &state, &look_at, &asked, &ended_at, &revision, &now])
        .await?;
    Ok(())
}
