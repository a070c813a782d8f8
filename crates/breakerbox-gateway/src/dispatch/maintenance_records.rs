//! The record writes that dispatch needs.

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{DisabledBecause, EndpointId};
use breakerbox_storage::records::{Endpoints, History, RecordsError, Reminders, Resends};
use breakerbox_storage::{BatchResult, QueueError};

/// The writes that dispatch makes outside the queue, such as disabling an endpoint or deleting old history.
#[async_trait]
pub trait MaintenanceRecords: Send + Sync + 'static {
    /// Disables an endpoint whose receiver responded with 410 Gone.
    ///
    /// # Errors
    /// Returns an error if the change can't be written.
    async fn endpoint_is_gone(&self, id: EndpointId) -> Result<(), RecordsError>;

    /// Cancels pending and retrying deliveries of deleted endpoints, at most `limit`.
    ///
    /// # Errors
    /// Returns a database error.
    async fn cancel_orphans(&self, limit: usize) -> Result<BatchResult, QueueError>;

    /// Makes deliveries of the current resend jobs pending again, at most `limit`.
    ///
    /// # Errors
    /// Returns a database error.
    async fn step_resends(&self, limit: usize) -> Result<BatchResult, QueueError>;

    /// Deletes circuit history older than `before`, at most `limit` changes.
    ///
    /// # Errors
    /// Returns a database error.
    async fn prune_history(&self, before: Timestamp, limit: usize) -> Result<BatchResult, QueueError>;

    /// Deletes reminders that ended before this time, at most `limit`.
    ///
    /// # Errors
    /// Returns a database error.
    async fn prune_reminders(&self, before: Timestamp, limit: usize) -> Result<BatchResult, QueueError>;
}

#[async_trait]
impl<R: Endpoints + History + Reminders + Resends> MaintenanceRecords for R {
    async fn endpoint_is_gone(&self, id: EndpointId) -> Result<(), RecordsError> {
        self.set_endpoint_disabled(id, Some(DisabledBecause::Gone)).await.map(drop)
    }

    async fn cancel_orphans(&self, limit: usize) -> Result<BatchResult, QueueError> {
        Endpoints::cancel_orphans(self, limit).await
    }

    async fn step_resends(&self, limit: usize) -> Result<BatchResult, QueueError> {
        Resends::step_resends(self, limit).await
    }

    async fn prune_history(&self, before: Timestamp, limit: usize) -> Result<BatchResult, QueueError> {
        Ok(deleted(History::prune_history(self, before, limit).await?, limit))
    }

    async fn prune_reminders(&self, before: Timestamp, limit: usize) -> Result<BatchResult, QueueError> {
        Ok(deleted(Reminders::prune_reminders(self, before, limit).await?, limit))
    }
}

/// Returns the number of deleted rows, and whether there may be more rows to delete, because the limit was reached.
fn deleted(done: u64, limit: usize) -> BatchResult {
    BatchResult { done, woken: Vec::new(), more: done >= limit as u64 }
}
