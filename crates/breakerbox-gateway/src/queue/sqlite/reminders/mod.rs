//! Reminders in their table.
//!
//! | part | what it does |
//! | --- | --- |
//! | `kept` | how a reminder is kept in its row |
//! | `look` | which reminders are to be looked at |
//! | `steps` | does what was decided about them: fires runs, stops, finishes |
//! | `prune` | forgets those that have ended |
//! | `runs` | what the end of a run means for its reminder; withdraws one |
//! | `totals` | how many reminders a tenant has |
//!
//! What people do to reminders is in [`records`](super::records).

pub(super) mod kept;
pub(super) mod look;
pub(super) mod prune;
pub(super) mod runs;
mod steps;
pub(super) mod totals;

use async_trait::async_trait;
use breakerbox_core::Timestamp;

use self::steps::TakeSteps;
use super::line::Urgency;
use super::queue::SqliteQueue;
use crate::queue::{Calendar, Decided, Looked, QueueError, StepError, Stepped};

#[async_trait]
impl Calendar for SqliteQueue {
    async fn next_look(&self) -> Result<Option<Timestamp>, QueueError> {
        self.database().read(|connection| Ok(look::next(connection)?)).await
    }

    async fn to_look_at(&self, until: Timestamp, limit: usize) -> Result<Vec<Looked>, QueueError> {
        self.database().read(move |connection| Ok(look::until(connection, until, limit)?)).await
    }

    async fn take_steps(&self, steps: Vec<Decided>) -> Result<Stepped, StepError> {
        if steps.is_empty() {
            return Ok(Stepped::default());
        }
        let (routes, hand_over, unheard) = self.shared();
        let take = TakeSteps { steps, routes, hand_over, reserved: Vec::new(), unheard };
        self.database().ask(take, Urgency::Urgent).await?
    }
}
