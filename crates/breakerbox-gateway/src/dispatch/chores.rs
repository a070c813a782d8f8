//! The few things of the records that dispatch needs.

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{DisabledBecause, EndpointId};
use breakerbox_storage::records::{Endpoints, History, RecordsError, Reminders, Resends};
use breakerbox_storage::{Batch, QueueError};

/// What dispatch has others write down.
#[async_trait]
pub trait Chores: Send + Sync + 'static {
    /// An endpoint answered that it is gone: it is disabled.
    ///
    /// # Errors
    /// If that can't be written.
    async fn endpoint_is_gone(&self, id: EndpointId) -> Result<(), RecordsError>;

    /// Cancels waiting deliveries of deleted endpoints, a bounded number.
    ///
    /// # Errors
    /// If the database fails.
    async fn cancel_orphans(&self, limit: usize) -> Result<Batch, QueueError>;

    /// Makes a bounded number of deliveries wait again that a resend is about.
    ///
    /// # Errors
    /// If the database fails.
    async fn step_resends(&self, limit: usize) -> Result<Batch, QueueError>;

    /// Forgets what happened to circuits before then, a bounded number of changes.
    ///
    /// # Errors
    /// If the database fails.
    async fn prune_history(&self, before: Timestamp, limit: usize) -> Result<Batch, QueueError>;

    /// Forgets reminders that ended before then, a bounded number.
    ///
    /// # Errors
    /// If the database fails.
    async fn prune_reminders(&self, before: Timestamp, limit: usize) -> Result<Batch, QueueError>;
}

#[async_trait]
impl<R: Endpoints + History + Reminders + Resends> Chores for R {
    async fn endpoint_is_gone(&self, id: EndpointId) -> Result<(), RecordsError> {
        self.set_endpoint_disabled(id, Some(DisabledBecause::Gone)).await.map(drop)
    }

    async fn cancel_orphans(&self, limit: usize) -> Result<Batch, QueueError> {
        Endpoints::cancel_orphans(self, limit).await
    }

    async fn step_resends(&self, limit: usize) -> Result<Batch, QueueError> {
        Resends::step_resends(self, limit).await
    }

    async fn prune_history(&self, before: Timestamp, limit: usize) -> Result<Batch, QueueError> {
        Ok(deleted(History::prune_history(self, before, limit).await?, limit))
    }

    async fn prune_reminders(&self, before: Timestamp, limit: usize) -> Result<Batch, QueueError> {
        Ok(deleted(Reminders::prune_reminders(self, before, limit).await?, limit))
    }
}

/// So many rows were deleted; if it was as many as might be, there are more.
fn deleted(done: u64, limit: usize) -> Batch {
    Batch { done, woken: Vec::new(), more: done >= limit as u64 }
}
