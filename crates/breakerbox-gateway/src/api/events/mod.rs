//! Events: submit one, submit a batch, show one.
//!
//! This is the busiest part of the API. A body is parsed once, and what it holds is borrowed from it; the payload is never
//! looked into.

mod body;
mod rates;
mod view;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) use self::body::PrioritySchema;
use self::body::{BatchBody, EventBody};
pub(super) use self::rates::IngestRates;
use self::view::EventView;
use super::Api;
use super::caller::{Allowed, Caller, Read, Send};
use super::problem::{Answer, Code, Problem};
use super::reading::payload::body_limit;
use super::reading::{Named, is_json, read_body};
use crate::objects::{EventId, IdempotencyKey, NewBatch, NewEvent, TenantId};
use crate::queue::{Accepted, AcceptedEvent, TenantEntry};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The longest idempotency key, in bytes.
const LONGEST_KEY: usize = 255;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(submit)).routes(routes!(submit_batch)).routes(routes!(show))
}

/// An event that was accepted.
#[derive(Serialize, ToSchema)]
struct AcceptedView {
    /// Its name, and the `webhook-id` of all its requests.
    #[schema(example = "evt_01h5k2m8w4c7e")]
    id: String,
    /// How many deliveries it has: to how many endpoints it goes. If those are more than 1,000, the rest is written after this
    /// answer; the event shows how many are to come.
    deliveries: u32,
}

impl From<AcceptedEvent> for AcceptedView {
    fn from(accepted: AcceptedEvent) -> Self {
        Self { id: accepted.id.to_string(), deliveries: accepted.deliveries }
    }
}

/// Events that were accepted, in the order of the batch.
#[derive(Serialize, ToSchema)]
struct AcceptedBatchView {
    events: Vec<AcceptedView>,
}

/// Submit an event.
///
/// It goes to each of the tenant's endpoints whose `types` admit it, or to `url` alone. The answer comes when the event is
/// durable, and not before. The payload is kept and sent byte for byte.
#[utoipa::path(
    post,
    path = "/v1/events",
    tag = "events",
    request_body(content = inline(body::EventSchema), content_type = "application/json"),
    params(("idempotency-key" = Option<String>, Header, description = "The same key again within 24 hours: the same answer, and nothing twice", min_length = 1, max_length = 255, pattern = "^[!-~]+$")),
    responses((status = 202, description = "Accepted, and durable", body = AcceptedView, headers(("idempotency-replayed" = Option<String>, description = "`true` if this is the answer to an earlier request with the same key")))),
    security(("api_key" = ["send"])),
)]
async fn submit(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Send>,
    request: Request,
) -> Answer<Response> {
    counted(&api, take_in(&api, &caller, request).await)
}

async fn take_in(api: &Api, caller: &Caller, request: Request) -> Answer<Response> {
    is_json(request.headers())?;
    let key = idempotency_key(request.headers())?;
    let limits = &api.services.limits;
    let (body, _room) = read_body(request, &api.budget, body_limit(limits.payload)).await?;
    let event = EventBody::read(&body)?;
    let tenant = caller.tenant_for(event.tenant())?;
    let tenant = known(api, &tenant)?;
    let now = api.now();
    let event = event.into_event(&body, &tenant, limits.payload, api.wall())?;
    api.rates.take(&tenant, 1, now)?;
    let idempotency = key.map(|key| fingerprint(key, "/v1/events", &body));
    let accepted = accept(api, &tenant.id, vec![event], idempotency).await?;
    let first = accepted.events.first().copied().map(AcceptedView::from);
    Ok(answer(&first, accepted.repeated))
}

/// Submit events together.
///
/// At most 1,000 events and 4 MiB, which are accepted together or not at all. The answer is in the order of the batch.
#[utoipa::path(
    post,
    path = "/v1/events/batch",
    tag = "events",
    request_body(content = inline(body::BatchSchema), content_type = "application/json"),
    params(("idempotency-key" = Option<String>, Header, description = "The same key again within 24 hours: the same answer, and nothing twice", min_length = 1, max_length = 255, pattern = "^[!-~]+$")),
    responses((status = 202, description = "Accepted, and durable", body = AcceptedBatchView, headers(("idempotency-replayed" = Option<String>, description = "`true` if this is the answer to an earlier request with the same key")))),
    security(("api_key" = ["send"])),
)]
async fn submit_batch(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Send>,
    request: Request,
) -> Answer<Response> {
    counted(&api, take_batch_in(&api, &caller, request).await)
}

async fn take_batch_in(api: &Api, caller: &Caller, request: Request) -> Answer<Response> {
    is_json(request.headers())?;
    let key = idempotency_key(request.headers())?;
    let limits = &api.services.limits;
    let (body, _room) = read_body(request, &api.budget, limits.batch_bytes).await?;
    let batch = BatchBody::read(&body, limits.batch_events)?;
    let tenant = caller.tenant_for(batch.tenant())?;
    let tenant = known(api, &tenant)?;
    let now = api.now();
    let events = batch.into_events(&tenant, limits.payload, api.wall())?;
    api.rates.take(&tenant, events.len(), now)?;
    let idempotency = key.map(|key| fingerprint(key, "/v1/events/batch", &body));
    let accepted = accept(api, &tenant.id, events, idempotency).await?;
    let events = accepted.events.into_iter().map(AcceptedView::from).collect();
    Ok(answer(&AcceptedBatchView { events }, accepted.repeated))
}

/// Show an event.
#[utoipa::path(
    get,
    path = "/v1/events/{event}",
    tag = "events",
    params(("event" = String, Path, description = "The event's id", pattern = "^evt_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The event, with its payload", body = EventView)),
    security(("api_key" = ["read"])),
)]
async fn show(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Named(id): Named<EventId>,
) -> Answer<axum::Json<EventView>> {
    let event = api.services.records.event(id).await?;
    if !caller.owns(event.owner, &api.services.directory) {
        return Err(Problem::not_found("event", &id.to_string()));
    }
    Ok(axum::Json(event.into()))
}

fn known(api: &Api, tenant: &TenantId) -> Answer<Arc<TenantEntry>> {
    api.services.directory.tenant(tenant).ok_or_else(|| Problem::not_found("tenant", tenant.as_str()))
}

/// Requests that were refused are counted, by why.
fn counted<T>(api: &Api, answer: Answer<T>) -> Answer<T> {
    answer.inspect_err(|problem| {
        api.services.metrics.events_refused.of(problem.code()).inc();
    })
}

async fn accept(
    api: &Api,
    tenant: &TenantId,
    events: Vec<NewEvent>,
    idempotency: Option<IdempotencyKey>,
) -> Answer<Accepted> {
    let batch = NewBatch { tenant: tenant.clone(), events, idempotency };
    Ok(api.services.intake.submit(batch).await?)
}

/// The client's word for this request, if it has one.
fn idempotency_key(headers: &HeaderMap) -> Answer<Option<String>> {
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

/// What tells this request from others with the same key.
fn fingerprint(key: String, path: &str, body: &Bytes) -> IdempotencyKey {
    let mut hash = Sha256::new();
    hash.update(path.as_bytes());
    hash.update([0]);
    hash.update(body);
    IdempotencyKey { key, fingerprint: hash.finalize().into() }
}

fn answer(accepted: &impl Serialize, repeated: bool) -> Response {
    let body = serde_json::to_vec(accepted).unwrap_or_default();
    let json = HeaderValue::from_static("application/json");
    let mut response = (StatusCode::ACCEPTED, [(CONTENT_TYPE, json)], body).into_response();
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
        let of = |path, body: &'static str| fingerprint("k".to_owned(), path, &body.into()).fingerprint;
        assert_eq!(of("/v1/events", "{}"), of("/v1/events", "{}"));
        assert_ne!(of("/v1/events", "{}"), of("/v1/events/batch", "{}"));
        assert_ne!(of("/v1/events", "{}"), of("/v1/events", "{ }"));
    }
}
