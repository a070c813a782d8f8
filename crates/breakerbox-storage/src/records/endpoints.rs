//! Operations on endpoints.

use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::objects::{
    DisabledBecause, Endpoint, EndpointId, EndpointSettings, Revision, Secret, TenantId,
};

use super::{Edit, Page, PageOf, RecordsError};
use crate::{BatchResult, QueueError};

/// The input for creating an endpoint.
#[derive(Clone, PartialEq, Debug)]
pub struct NewEndpoint {
    /// The tenant that the endpoint belongs to.
    pub tenant: TenantId,
    /// The initial settings.
    pub settings: EndpointSettings,
    /// The secret that signs the endpoint's requests. `None`: a new random secret.
    pub secret: Option<Secret>,
    /// Whether the endpoint is initially disabled.
    pub disabled: bool,
}

/// The result of deleting an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deleted {
    /// The number of waiting deliveries, which are being cancelled. Requests in flight end normally, but are not
    /// retried.
    pub cancelled: u64,
}

/// Operations on endpoints.
#[async_trait]
pub trait Endpoints: Send + Sync + 'static {
    /// Creates an endpoint. The endpoint receives events that are accepted after its creation.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the tenant does not exist, [`Url`](RecordsError::Url) or
    /// [`Policy`](RecordsError::Policy) if that setting is invalid,
    /// [`EndpointsFull`](RecordsError::EndpointsFull) if the tenant has reached its limit, or a database
    /// error.
    async fn create_endpoint(&self, new: NewEndpoint) -> Result<Endpoint, RecordsError>;

    /// Returns the endpoint with this id, with its secrets.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn endpoint(&self, id: EndpointId) -> Result<Endpoint, RecordsError>;

    /// Lists endpoints, newest first: those of one tenant, or all.
    ///
    /// # Errors
    /// Returns an error if the cursor is invalid or the database fails.
    async fn endpoints(
        &self,
        tenant: Option<&TenantId>,
        page: &PageOf,
    ) -> Result<Page<Endpoint>, RecordsError>;

    /// Changes an endpoint's settings. If `seen` is set, the endpoint must still have that revision. Waiting
    /// deliveries are sent to the new URL.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, [`Changed`](RecordsError::Changed) if
    /// the revision is not `seen`, [`Url`](RecordsError::Url) or [`Policy`](RecordsError::Policy) if that
    /// setting is invalid, or a database error.
    async fn change_endpoint(
        &self,
        id: EndpointId,
        settings: EndpointSettings,
        seen: Option<Revision>,
    ) -> Result<Endpoint, RecordsError> {
        self.edit_endpoint(id, Box::new(|_| Ok(settings)), seen).await
    }

    /// Changes an endpoint like [`change_endpoint`](Self::change_endpoint), with settings computed from the stored
    /// endpoint.
    ///
    /// # Errors
    /// The same as for [`change_endpoint`](Self::change_endpoint), and [`Refused`](RecordsError::Refused) if
    /// the edit rejects the stored endpoint.
    async fn edit_endpoint(
        &self,
        id: EndpointId,
        edit: Edit<Endpoint, EndpointSettings>,
        seen: Option<Revision>,
    ) -> Result<Endpoint, RecordsError>;

    /// Enables an endpoint, or disables it for this reason. While an endpoint is disabled, its deliveries are parked.
    /// They are sent once it is enabled. [`DisabledBecause::Circuit`] is stored as [`Owner`](DisabledBecause::Owner),
    /// because a circuit's state is stored with the circuit.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn set_endpoint_disabled(
        &self,
        id: EndpointId,
        disabled: Option<DisabledBecause>,
    ) -> Result<Endpoint, RecordsError>;

    /// Deletes an endpoint. Its waiting deliveries are no longer sent. They are not cancelled by this call, which would
    /// take long if there are many, but later by [`cancel_orphans`](Self::cancel_orphans).
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, [`Changed`](RecordsError::Changed) if
    /// the revision is not `seen`, or a database error.
    async fn delete_endpoint(&self, id: EndpointId, seen: Option<Revision>) -> Result<Deleted, RecordsError>;

    /// Cancels up to `limit` waiting deliveries of deleted endpoints. Call this again while [`BatchResult::more`] is
    /// set.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn cancel_orphans(&self, limit: usize) -> Result<BatchResult, QueueError>;

    /// Rotates the endpoint's signing secret. Requests are signed with the new secret and, during the overlap, also
    /// with the previous one.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn rotate_endpoint_secret(
        &self,
        id: EndpointId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<Endpoint, RecordsError>;

    /// Ends a rotation: only the newest secret remains valid.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn end_endpoint_rotation(&self, id: EndpointId) -> Result<Endpoint, RecordsError>;
}
