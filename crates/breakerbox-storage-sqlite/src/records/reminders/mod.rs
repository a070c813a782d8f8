//! The API's operations on reminders. Each change wakes the scheduler after the commit.
//!
//! | part | task |
//! | --- | --- |
//! | `create` | creates reminders |
//! | `change` | the effects of a change on a reminder and its run |
//! | `list` | lists reminders and their runs |

mod change;
mod create;
mod list;

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{Id, Purpose, Reminder, ReminderId, ReminderState, Revision, Run};
use breakerbox_storage::records::{
    Edit, NewReminder, Page, PageOf, ReminderChange, ReminderFilter, Reminders,
};
use breakerbox_storage::{QueueError, RecordsError};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, params};

use self::change::{carry_on, hurry, withdraw, write};
use self::create::admit;
use super::SqliteRecords;
use super::{readable, unchanged};
use crate::WriteTransaction;
use crate::columns::micros;
use crate::error::JobError;
use crate::reminders::prune::Prune;
use crate::reminders::stored::{ACTIVE, CANCELLED, NO_REQUEST, PAUSED, TO_RESUME, TO_RUN_NOW, show};
use crate::reminders::totals;
use crate::write_queue::Urgency;
use breakerbox_storage::records::cursors::position;
use breakerbox_storage::stored::settings::TENANT;

const REMINDER: &str = "reminder";

impl SqliteRecords {
    async fn act(
        &self,
        wanted: ReminderId,
        act: impl FnOnce(&Self, &mut WriteTransaction<'_>, Reminder) -> Result<(), JobError<RecordsError>>
        + Send
        + 'static,
    ) -> Result<Reminder, RecordsError> {
        let records = self.clone();
        self.database.write(move |transaction| act_on(&records, transaction, wanted, act)).await
    }
}

/// Runs an operation on an existing reminder, and returns the reminder in its new state.
fn act_on(
    records: &SqliteRecords,
    transaction: &mut WriteTransaction<'_>,
    wanted: ReminderId,
    act: impl FnOnce(&SqliteRecords, &mut WriteTransaction<'_>, Reminder) -> Result<(), JobError<RecordsError>>,
) -> Result<Reminder, JobError<RecordsError>> {
    let found = found(transaction.connection(), wanted)?;
    act(records, transaction, found)?;
    create::wake_scheduler(records, transaction);
    self::found(transaction.connection(), wanted)
}

pub(super) fn create_one(
    records: &SqliteRecords,
    transaction: &mut WriteTransaction<'_>,
    new: &NewReminder,
) -> Result<Reminder, JobError<RecordsError>> {
    create::wake_scheduler(records, transaction);
    create::create(records, transaction, new)
}

/// Creates several reminders, either all or none.
pub(super) fn create_all(
    records: &SqliteRecords,
    transaction: &mut WriteTransaction<'_>,
    new: &[NewReminder],
) -> Result<Vec<Reminder>, JobError<RecordsError>> {
    create::wake_scheduler(records, transaction);
    let create = |(index, new)| match create::create(records, transaction, new) {
        // The error does not concern a single reminder.
        Err(JobError(error @ RecordsError::Queue(_))) => Err(error.into()),
        Err(JobError(error)) => Err(RecordsError::OneOf { index, error: Box::new(error) }.into()),
        Ok(created) => Ok(created),
    };
    new.iter().enumerate().map(create).collect()
}

/// Fires a run in addition to the schedule, or makes a waiting run due now.
pub(super) fn run_now(
    records: &SqliteRecords,
    transaction: &mut WriteTransaction<'_>,
    wanted: ReminderId,
) -> Result<Reminder, JobError<RecordsError>> {
    act_on(records, transaction, wanted, |records, transaction, found| {
        if found.state == ReminderState::Cancelled {
            return Err(refused(&found, "run").into());
        }
        if let Some(run) = found.open_run {
            return hurry(records, transaction, &found, run.number());
        }
        let mut statement = transaction
            .connection()
            .prepare_cached("UPDATE reminders SET turn = turn + 1, look_at = 0, asked = ?2 WHERE id = ?1")?;
        statement.execute(params![wanted.number(), TO_RUN_NOW])?;
        Ok(())
    })
}

#[async_trait]
impl Reminders for SqliteRecords {
    async fn create_reminder(&self, new: NewReminder) -> Result<Reminder, RecordsError> {
        let records = self.clone();
        self.database.write(move |transaction| create_one(&records, transaction, &new)).await
    }

    async fn create_reminders(&self, new: Vec<NewReminder>) -> Result<Vec<Reminder>, RecordsError> {
        let records = self.clone();
        self.database.write(move |transaction| create_all(&records, transaction, &new)).await
    }

    async fn reminder(&self, wanted: ReminderId) -> Result<Reminder, RecordsError> {
        self.database.read(move |connection| found(connection, wanted)).await
    }

    async fn reminder_payload(&self, wanted: ReminderId) -> Result<Bytes, RecordsError> {
        let found = self
            .database
            .read(move |connection| {
                let mut statement =
                    connection.prepare_cached("SELECT payload FROM reminder_payloads WHERE reminder = ?1")?;
                let payload = statement.query_row([wanted.number()], |row| row.get::<_, Vec<u8>>(0));
                Ok::<_, JobError<RecordsError>>(payload.optional()?)
            })
            .await?;
        found.map(Bytes::from).ok_or_else(|| RecordsError::missing(REMINDER, wanted))
    }

    async fn reminders(&self, filter: &ReminderFilter, of: &PageOf) -> Result<Page<Reminder>, RecordsError> {
        let before = position::<Id>(of)?.map_or(i64::MAX, Id::number);
        let (filter, size) = (filter.clone(), of.size());
        self.database.read(move |connection| Ok(list::list(connection, &filter, before, size)?)).await
    }

    async fn edit_reminder(
        &self,
        wanted: ReminderId,
        edit: Edit<Reminder, ReminderChange>,
        seen: Option<Revision>,
    ) -> Result<Reminder, RecordsError> {
        self.act(wanted, move |records, transaction, found| {
            unchanged(found.revision, seen, REMINDER, &wanted)?;
            if matches!(found.state, ReminderState::Finished | ReminderState::Cancelled) {
                return Err(refused(&found, "changed").into());
            }
            let change = edit(&found)?;
            let tenant = records.directory.tenant(&found.tenant);
            let tenant = tenant.ok_or_else(|| RecordsError::missing(TENANT, &found.tenant))?;
            tenant.key_of(Purpose::Reminders, change.settings.url.as_str())?;
            if let Some(payload) = &change.payload {
                let (was, is) = (found.payload_size, payload.len() as u64);
                admit(transaction, &tenant, is.saturating_sub(was), 0)?;
                totals::resize(transaction.connection(), tenant.row, was, is)?;
            }
            write(transaction, &found, &change)?;
            carry_on(records, transaction, &tenant, &found, &change)
        })
        .await
    }

    async fn pause_reminder(&self, wanted: ReminderId) -> Result<Reminder, RecordsError> {
        self.act(wanted, move |_, transaction, found| {
            if found.state != ReminderState::Active {
                return Err(refused(&found, "paused").into());
            }
            if let Some(run) = found.open_run {
                withdraw(transaction, wanted.number(), run)?;
            }
            set_state(transaction, &found, PAUSED, None, NO_REQUEST)
        })
        .await
    }

    async fn resume_reminder(&self, wanted: ReminderId) -> Result<Reminder, RecordsError> {
        self.act(wanted, move |_, transaction, found| {
            if !matches!(found.state, ReminderState::Paused | ReminderState::Stopped(_)) {
                return Err(refused(&found, "resumed").into());
            }
            // If a run is still open, the reminder continues when that run has ended.
            let next_check_at = found.open_run.is_none().then_some(Timestamp::ZERO);
            set_state(transaction, &found, ACTIVE, next_check_at, TO_RESUME)
        })
        .await
    }

    async fn cancel_reminder(&self, wanted: ReminderId) -> Result<Reminder, RecordsError> {
        self.act(wanted, move |records, transaction, found| {
            if found.state == ReminderState::Cancelled {
                return Ok(());
            }
            if found.state == ReminderState::Finished {
                return Err(refused(&found, "cancelled").into());
            }
            set_state(transaction, &found, CANCELLED, None, NO_REQUEST)?;
            if let Some(run) = found.open_run {
                transaction.cancel(run)?;
            }
            if let Some(tenant) = records.directory.tenant(&found.tenant) {
                totals::remove(transaction.connection(), tenant.row, found.payload_size)?;
            }
            Ok(())
        })
        .await
    }

    async fn run_reminder(&self, wanted: ReminderId) -> Result<Reminder, RecordsError> {
        let records = self.clone();
        self.database.write(move |transaction| run_now(&records, transaction, wanted)).await
    }

    async fn runs(&self, wanted: ReminderId, of: &PageOf) -> Result<Page<Run>, RecordsError> {
        let before = position::<Id>(of)?.map_or(i64::MAX, Id::number);
        let size = of.size();
        self.database
            .read(move |connection| {
                found(connection, wanted)?;
                Ok(list::runs(connection, wanted, before, size)?)
            })
            .await
    }

    async fn prune_reminders(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError> {
        self.database.request(Prune { before, limit }, Urgency::Urgent).await
    }
}

fn found(connection: &Connection, wanted: ReminderId) -> Result<Reminder, JobError<RecordsError>> {
    readable(show(connection, wanted.number()), REMINDER, wanted)
}

fn refused(found: &Reminder, verb: &'static str) -> RecordsError {
    RecordsError::ReminderState { id: found.id, state: found.state.name(), verb }
}

fn set_state(
    transaction: &mut WriteTransaction<'_>,
    found: &Reminder,
    state: i64,
    next_check_at: Option<Timestamp>,
    asked: i64,
) -> Result<(), JobError<RecordsError>> {
    let now = micros(transaction.wall());
    let ended_at = (state == CANCELLED).then_some(now);
    transaction
        .connection()
        .prepare_cached(
            "UPDATE reminders SET turn = turn + 1, state = ?2, reason = NULL, look_at = ?3, asked = ?4, ended_at = ?5,
                 revision = ?6, changed_at = ?7
             WHERE id = ?1",
        )?
        .execute(params![
            found.id.number(),
            state,
            next_check_at.map(micros),
            asked,
            ended_at,
            found.revision.next().0,
            now,
        ])?;
    Ok(())
}
