//! Resends by filter: background jobs that continue after a restart, in small steps, so that they hardly affect live
//! traffic.

use async_trait::async_trait;
use breakerbox_model::objects::{ApiKeyId, DeliveryFilter, JobId, Resend, TenantId};

use super::{Page, PageOf, RecordsError};
use crate::{BatchResult, QueueError};

/// A resend to create.
#[derive(Clone, PartialEq, Debug)]
pub struct NewResend {
    /// The deliveries to resend. Without a state: those that failed. Only finished ones can be resent.
    pub filter: DeliveryFilter,
    /// The API key that creates the job.
    pub by: Option<ApiKeyId>,
}

/// Resends by filter.
#[async_trait]
pub trait Resends: Send + Sync + 'static {
    /// Creates a job. Nothing is resent yet.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing) tenant, endpoint or event, or the database fails.
    async fn create_resend(&self, new: NewResend) -> Result<Resend, RecordsError>;

    /// Returns a job.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn resend(&self, id: JobId) -> Result<Resend, RecordsError>;

    /// Lists jobs, the newest first: all, or those whose filter names this tenant.
    ///
    /// # Errors
    /// If the cursor is invalid, or the database fails.
    async fn resends(&self, tenant: Option<&TenantId>, page: &PageOf) -> Result<Page<Resend>, RecordsError>;

    /// Cancels a job. Deliveries that it has made pending stay pending. A finished job is not changed.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn cancel_resend(&self, id: JobId) -> Result<Resend, RecordsError>;

    /// Makes deliveries of the next job pending again, at most `limit` and at the lowest priority. The running jobs
    /// take turns; one whose tenant's backlog is full is skipped. Deliveries and progress are one transaction, so a
    /// crash resends nothing twice. The caller repeats it at a paced rate; `more` is set if some job may not be done.
    /// Only the result contains the lanes that it woke; no watcher is notified of them.
    ///
    /// # Errors
    /// If the database fails; nothing was resent.
    async fn step_resends(&self, limit: usize) -> Result<BatchResult, QueueError>;
}
