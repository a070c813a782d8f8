//! Events: submit one, submit a batch, list, show one.
//!
//! This is the busiest part of the API. A body is parsed once, without copying its fields; the payload is never parsed.

mod body;
mod list;
mod rates;
mod view;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use breakerbox_model::objects::{EventId, IdempotencyKey, NewBatch, NewEvent, TenantId};
use breakerbox_storage::{Submitted, SubmittedEvent, TenantEntry};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) use self::body::PrioritySchema;
use self::body::{BatchBody, EventBody};
pub(super) use self::rates::IngestRates;
use self::view::EventView;
use super::Api;
use super::caller::{Allowed, Caller, Read, Send};
use super::idempotency::{Key, KeyHeader, json};
use super::problem::{ApiResult, Problem};
use super::reading::payload::{Circumstances, body_limit};
use super::reading::{Named, is_json, read_body};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list::list, submit))
        .routes(routes!(submit_batch))
        .routes(routes!(show))
}

/// An accepted event.
#[derive(Serialize, ToSchema)]
#[schema(as = AcceptedEvent)]
struct AcceptedView {
    /// Event ID; also the `webhook-id` of all its requests.
    #[schema(example = "evt_01h5k2m8w4c7e")]
    id: String,
    /// The number of deliveries. Those beyond the first 1,000 are created after this response; the event's
    /// `fan_out_remaining` shows how many are still missing.
    deliveries: u32,
}

impl From<SubmittedEvent> for AcceptedView {
    fn from(accepted: SubmittedEvent) -> Self {
        Self { id: accepted.id.to_string(), deliveries: accepted.deliveries }
    }
}

/// Accepted events, in the order of the batch.
#[derive(Serialize, ToSchema)]
#[schema(as = AcceptedEvents)]
struct AcceptedBatchView {
    /// One entry for each event, in the order of the batch.
    events: Vec<AcceptedView>,
}

/// Submit an event
///
/// The event is delivered to each of the tenant's endpoints whose `types` match, or only to `url`. The response is sent
/// after the event is stored durably. The payload is stored and sent byte for byte.
#[utoipa::path(
    post,
    path = "/v1/events",
    operation_id = "submit_event",
    tag = "events",
    request_body(content = body::EventSchema, content_type = "application/json"),
    params(KeyHeader),
    responses((status = 202, description = "Accepted and durable", body = AcceptedView)),
    security(("api_key" = ["send"])),
)]
async fn submit(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Send>,
    request: Request,
) -> ApiResult<Response> {
    counted(&api, take_in(&api, &caller, request).await)
}

async fn take_in(api: &Api, caller: &Caller, request: Request) -> ApiResult<Response> {
    is_json(request.headers())?;
    let key = Key::of(&request)?;
    let limits = &api.services.limits;
    let (body, _room) = read_body(request, &api.budget, body_limit(limits.payload)).await?;
    let event = EventBody::read(&body)?;
    let tenant = caller.tenant_for(event.tenant())?;
    let tenant = known(api, &tenant)?;
    let now = api.now();
    let event = event.into_event(&body, circumstances(api, &tenant))?;
    api.rates.take(&tenant, 1, now)?;
    let idempotency = key.map(|key| key.of_body(&body));
    let accepted = accept(api, &tenant.id, vec![event], idempotency).await?;
    let first = accepted.events.first().copied().map(AcceptedView::from);
    Ok(answer(&first, accepted.repeated))
}

/// Submit a batch of events
///
/// By default at most 1,000 events and 4 MiB. Accepts all of the events or none. The response is in the order of the
/// batch.
#[utoipa::path(
    post,
    path = "/v1/events/batch",
    operation_id = "submit_events",
    tag = "events",
    request_body(content = body::BatchSchema, content_type = "application/json"),
    params(KeyHeader),
    responses((status = 202, description = "Accepted and durable", body = AcceptedBatchView)),
    security(("api_key" = ["send"])),
)]
async fn submit_batch(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Send>,
    request: Request,
) -> ApiResult<Response> {
    counted(&api, take_batch_in(&api, &caller, request).await)
}

async fn take_batch_in(api: &Api, caller: &Caller, request: Request) -> ApiResult<Response> {
    is_json(request.headers())?;
    let key = Key::of(&request)?;
    let limits = &api.services.limits;
    let (body, _room) = read_body(request, &api.budget, limits.batch_bytes).await?;
    let batch = BatchBody::read(&body, limits.batch_events)?;
    let tenant = caller.tenant_for(batch.tenant())?;
    let tenant = known(api, &tenant)?;
    let now = api.now();
    let events = batch.into_events(circumstances(api, &tenant))?;
    api.rates.take(&tenant, events.len(), now)?;
    let idempotency = key.map(|key| key.of_body(&body));
    let accepted = accept(api, &tenant.id, events, idempotency).await?;
    let events = accepted.events.into_iter().map(AcceptedView::from).collect();
    Ok(answer(&AcceptedBatchView { events }, accepted.repeated))
}

/// Show an event
#[utoipa::path(
    get,
    path = "/v1/events/{event}",
    operation_id = "show_event",
    tag = "events",
    params(("event" = String, Path, description = "Event ID", pattern = "^evt_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The event with its payload", body = EventView)),
    security(("api_key" = ["read"])),
)]
async fn show(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Named(id): Named<EventId>,
) -> ApiResult<axum::Json<EventView>> {
    let event = api.services.records.event(id).await?;
    if !caller.owns(event.owner, &api.services.directory) {
        return Err(Problem::not_found("event", &id.to_string()));
    }
    Ok(axum::Json(event.into()))
}

fn circumstances<'c>(api: &'c Api, tenant: &'c TenantEntry) -> Circumstances<'c> {
    let (payload, addresses) = (api.services.limits.payload, &*api.services.addresses);
    Circumstances { tenant, payload, addresses, now: api.wall() }
}

fn known(api: &Api, tenant: &TenantId) -> ApiResult<Arc<TenantEntry>> {
    api.services.directory.tenant(tenant).ok_or_else(|| Problem::tenant_not_found(tenant.as_str()))
}

/// Counts a rejected request in the metrics, by reason.
fn counted<T>(api: &Api, answer: ApiResult<T>) -> ApiResult<T> {
    answer.inspect_err(|problem| {
        api.services.metrics.events_refused.of(problem.code()).inc();
    })
}

async fn accept(
    api: &Api,
    tenant: &TenantId,
    events: Vec<NewEvent>,
    idempotency: Option<IdempotencyKey>,
) -> ApiResult<Submitted> {
    let batch = NewBatch { tenant: tenant.clone(), events, idempotency };
    Ok(api.services.submitter.submit(batch).await?)
}

fn answer(accepted: &impl Serialize, repeated: bool) -> Response {
    let body = serde_json::to_vec(accepted).unwrap_or_default();
    json(StatusCode::ACCEPTED, body.into(), repeated)
}
