//! Idempotent requests: each is carried out once, however often a client repeats it.
//!
//! A request with an idempotency key is stored in the transaction that carries it out, for 24 hours, within its tenant.
//! A repetition creates nothing: it gets the stored response. A response that holds a secret is not stored; then the
//! repetition is refused with the id of the created object.

use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::objects::{
    ApiKey, Endpoint, EndpointId, IdempotencyKey, Reminder, ReminderId, Resend, Revision, Secret, Tenant,
    TenantId,
};
use bytes::Bytes;

use super::{NewApiKey, NewEndpoint, NewReminder, NewResend, NewTenant, RecordsError};

/// A request that creates a `T`.
pub struct Request<T> {
    /// The key by which a repetition is recognized. `None`: every request is a new one.
    pub key: Option<IdempotencyKey>,
    /// The tenant within which the key is unique. `None`: the requests of the operator.
    pub scope: Option<TenantId>,
    /// Builds the response. With a key it runs in the transaction, so it must be quick.
    pub respond: Box<dyn FnOnce(&T) -> RequestResponse + Send>,
}

/// The response to a request.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestResponse {
    /// The id of the created object.
    pub created: String,
    /// The HTTP status.
    pub status: u16,
    /// The revision, for the `etag` header.
    pub revision: Option<Revision>,
    /// The body, as JSON.
    pub body: Bytes,
    /// Whether the body holds a secret. If so, it is not stored.
    pub has_secret: bool,
}

/// The response to a request, and whether it is that of an earlier request with the same key.
#[derive(Clone, PartialEq, Debug)]
pub struct RequestResult {
    /// The response.
    pub response: RequestResponse,
    /// Whether the request was carried out before. If so, nothing was created now.
    pub repeated: bool,
}

/// All operations that create something for a client.
///
/// Each method does the same as the method of the same name that takes no request. Besides its errors it has
/// [`KeyReused`](RecordsError::KeyReused) and [`AlreadyCreated`](RecordsError::AlreadyCreated).
#[async_trait]
pub trait Requests: Send + Sync + 'static {
    /// As [`create_tenant`](super::Tenants::create_tenant).
    async fn create_tenant_for(
        &self,
        request: Request<Tenant>,
        new: NewTenant,
    ) -> Result<RequestResult, RecordsError>;

    /// As [`create_endpoint`](super::Endpoints::create_endpoint).
    async fn create_endpoint_for(
        &self,
        request: Request<Endpoint>,
        new: NewEndpoint,
    ) -> Result<RequestResult, RecordsError>;

    /// As [`create_api_key`](super::ApiKeys::create_api_key).
    async fn create_api_key_for(
        &self,
        request: Request<ApiKey>,
        new: NewApiKey,
    ) -> Result<RequestResult, RecordsError>;

    /// As [`create_reminder`](super::Reminders::create_reminder).
    async fn create_reminder_for(
        &self,
        request: Request<Reminder>,
        new: NewReminder,
    ) -> Result<RequestResult, RecordsError>;

    /// As [`create_reminders`](super::Reminders::create_reminders).
    async fn create_reminders_for(
        &self,
        request: Request<Vec<Reminder>>,
        new: Vec<NewReminder>,
    ) -> Result<RequestResult, RecordsError>;

    /// As [`run_reminder`](super::Reminders::run_reminder), which creates a run.
    async fn run_reminder_for(
        &self,
        request: Request<Reminder>,
        id: ReminderId,
    ) -> Result<RequestResult, RecordsError>;

    /// As [`create_resend`](super::Resends::create_resend).
    async fn create_resend_for(
        &self,
        request: Request<Resend>,
        new: NewResend,
    ) -> Result<RequestResult, RecordsError>;

    /// As [`rotate_tenant_secret`](super::Tenants::rotate_tenant_secret).
    async fn rotate_tenant_secret_for(
        &self,
        request: Request<Tenant>,
        id: &TenantId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<RequestResult, RecordsError>;

    /// As [`rotate_endpoint_secret`](super::Endpoints::rotate_endpoint_secret).
    async fn rotate_endpoint_secret_for(
        &self,
        request: Request<Endpoint>,
        id: EndpointId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<RequestResult, RecordsError>;
}
