//! Resends by filter: jobs that go on after a restart, and in small steps, so that live traffic hardly notices.

use async_trait::async_trait;
use breakerbox_model::objects::{ApiKeyId, DeliveryFilter, JobId, Resend, TenantId};

use super::{Page, PageOf, RecordsError};
use crate::{Batch, QueueError};

/// A resend that is created.
#[derive(Clone, PartialEq, Debug)]
pub struct NewResend {
    /// Which deliveries. Without a state: those that failed. Only finished ones can be resent.
    pub filter: DeliveryFilter,
    /// Who asks for it.
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

    /// A job.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn resend(&self, id: JobId) -> Result<Resend, RecordsError>;

    /// Jobs, the newest first: all, or those whose filter names this tenant.
    ///
    /// # Errors
    /// If the cursor is none, or the database fails.
    async fn resends(&self, tenant: Option<&TenantId>, page: &PageOf) -> Result<Page<Resend>, RecordsError>;

    /// Stops a job. What it made wait by then waits. One that is finished stays as it is.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn cancel_resend(&self, id: JobId) -> Result<Resend, RecordsError>;

    /// Makes at most so many deliveries of the job whose turn it is wait again, at the lowest priority. The running jobs take
    /// turns; one whose tenant's backlog is full lets the others pass. Deliveries and progress are one transaction, so a crash
    /// resends nothing twice. For a paced loop; `more` says that some job may not be done. The lanes that it woke are in the
    /// answer, and nobody else is told of them.
    ///
    /// # Errors
    /// If the database fails; nothing was resent.
    async fn step_resends(&self, limit: usize) -> Result<Batch, QueueError>;
}
