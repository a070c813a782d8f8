//! Implements [`ReminderStore`]: each operation is a job for the writer or for a reader.

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::reminder::{Decision, DueReminder};
use breakerbox_storage::{AppliedDecisions, ApplyError, QueueError, ReminderStore};
use rusqlite::Connection;

use super::queue::SqliteQueue;
use super::reminders::apply::ApplyDecisions;
use super::reminders::due;
use super::reminders::unreadable::StopUnreadable;
use super::write_queue::Urgency;
use crate::error::JobError;

#[async_trait]
impl ReminderStore for SqliteQueue {
    async fn next_check_at(&self) -> Result<Option<Timestamp>, QueueError> {
        self.database().read(|connection| Ok(due::next(connection)?)).await
    }

    async fn due_reminders(&self, until: Timestamp, limit: usize) -> Result<Vec<DueReminder>, QueueError> {
        loop {
            let read = move |connection: &Connection| {
                Ok::<_, JobError<QueueError>>(due::until(connection, until, limit)?)
            };
            let due = self.database().read(read).await?;
            if due.unreadable.is_empty() {
                return Ok(due.readable);
            }
            let stop = StopUnreadable { reminders: due.unreadable, routes: self.routes() };
            self.database().request(stop, Urgency::Urgent).await?;
            // After the unreadable reminders, there may be others that are due.
            if !due.readable.is_empty() {
                return Ok(due.readable);
            }
        }
    }

    async fn apply_decisions(&self, decisions: Vec<Decision>) -> Result<AppliedDecisions, ApplyError> {
        if decisions.is_empty() {
            return Ok(AppliedDecisions::default());
        }
        let (routes, deliveries) = (self.routes(), self.fresh_deliveries());
        let apply = ApplyDecisions { decisions, routes, deliveries };
        self.database().request(apply, Urgency::Urgent).await?
    }
}
