//! The few things of the records that dispatch needs.

use async_trait::async_trait;

use crate::objects::{DisabledBecause, EndpointId};
use crate::queue::records::{Endpoints, RecordsError, Resends};
use crate::queue::{Batch, QueueError};

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
}

#[async_trait]
impl<R: Endpoints + Resends> Chores for R {
    async fn endpoint_is_gone(&self, id: EndpointId) -> Result<(), RecordsError> {
        self.set_endpoint_disabled(id, Some(DisabledBecause::Gone)).await.map(drop)
    }

    async fn cancel_orphans(&self, limit: usize) -> Result<Batch, QueueError> {
        Endpoints::cancel_orphans(self, limit).await
    }

    async fn step_resends(&self, limit: usize) -> Result<Batch, QueueError> {
        Resends::step_resends(self, limit).await
    }
}
