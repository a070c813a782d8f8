//! Operations on reminders, for the API: create, show, list, change.

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
    /// Returns [`Missing`](RecordsError::Missing) if the tenant does not exist, [`Exists`](RecordsError::Exists) if
    /// the reference is in use, [`RemindersFull`](RecordsError::RemindersFull), [`Url`](RecordsError::Url),
    /// [`DiskReserve`](RecordsError::DiskReserve), or a database error.
    async fn create_reminder(&self, new: NewReminder) -> Result<Reminder, RecordsError>;

    /// Creates several reminders, either all or none.
    ///
    /// # Errors
    /// Returns [`OneOf`](RecordsError::OneOf) with the rejected reminder's error, or a database error.
    async fn create_reminders(&self, new: Vec<NewReminder>) -> Result<Vec<Reminder>, RecordsError>;

    /// Returns the reminder with this id.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn reminder(&self, id: ReminderId) -> Result<Reminder, RecordsError>;

    /// Returns a reminder's payload.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn reminder_payload(&self, id: ReminderId) -> Result<Bytes, RecordsError>;

    /// Lists the reminders that match a filter, newest first.
    ///
    /// # Errors
    /// Returns an error if the cursor is invalid or the database fails.
    async fn reminders(&self, filter: &ReminderFilter, page: &PageOf)
    -> Result<Page<Reminder>, RecordsError>;

    /// Changes an unfinished reminder. If `seen` is set, the reminder must still have that revision. A waiting run
    /// uses the new settings; a run in flight ends with the old ones.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, [`Changed`](RecordsError::Changed) if
    /// the revision is not `seen`, [`Exists`](RecordsError::Exists) if the reference is in use,
    /// [`ReminderState`](RecordsError::ReminderState) if the reminder is finished or cancelled, or a database
    /// error.
    async fn change_reminder(
        &self,
        id: ReminderId,
        change: ReminderChange,
        seen: Option<Revision>,
    ) -> Result<Reminder, RecordsError> {
        self.edit_reminder(id, Box::new(|_| Ok(change)), seen).await
    }

    /// Changes a reminder like [`change_reminder`](Self::change_reminder), with a change computed from the stored
    /// reminder.
    ///
    /// # Errors
    /// The same as for [`change_reminder`](Self::change_reminder), and [`Refused`](RecordsError::Refused) if
    /// the edit rejects the stored reminder.
    async fn edit_reminder(
        &self,
        id: ReminderId,
        edit: Edit<Reminder, ReminderChange>,
        seen: Option<Revision>,
    ) -> Result<Reminder, RecordsError>;

    /// Pauses an active reminder. A waiting run is withdrawn, as if it had not been fired; a run in flight ends
    /// normally, but is not retried.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown,
    /// [`ReminderState`](RecordsError::ReminderState) if the reminder is not active, or a database
    /// error.
    async fn pause_reminder(&self, id: ReminderId) -> Result<Reminder, RecordsError>;

    /// Resumes a paused or stopped reminder. Occurrences during the pause are skipped, unless the reminder runs only
    /// once.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown,
    /// [`ReminderState`](RecordsError::ReminderState) if the reminder is neither paused nor stopped, or a database
    /// error.
    async fn resume_reminder(&self, id: ReminderId) -> Result<Reminder, RecordsError>;

    /// Cancels a reminder permanently. A waiting run is cancelled; a run in flight ends normally, but is not retried.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown,
    /// [`ReminderState`](RecordsError::ReminderState) if the reminder is finished, or a database
    /// error.
    async fn cancel_reminder(&self, id: ReminderId) -> Result<Reminder, RecordsError>;

    /// Fires a run now, in addition to the schedule, unless the reminder is cancelled. If a run is already waiting,
    /// it is made due at once instead.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown,
    /// [`ReminderState`](RecordsError::ReminderState) if the reminder is cancelled, or a database
    /// error.
    async fn run_reminder(&self, id: ReminderId) -> Result<Reminder, RecordsError>;

    /// Lists a reminder's runs, newest first. Runs are kept as long as other finished deliveries.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, [`Cursor`](RecordsError::Cursor) if
    /// the cursor is invalid, or a database error.
    async fn runs(&self, id: ReminderId, page: &PageOf) -> Result<Page<Run>, RecordsError>;

    /// Deletes up to `limit` reminders that ended before this time. Returns the number deleted. Their runs are pruned
    /// with other finished deliveries.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn prune_reminders(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError>;
}

/// The input for creating a reminder.
#[derive(Clone, PartialEq, Debug)]
pub struct NewReminder {
    /// The tenant that the reminder belongs to.
    pub tenant: TenantId,
    /// The initial settings.
    pub settings: ReminderSettings,
    /// The body of the reminder's requests.
    pub payload: Bytes,
}

/// The input for changing a reminder.
#[derive(Clone, PartialEq, Debug)]
pub struct ReminderChange {
    /// The new settings, including unchanged ones.
    pub settings: ReminderSettings,
    /// The new payload. `None`: it stays unchanged.
    pub payload: Option<Bytes>,
    /// The current wall-clock time. A new schedule starts at this time: earlier occurrences are not caught up.
    pub now: Timestamp,
}

/// A filter for reminders. A reminder must match all fields that are set.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ReminderFilter {
    /// Matches only reminders of this tenant.
    pub tenant: Option<TenantId>,
    /// Matches only reminders in this state.
    pub state: Option<ReminderStateName>,
    /// Matches only reminders with this reference. With a tenant, the lookup uses an index; otherwise it is a scan.
    pub reference: Option<String>,
}
