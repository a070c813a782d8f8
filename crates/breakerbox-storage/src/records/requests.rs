//! Idempotent requests: each is carried out once, even if a client retries it.
//!
//! The response to a request with an idempotency key is stored for 24 hours, in the same transaction that carries out
//! the request. Keys are unique within a tenant. A retry creates nothing, and returns the stored response. A response
//! that contains a secret is not stored; a retry is then rejected with the id of the created object.

use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::objects::{
    ApiKey, Endpoint, EndpointId, IdempotencyKey, Reminder, ReminderId, Resend, Revision, Secret, Tenant,
    TenantId,
};
use bytes::Bytes;

use super::{NewApiKey, NewEndpoint, NewReminder, NewResend, NewTenant, RecordsError};

/// A client's request that creates a `T`, with its idempotency key.
pub struct Request<T> {
    /// The idempotency key, which identifies retries. `None`: every request is carried out.
    pub key: Option<IdempotencyKey>,
    /// The tenant within which the key is unique. `None`: the request is the operator's.
    pub scope: Option<TenantId>,
    /// Builds the response from the created object. With a key, it runs in the transaction, so it must be fast.
    pub respond: Box<dyn FnOnce(&T) -> RequestResponse + Send>,
}

/// The HTTP response to a request, as it is stored.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestResponse {
    /// The id of the created object.
    pub created: String,
    /// The response's HTTP status.
    pub status: u16,
    /// The created object's revision, for the `etag` header. `None`: the object has no revision.
    pub revision: Option<Revision>,
    /// The response body, as JSON.
    pub body: Bytes,
    /// Whether the body contains a secret. If so, it is not stored.
    pub has_secret: bool,
}

/// The response to a request, and whether it was stored by an earlier request with the same key.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestResult {
    /// The new or stored response.
    pub response: RequestResponse,
    /// Whether the request was already carried out. If so, nothing was created now.
    pub repeated: bool,
}

/// All operations that create objects for a client, with idempotency keys.
///
/// Each method does the same as the method that it refers to. In addition to that method's errors, it returns
/// [`KeyReused`](RecordsError::KeyReused) and [`AlreadyCreated`](RecordsError::AlreadyCreated).
#[async_trait]
pub trait Requests: Send + Sync + 'static {
    /// Idempotent [`create_tenant`](super::Tenants::create_tenant).
    async fn create_tenant_for(
        &self,
        request: Request<Tenant>,
        new: NewTenant,
    ) -> Result<RequestResult, RecordsError>;

    /// Idempotent [`create_endpoint`](super::Endpoints::create_endpoint).
    async fn create_endpoint_for(
        &self,
        request: Request<Endpoint>,
        new: NewEndpoint,
    ) -> Result<RequestResult, RecordsError>;

    /// Idempotent [`create_api_key`](super::ApiKeys::create_api_key).
    async fn create_api_key_for(
        &self,
        request: Request<ApiKey>,
        new: NewApiKey,
    ) -> Result<RequestResult, RecordsError>;

    /// Idempotent [`create_reminder`](super::Reminders::create_reminder).
    async fn create_reminder_for(
        &self,
        request: Request<Reminder>,
        new: NewReminder,
    ) -> Result<RequestResult, RecordsError>;

    /// Idempotent [`create_reminders`](super::Reminders::create_reminders).
    async fn create_reminders_for(
        &self,
        request: Request<Vec<Reminder>>,
        new: Vec<NewReminder>,
    ) -> Result<RequestResult, RecordsError>;

    /// Idempotent [`run_reminder`](super::Reminders::run_reminder), which creates a run.
    async fn run_reminder_for(
        &self,
        request: Request<Reminder>,
        id: ReminderId,
    ) -> Result<RequestResult, RecordsError>;

    /// Idempotent [`create_resend`](super::Resends::create_resend).
    async fn create_resend_for(
        &self,
        request: Request<Resend>,
        new: NewResend,
    ) -> Result<RequestResult, RecordsError>;

    /// Idempotent [`rotate_tenant_secret`](super::Tenants::rotate_tenant_secret).
    async fn rotate_tenant_secret_for(
        &self,
        request: Request<Tenant>,
        id: &TenantId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<RequestResult, RecordsError>;

    /// Idempotent [`rotate_endpoint_secret`](super::Endpoints::rotate_endpoint_secret).
    async fn rotate_endpoint_secret_for(
        &self,
        request: Request<Endpoint>,
        id: EndpointId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<RequestResult, RecordsError>;
}
