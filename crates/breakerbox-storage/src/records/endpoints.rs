//! Endpoints, as they are kept.

use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::objects::{
    Backlog, DisabledBecause, Endpoint, EndpointId, EndpointSettings, Revision, Secret, TenantId,
};

use super::{Edit, Page, PageOf, RecordsError};
use crate::{Batch, QueueError};

/// An endpoint that is created.
#[derive(Clone, PartialEq, Debug)]
pub struct NewEndpoint {
    /// Whose.
    pub tenant: TenantId,
    /// What it is.
    pub settings: EndpointSettings,
    /// With which its requests are signed; none: a new one.
    pub secret: Option<Secret>,
    /// Whether it begins disabled.
    pub disabled: bool,
}

/// An endpoint that was deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deleted {
    /// How many deliveries waited, and are cancelled. Those in flight end as they end; none of them is tried again.
    pub cancelled: u64,
}

/// Endpoints, as they are kept.
#[async_trait]
pub trait Endpoints: Send + Sync + 'static {
    /// Creates an endpoint. Events that are accepted from now on go there.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing) tenant, [`Url`](RecordsError::Url), [`Policy`](RecordsError::Policy), or the
    /// database fails.
    async fn create_endpoint(&self, new: NewEndpoint) -> Result<Endpoint, RecordsError>;

    /// An endpoint, with its secrets.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn endpoint(&self, id: EndpointId) -> Result<Endpoint, RecordsError>;

    /// Endpoints of a tenant or of all, the newest first.
    ///
    /// # Errors
    /// If the cursor is none, or the database fails.
    async fn endpoints(
        &self,
        tenant: Option<&TenantId>,
        page: &PageOf,
    ) -> Result<Page<Endpoint>, RecordsError>;

    /// Changes an endpoint, if it is still as it was seen; without a revision, whatever it is. What waits goes to the new URL.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`Changed`](RecordsError::Changed), [`Url`](RecordsError::Url),
    /// [`Policy`](RecordsError::Policy), or the database fails.
    async fn change_endpoint(
        &self,
        id: EndpointId,
        settings: EndpointSettings,
        seen: Option<Revision>,
    ) -> Result<Endpoint, RecordsError> {
        self.edit_endpoint(id, Box::new(|_| Ok(settings)), seen).await
    }

    /// The same with settings that are made from the stored ones.
    ///
    /// # Errors
    /// As [`change_endpoint`](Self::change_endpoint), and [`Refused`](RecordsError::Refused).
    async fn edit_endpoint(
        &self,
        id: EndpointId,
        edit: Edit<Endpoint, EndpointSettings>,
        seen: Option<Revision>,
    ) -> Result<Endpoint, RecordsError>;

    /// Enables an endpoint, or disables it for this reason. What waits stays parked, and drains after enabling. A disabled
    /// circuit is the circuit's: [`DisabledBecause::Circuit`] is kept as [`Owner`](DisabledBecause::Owner).
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn set_endpoint_disabled(
        &self,
        id: EndpointId,
        disabled: Option<DisabledBecause>,
    ) -> Result<Endpoint, RecordsError>;

    /// Deletes an endpoint and cancels what waits for it. The answer comes at once, however much waits: what is left is
    /// cancelled by [`cancel_orphans`](Self::cancel_orphans), and nothing of it is sent meanwhile.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`Changed`](RecordsError::Changed), or the database fails.
    async fn delete_endpoint(&self, id: EndpointId, seen: Option<Revision>) -> Result<Deleted, RecordsError>;

    /// Cancels waiting deliveries of endpoints that were deleted, a bounded number. For a loop.
    ///
    /// # Errors
    /// If the database fails.
    async fn cancel_orphans(&self, limit: usize) -> Result<Batch, QueueError>;

    /// Signs with this secret from now on, and for the overlap with the one before too.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn rotate_endpoint_secret(
        &self,
        id: EndpointId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<Endpoint, RecordsError>;

    /// Ends a rotation: only the newest secret stays.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn end_endpoint_rotation(&self, id: EndpointId) -> Result<Endpoint, RecordsError>;

    /// How much of an endpoint's work waits or is in flight. Counted all along.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn endpoint_backlog(&self, id: EndpointId) -> Result<Backlog, RecordsError>;
}
