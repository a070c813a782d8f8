//! Resends by filter: background jobs that proceed in small steps, so that they hardly affect live traffic, and
//! continue after a restart.

use async_trait::async_trait;
use breakerbox_model::objects::{ApiKeyId, DeliveryFilter, JobId, Resend, TenantId};

use super::{Page, PageOf, RecordsError};
use crate::{BatchResult, QueueError};

/// The input for creating a resend job.
#[derive(Clone, PartialEq, Debug)]
pub struct NewResend {
    /// Which deliveries to resend. If the filter sets no state, failed deliveries are resent. Only finished
    /// deliveries can be resent.
    pub filter: DeliveryFilter,
    /// The API key that creates the job, if any.
    pub by: Option<ApiKeyId>,
}

/// Operations on resend jobs.
#[async_trait]
pub trait Resends: Send + Sync + 'static {
    /// Creates a resend job. Nothing is resent yet.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the filter's tenant, endpoint or event does not exist, or a
    /// database error.
    async fn create_resend(&self, new: NewResend) -> Result<Resend, RecordsError>;

    /// Returns the resend job with this id.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn resend(&self, id: JobId) -> Result<Resend, RecordsError>;

    /// Lists resend jobs, newest first: those whose filter names this tenant, or all.
    ///
    /// # Errors
    /// Returns an error if the cursor is invalid or the database fails.
    async fn resends(&self, tenant: Option<&TenantId>, page: &PageOf) -> Result<Page<Resend>, RecordsError>;

    /// Cancels a resend job. Deliveries that it has already made pending stay pending. A finished job is not changed.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn cancel_resend(&self, id: JobId) -> Result<Resend, RecordsError>;

    /// Makes up to `limit` deliveries of the next job pending again, at the lowest priority. Running jobs take turns;
    /// a job whose tenant's backlog is full is skipped. Deliveries and progress are written in one transaction, so a
    /// crash resends nothing twice. Call this repeatedly, at a limited rate, while [`BatchResult::more`] is set. The
    /// woken lanes are only returned; watchers are not notified.
    ///
    /// # Errors
    /// Returns an error if the database fails. In that case, nothing was resent.
    async fn step_resends(&self, limit: usize) -> Result<BatchResult, QueueError>;
}
