//! Creates reminders: checks the limits, and inserts the rows.

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{Purpose, Reminder, ReminderId, ReminderSettings, Revision};
use breakerbox_storage::records::NewReminder;
use breakerbox_storage::stored::codes::{micros, number};
use breakerbox_storage::stored::reminder::{ACTIVE, NO_REQUEST, StoredReminder};
use breakerbox_storage::stored::settings::TENANT;
use breakerbox_storage::{QueueError, RecordsError, TenantEntry};
use tokio_postgres::error::SqlState;

use super::super::PostgresRecords;
use super::super::work::Work;
use super::{count, found};
use crate::error::sql_state;

/// The space on the disk that a reminder takes in addition to its payload.
const ROW_BYTES: u64 = 1_024;

impl PostgresRecords {
    /// Inserts a reminder, after checking the limits, and wakes the scheduler.
    pub(in super::super) async fn insert_reminder(
        &self,
        work: &mut Work,
        new: NewReminder,
    ) -> Result<Reminder, RecordsError> {
        work.wake_scheduler();
        self.insert_one(work, &new).await
    }

    /// Inserts several reminders, either all or none.
    pub(in super::super) async fn insert_reminders(
        &self,
        work: &mut Work,
        new: Vec<NewReminder>,
    ) -> Result<Vec<Reminder>, RecordsError> {
        work.wake_scheduler();
        let mut created = Vec::with_capacity(new.len());
        for (index, new) in new.iter().enumerate() {
            match self.insert_one(work, new).await {
                Ok(reminder) => created.push(reminder),
                // The error does not concern a single reminder.
                Err(error @ RecordsError::Queue(_)) => return Err(error),
                Err(error) => return Err(RecordsError::OneOf { index, error: Box::new(error) }),
            }
        }
        Ok(created)
    }

    async fn insert_one(&self, work: &mut Work, new: &NewReminder) -> Result<Reminder, RecordsError> {
        let tenant = self.directory.tenant(&new.tenant);
        let tenant = tenant.ok_or_else(|| RecordsError::missing(TENANT, &new.tenant))?;
        tenant.key_of(Purpose::Reminders, new.settings.url.as_str())?;
        let size = new.payload.len() as u64;
        self.admit_reminders(work, &tenant, size, 1).await?;
        let id = ReminderId(work.transaction.next_id());
        let settings = &new.settings;
        let first = settings.schedule.first().unwrap_or(Timestamp::ZERO);
        let inserted = work
            .transaction
            .execute(
                include_str!("../../sql/records/insert_reminder.sql"),
                &[
                    &id.number(),
                    &tenant.row,
                    &settings.reference,
                    &StoredReminder::of(settings).write(),
                    &number(size),
                    &ACTIVE,
                    &NO_REQUEST,
                    &micros(first),
                    &Revision::FIRST.0,
                    &micros(work.now),
                    &&new.payload[..],
                ],
            )
            .await;
        taken_reference(inserted, settings)?;
        count(&work.transaction, tenant.row, 1, number(size)).await?;
        found(&work.transaction, id).await
    }

    /// Checks that the tenant's limit and the disk allow `more` reminders with this number of bytes. Until the commit, no
    /// other transaction creates reminders of this tenant.
    pub(super) async fn admit_reminders(
        &self,
        work: &Work,
        tenant: &TenantEntry,
        bytes: u64,
        more: u64,
    ) -> Result<(), RecordsError> {
        count(&work.transaction, tenant.row, 0, 0).await?;
        let now = self.reminder_totals(work, tenant.row).await?;
        let limit = tenant.reminders.limit;
        if now.count.saturating_add(more) > limit.count || now.bytes.saturating_add(bytes) > limit.bytes {
            let (count, bytes) = (now.count, now.bytes);
            return Err(RecordsError::RemindersFull { tenant: tenant.id.clone(), count, bytes });
        }
        match self.database.below_reserve(bytes.saturating_add(more.saturating_mul(ROW_BYTES))) {
            Some((free, reserve)) => Err(RecordsError::DiskReserve { free, reserve }),
            None => Ok(()),
        }
    }
}

/// Converts a uniqueness violation to an error about the reference, which is the only unique column.
pub(super) fn taken_reference(
    written: Result<u64, QueueError>,
    settings: &ReminderSettings,
) -> Result<(), RecordsError> {
    match written {
        Ok(_) => Ok(()),
        Err(error) if sql_state(&error) == Some(&SqlState::UNIQUE_VIOLATION) => {
            let name = settings.reference.clone().unwrap_or_default();
            Err(RecordsError::Exists { what: "reminder with the reference", name })
        }
        Err(error) => Err(error.into()),
    }
}
