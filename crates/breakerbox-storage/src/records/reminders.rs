//! Reminders, as people create, see and change them.

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{
    Reminder, ReminderId, ReminderSettings, ReminderStateName, Revision, Run, TenantId,
};
use bytes::Bytes;

use super::{Edit, Page, PageOf, QueueError, RecordsError};

/// Reminders.
#[async_trait]
pub trait Reminders: Send + Sync + 'static {
    /// Creates one.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing) tenant, [`Exists`](RecordsError::Exists) by its reference,
    /// [`RemindersFull`](RecordsError::RemindersFull), [`Url`](RecordsError::Url), or the database fails.
    async fn create_reminder(&self, new: NewReminder) -> Result<Reminder, RecordsError>;

    /// Creates several, all or none.
    ///
    /// # Errors
    /// [`OneOf`](RecordsError::OneOf) them, and what is wrong with it; or the database fails.
    async fn create_reminders(&self, new: Vec<NewReminder>) -> Result<Vec<Reminder>, RecordsError>;

    /// Shows one.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn reminder(&self, id: ReminderId) -> Result<Reminder, RecordsError>;

    /// What it sends.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn reminder_payload(&self, id: ReminderId) -> Result<Bytes, RecordsError>;

    /// Reminders, the newest first.
    ///
    /// # Errors
    /// If the cursor is none, or the database fails.
    async fn reminders(&self, filter: &ReminderFilter, page: &PageOf)
    -> Result<Page<Reminder>, RecordsError>;

    /// Changes one that has not ended, if it is still as it was seen. A run that waits goes on with what holds then; one that is
    /// in flight ends with what it began with.
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

    /// The same with a change that is made from the stored reminder.
    ///
    /// # Errors
    /// As [`change_reminder`](Self::change_reminder), and [`Refused`](RecordsError::Refused).
    async fn edit_reminder(
        &self,
        id: ReminderId,
        edit: Edit<Reminder, ReminderChange>,
        seen: Option<Revision>,
    ) -> Result<Reminder, RecordsError>;

    /// Pauses an active one. A run that waits is withdrawn, as if it had not been fired; one that is in flight ends, and is not
    /// tried again.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`ReminderState`](RecordsError::ReminderState), or the database fails.
    async fn pause_reminder(&self, id: ReminderId) -> Result<Reminder, RecordsError>;

    /// Lets one go on that is paused or stopped. Occurrences of the meantime are skipped, except that of a one-off.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`ReminderState`](RecordsError::ReminderState), or the database fails.
    async fn resume_reminder(&self, id: ReminderId) -> Result<Reminder, RecordsError>;

    /// Cancels one for good. A run that waits is cancelled; one that is in flight ends, and is not tried again.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`ReminderState`](RecordsError::ReminderState), or the database fails.
    async fn cancel_reminder(&self, id: ReminderId) -> Result<Reminder, RecordsError>;

    /// Fires a run now, besides the schedule, whatever the state unless it is cancelled. A run that waits is due at once
    /// instead.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`ReminderState`](RecordsError::ReminderState), or the database fails.
    async fn run_reminder(&self, id: ReminderId) -> Result<Reminder, RecordsError>;

    /// The runs of one, the newest first, as long as finished work is kept.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), a cursor that is none, or the database fails.
    async fn runs(&self, id: ReminderId, page: &PageOf) -> Result<Page<Run>, RecordsError>;

    /// Forgets reminders that ended before then, a bounded number. Answers how many. Their runs go with finished work.
    ///
    /// # Errors
    /// If the database fails.
    async fn prune_reminders(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError>;
}

/// A reminder to create.
#[derive(Clone, PartialEq, Debug)]
pub struct NewReminder {
    /// Whose.
    pub tenant: TenantId,
    /// What can be changed later.
    pub settings: ReminderSettings,
    /// What is sent.
    pub payload: Bytes,
}

/// What to change of a reminder.
#[derive(Clone, PartialEq, Debug)]
pub struct ReminderChange {
    /// All of its settings, the changed ones among them.
    pub settings: ReminderSettings,
    /// What is sent from now on; none: as before.
    pub payload: Option<Bytes>,
    /// By the wall clock. If the schedule is another one, it counts from now on: nothing of before is made up for.
    pub now: Timestamp,
}

/// Which reminders.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ReminderFilter {
    /// Of this tenant.
    pub tenant: Option<TenantId>,
    /// In this state.
    pub state: Option<ReminderStateName>,
    /// With this reference. It is found at once among a tenant's, and by looking through them among all.
    pub reference: Option<String>,
}
