//! Reminders for the API: create, show, list, change.

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{
    Reminder, ReminderId, ReminderSettings, ReminderStateName, Revision, Run, TenantId,
};
use bytes::Bytes;

use super::{Edit, Page, PageOf, QueueError, RecordsError};

/// Operations on reminders.
#[async_trait]
pub trait Reminders: Send + Sync + 'static {
    /// Creates a reminder.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing) tenant, [`Exists`](RecordsError::Exists) by its reference,
    /// [`RemindersFull`](RecordsError::RemindersFull), [`Url`](RecordsError::Url), or the database fails.
    async fn create_reminder(&self, new: NewReminder) -> Result<Reminder, RecordsError>;

    /// Creates several reminders, all or none.
    ///
    /// # Errors
    /// [`OneOf`](RecordsError::OneOf) them, with its error; or the database fails.
    async fn create_reminders(&self, new: Vec<NewReminder>) -> Result<Vec<Reminder>, RecordsError>;

    /// Returns a reminder.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn reminder(&self, id: ReminderId) -> Result<Reminder, RecordsError>;

    /// Returns the payload of a reminder.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn reminder_payload(&self, id: ReminderId) -> Result<Bytes, RecordsError>;

    /// Lists reminders, the newest first.
    ///
    /// # Errors
    /// If the cursor is invalid, or the database fails.
    async fn reminders(&self, filter: &ReminderFilter, page: &PageOf)
    -> Result<Page<Reminder>, RecordsError>;

    /// Changes a reminder that has not ended, if its revision is still the given one. A waiting run takes the new
    /// settings; one in flight ends with the old ones.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`Changed`](RecordsError::Changed), [`Exists`](RecordsError::Exists) by its
    /// reference, [`ReminderState`](RecordsError::ReminderState), or the database fails.
    async fn change_reminder(
        &self,
        id: ReminderId,
        change: ReminderChange,
        seen: Option<Revision>,
    ) -> Result<Reminder, RecordsError> {
        self.edit_reminder(id, Box::new(|_| Ok(change)), seen).await
    }

    /// Changes a reminder like [`change_reminder`](Self::change_reminder), with an edit of the stored one.
    ///
    /// # Errors
    /// As [`change_reminder`](Self::change_reminder), and [`Refused`](RecordsError::Refused).
    async fn edit_reminder(
        &self,
        id: ReminderId,
        edit: Edit<Reminder, ReminderChange>,
        seen: Option<Revision>,
    ) -> Result<Reminder, RecordsError>;

    /// Pauses an active reminder. A waiting run is withdrawn, as if it had not been fired; one in flight ends, and is
    /// not retried.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`ReminderState`](RecordsError::ReminderState), or the database fails.
    async fn pause_reminder(&self, id: ReminderId) -> Result<Reminder, RecordsError>;

    /// Resumes a paused or stopped reminder. Occurrences in the meantime are skipped, except that of a one-off.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`ReminderState`](RecordsError::ReminderState), or the database fails.
    async fn resume_reminder(&self, id: ReminderId) -> Result<Reminder, RecordsError>;

    /// Cancels a reminder for good. A waiting run is cancelled; one in flight ends, and is not retried.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`ReminderState`](RecordsError::ReminderState), or the database fails.
    async fn cancel_reminder(&self, id: ReminderId) -> Result<Reminder, RecordsError>;

    /// Fires a run now, besides the schedule, in every state but cancelled. If a run waits, that run is made due at
    /// once instead.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`ReminderState`](RecordsError::ReminderState), or the database fails.
    async fn run_reminder(&self, id: ReminderId) -> Result<Reminder, RecordsError>;

    /// Lists the runs of a reminder, the newest first, for as long as finished work is kept.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), an invalid cursor, or the database fails.
    async fn runs(&self, id: ReminderId, page: &PageOf) -> Result<Page<Run>, RecordsError>;

    /// Deletes reminders that ended before this time, a bounded number. Returns how many. Their runs are deleted with
    /// finished work.
    ///
    /// # Errors
    /// If the database fails.
    async fn prune_reminders(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError>;
}

/// A reminder to create.
#[derive(Clone, PartialEq, Debug)]
pub struct NewReminder {
    /// The tenant that the reminder belongs to.
    pub tenant: TenantId,
    /// The settings, which can be changed later.
    pub settings: ReminderSettings,
    /// The body of its requests.
    pub payload: Bytes,
}

/// A change of a reminder.
#[derive(Clone, PartialEq, Debug)]
pub struct ReminderChange {
    /// All settings, both changed and unchanged.
    pub settings: ReminderSettings,
    /// The new payload. `None`: unchanged.
    pub payload: Option<Bytes>,
    /// The wall-clock time. A new schedule counts from it on: earlier occurrences are not caught up.
    pub now: Timestamp,
}

/// A filter for reminders. A reminder must match all fields that are set.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ReminderFilter {
    /// Reminders of this tenant.
    pub tenant: Option<TenantId>,
    /// Reminders in this state.
    pub state: Option<ReminderStateName>,
    /// Reminders with this reference. Together with a tenant it uses an index; without one it is a scan.
    pub reference: Option<String>,
}
