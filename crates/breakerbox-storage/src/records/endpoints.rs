//! Operations on endpoints.

use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::objects::{
    Backlog, DisabledBecause, Endpoint, EndpointId, EndpointSettings, Revision, Secret, TenantId,
};

use super::{Edit, Page, PageOf, RecordsError};
use crate::{BatchResult, QueueError};

/// An endpoint to create.
#[derive(Clone, PartialEq, Debug)]
pub struct NewEndpoint {
    /// The tenant that the endpoint belongs to.
    pub tenant: TenantId,
    /// The settings, which can be changed later.
    pub settings: EndpointSettings,
    /// The secret with which its requests are signed. `None`: a new random one.
    pub secret: Option<Secret>,
    /// Whether it is disabled from the start.
    pub disabled: bool,
}

/// The result of deleting an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deleted {
    /// The number of deliveries that waited and are cancelled. Those in flight end normally; none of them is retried.
    pub cancelled: u64,
}

/// Operations on endpoints.
#[async_trait]
pub trait Endpoints: Send + Sync + 'static {
    /// Creates an endpoint. Events that are accepted from now on are sent there.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing) tenant, [`Url`](RecordsError::Url), [`Policy`](RecordsError::Policy), or the
    /// database fails.
    async fn create_endpoint(&self, new: NewEndpoint) -> Result<Endpoint, RecordsError>;

    /// Returns an endpoint, with its secrets.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn endpoint(&self, id: EndpointId) -> Result<Endpoint, RecordsError>;

    /// Lists the endpoints of a tenant or of all, the newest first.
    ///
    /// # Errors
    /// If the cursor is invalid, or the database fails.
    async fn endpoints(
        &self,
        tenant: Option<&TenantId>,
        page: &PageOf,
    ) -> Result<Page<Endpoint>, RecordsError>;

    /// Changes an endpoint, if its revision is still the given one; without a revision, in any case. Waiting deliveries
    /// are sent to the new URL.
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

    /// Changes an endpoint like [`change_endpoint`](Self::change_endpoint), with an edit of the stored settings.
    ///
    /// # Errors
    /// As [`change_endpoint`](Self::change_endpoint), and [`Refused`](RecordsError::Refused).
    async fn edit_endpoint(
        &self,
        id: EndpointId,
        edit: Edit<Endpoint, EndpointSettings>,
        seen: Option<Revision>,
    ) -> Result<Endpoint, RecordsError>;

    /// Enables an endpoint, or disables it for this reason. Waiting deliveries stay parked, and drain after enabling. A
    /// disabled circuit is stored with the circuit: [`DisabledBecause::Circuit`] is stored as
    /// [`Owner`](DisabledBecause::Owner).
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn set_endpoint_disabled(
        &self,
        id: EndpointId,
        disabled: Option<DisabledBecause>,
    ) -> Result<Endpoint, RecordsError>;

    /// Deletes an endpoint and cancels its waiting deliveries. It returns at once, however many wait:
    /// [`cancel_orphans`](Self::cancel_orphans) cancels the rest, and none of them is sent meanwhile.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`Changed`](RecordsError::Changed), or the database fails.
    async fn delete_endpoint(&self, id: EndpointId, seen: Option<Revision>) -> Result<Deleted, RecordsError>;

    /// Cancels waiting deliveries of deleted endpoints, a bounded number. The caller repeats it.
    ///
    /// # Errors
    /// If the database fails.
    async fn cancel_orphans(&self, limit: usize) -> Result<BatchResult, QueueError>;

    /// Rotates the signing secret: requests are signed with this one from now on, and for the overlap with the previous
    /// one too.
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

    /// Returns the deliveries of an endpoint that wait or are in flight. The counts are maintained, so this is cheap.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn endpoint_backlog(&self, id: EndpointId) -> Result<Backlog, RecordsError>;
}
