//! Implements [`ReminderStore`].

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::reminder::{Decision, DueReminder};
use breakerbox_storage::{AppliedDecisions, ApplyError, QueueError, ReminderStore};
use tokio::sync::oneshot;

use super::batcher::{Handed, received};
use super::fresh::{Reserved, on_caller_gone};
use super::queue::PostgresQueue;
use super::reminders::{due, unreadable};

#[async_trait]
impl ReminderStore for PostgresQueue {
    async fn next_check_at(&self) -> Result<Option<Timestamp>, QueueError> {
        due::next(self.database()).await
    }

    async fn due_reminders(&self, until: Timestamp, limit: usize) -> Result<Vec<DueReminder>, QueueError> {
        loop {
            let due = due::until(self.database(), until, limit).await?;
            if due.unreadable.is_empty() {
                return Ok(due.readable);
            }
            unreadable::stop_all(self.database(), &due.unreadable, &**self.routes()).await?;
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
        let (caller, answer) = oneshot::channel();
        let (applier, abandoned) = (self.applier(), self.abandoned().clone());
        // A task of its own: dropping the caller's future does not undo it halfway.
        tokio::spawn(async move {
            let applied = applier.apply(&decisions).await.map(|(applied, reserved)| {
                Handed::with(applied, reserved, Reserved::keep, move |applied: AppliedDecisions, reserved| {
                    on_caller_gone(&abandoned, &applied.taken, applied.woken, reserved);
                })
            });
            // The caller may be gone.
            let _ = caller.send(applied);
        });
        received(answer).await
    }
}
