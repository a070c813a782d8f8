//! `Idempotency-Key`: a request that creates a resource takes effect once, however often the client retries it.
//!
//! A key is unique within a tenant for 24 hours. The storage writes it in the transaction that creates the resource.
//! This module reads the key from the request, and builds the response.

use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use breakerbox_model::objects::{IdempotencyKey, Revision, TenantId};
use breakerbox_storage::records::{self, RequestResponse, RequestResult};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use sha2::{Digest, Sha256};
use utoipa::IntoParams;

use super::Api;
use super::problem::{ApiResult, Code, Problem};
use super::reading::{Body, SMALL_BODY, read_body};

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(super) const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The maximum length of an idempotency key, in bytes.
const LONGEST_KEY: usize = 255;

/// The `Idempotency-Key` header, as documented in OpenAPI.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[allow(dead_code)]
pub(super) struct KeyHeader {
    /// A key of your choice, unique within the tenant. A retry with the same key within 24 hours creates nothing, and
    /// gets the first response again. If the first response contained a secret, the retry gets `already_created` with
    /// the resource's ID instead. A request with the same key and another body or path gets `idempotency_key_reused`.
    #[param(rename = "idempotency-key", min_length = 1, max_length = 255, pattern = "^[!-~]+$")]
    idempotency_key: Option<String>,
}

/// A request body, and the idempotency key of the request.
pub(super) struct Keyed<B>(pub(super) B, pub(super) Option<IdempotencyKey>);

impl<B: Body> FromRequest<Api> for Keyed<B> {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> ApiResult<Self> {
        let key = Key::of(&request)?;
        let media_type = B::media_type(request.headers())?;
        let (bytes, _room) = read_body(request, &api.budget, SMALL_BODY).await?;
        let key = key.map(|key| key.of_body(&bytes));
        Ok(Self(B::read(&bytes, media_type)?, key))
    }
}

/// The idempotency key and the path of a request whose body has not been read yet.
pub(super) struct Key {
    key: String,
    path: String,
}

impl Key {
    /// Returns the idempotency key of this request, if it has one.
    pub(super) fn of(request: &Request) -> ApiResult<Option<Self>> {
        let path = request.uri().path().to_owned();
        Ok(key_of(request.headers())?.map(|key| Self { key, path }))
    }

    /// Adds a fingerprint of the path and the body, which distinguishes this request from others with the same key.
    pub(super) fn of_body(self, body: &[u8]) -> IdempotencyKey {
        let mut hash = Sha256::new();
        hash.update(self.path.as_bytes());
        hash.update([0]);
        hash.update(body);
        IdempotencyKey { key: self.key, fingerprint: hash.finalize().into() }
    }
}

fn key_of(headers: &HeaderMap) -> ApiResult<Option<String>> {
    let mut all = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(header) = all.next() else { return Ok(None) };
    let text = header.to_str().unwrap_or_default();
    let fits = (1..=LONGEST_KEY).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !fits || all.next().is_some() {
        let detail =
            "idempotency-key: must be one header of 1 to 255 visible ASCII characters without spaces";
        return Err(Problem::new(Code::InvalidHeader, detail).of_field("idempotency-key"));
    }
    Ok(Some(text.to_owned()))
}

/// Builds the request to the storage: the idempotency key, the tenant within which the key is unique (`scope`), and the
/// function that builds the response.
pub(super) fn request<T>(
    key: Option<IdempotencyKey>,
    scope: Option<&TenantId>,
    respond: impl FnOnce(&T) -> Created + Send + 'static,
) -> records::Request<T> {
    let respond = move |created: &T| respond(created).0;
    records::Request { key, scope: scope.cloned(), respond: Box::new(respond) }
}

/// The response to a request that created a resource.
pub(super) struct Created(RequestResponse);

impl Created {
    /// Creates a 201 response for the new resource with this ID. `shown` becomes the JSON body.
    pub(super) fn new(id: impl ToString, shown: &impl Serialize) -> Self {
        Self(RequestResponse {
            created: id.to_string(),
            status: StatusCode::CREATED.as_u16(),
            revision: None,
            body: serde_json::to_vec(shown).unwrap_or_default().into(),
            has_secret: false,
        })
    }

    /// Sets a status other than 201.
    pub(super) fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = status.as_u16();
        self
    }

    /// Sets the revision, which becomes the `etag`.
    pub(super) const fn revised(mut self, revision: Revision) -> Self {
        self.0.revision = Some(revision);
        self
    }

    /// Sets whether the response contains a secret. A response with a secret is not stored.
    pub(super) const fn secret(mut self, has_secret: bool) -> Self {
        self.0.has_secret = has_secret;
        self
    }
}

/// The HTTP response for a request that may have an idempotency key: a new response, or a replay of the first one.
pub(super) struct CreatedOnce(RequestResult);

impl From<RequestResult> for CreatedOnce {
    fn from(answered: RequestResult) -> Self {
        Self(answered)
    }
}

impl IntoResponse for CreatedOnce {
    fn into_response(self) -> Response {
        let RequestResult { response, repeated } = self.0;
        let RequestResponse { status, revision, body, .. } = response;
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::CREATED);
        let mut response = json(status, body, repeated);
        if let Some(tag) =
            revision.and_then(|revision| HeaderValue::try_from(format!("\"{}\"", revision.0)).ok())
        {
            response.headers_mut().insert(ETAG, tag);
        }
        response
    }
}

/// Builds a JSON response. If `repeated` is set, a header marks it as a replay of an earlier response.
pub(super) fn json(status: StatusCode, body: Bytes, repeated: bool) -> Response {
    let mut response =
        (status, [(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response();
    if repeated {
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_and_body_tell_requests_apart() {
        let of = |path: &str, body: &'static str| {
            Key { key: "k".to_owned(), path: path.to_owned() }.of_body(body.as_bytes()).fingerprint
        };
        assert_eq!(of("/v1/events", "{}"), of("/v1/events", "{}"));
        assert_ne!(of("/v1/events", "{}"), of("/v1/events/batch", "{}"));
        assert_ne!(of("/v1/events", "{}"), of("/v1/events", "{ }"));
    }
}
