//! Reminders in their table.
//!
//! | part | task |
//! | --- | --- |
//! | `kept` | the form of a reminder in its row |
//! | `look` | finds the reminders that are to be checked |
//! | `steps` | carries out decisions about them: fires runs, stops, finishes |
//! | `prune` | deletes those that have ended |
//! | `runs` | the effect of the end of a run on its reminder; withdraws one |
//! | `totals` | the number of reminders of a tenant |
//! | `unreadable` | stops those whose row can't be read |
//!
//! The operations of the API on reminders are in [`records`](super::records).

pub(super) mod kept;
pub(super) mod look;
pub(super) mod prune;
pub(super) mod runs;
mod steps;
pub(super) mod totals;
pub(super) mod unreadable;

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::reminder::{Decided, Looked};
use breakerbox_storage::{Calendar, QueueError, StepError, Stepped};
use rusqlite::Connection;

use self::steps::TakeSteps;
use self::unreadable::StopUnreadable;
use super::line::Urgency;
use super::queue::SqliteQueue;
use crate::error::JobError;

#[async_trait]
impl Calendar for SqliteQueue {
    async fn next_look(&self) -> Result<Option<Timestamp>, QueueError> {
        self.database().read(|connection| Ok(look::next(connection)?)).await
    }

    async fn to_look_at(&self, until: Timestamp, limit: usize) -> Result<Vec<Looked>, QueueError> {
        loop {
            let look = move |connection: &Connection| {
                Ok::<_, JobError<QueueError>>(look::until(connection, until, limit)?)
            };
            let due = self.database().read(look).await?;
            if due.unreadable.is_empty() {
                return Ok(due.readable);
            }
            let (routes, _, _) = self.shared();
            let stop = StopUnreadable { reminders: due.unreadable, routes };
            self.database().request(stop, Urgency::Urgent).await?;
            // Behind those that can't be read there may be others that are due.
            if !due.readable.is_empty() {
                return Ok(due.readable);
            }
        }
    }

    async fn take_steps(&self, steps: Vec<Decided>) -> Result<Stepped, StepError> {
        if steps.is_empty() {
            return Ok(Stepped::default());
        }
        let (routes, hand_over, unheard) = self.shared();
        let take = TakeSteps { steps, routes, hand_over, reserved: Vec::new(), unheard };
        self.database().request(take, Urgency::Urgent).await?
    }
}
