//! Endpoints: create, list, show, change, delete; enable and disable; secrets; test requests.

mod effective;
mod secrets;
mod test_send;
mod view;

use std::sync::Arc;

use axum::extract::State;
use breakerbox_core::{CircuitStatus, OverrideCommand};
use breakerbox_model::objects::{DisabledBecause, Endpoint, EndpointId, Purpose, Scope};
use breakerbox_storage::records::NewEndpoint;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::effective::{EffectiveView, EndpointShown};
pub(super) use self::secrets::{NewSecret, SecretsView};
use self::view::{EndpointBody, EndpointChange, EndpointView};
pub(super) use self::view::{checked_in_flight, checked_timeout};
use super::Api;
use super::caller::{Allowed, Caller, Manage, Read};
use super::circuits;
use super::idempotency::{self, Created, CreatedOnce, KeyHeader, Keyed};
use super::listing::{Listed, PagingOfTenant};
use super::problem::{ApiResult, Problem};
use super::reading::{Json, Named, Query};
use super::revision::{IfMatch, Revised};
use super::waits::{self, LaneNow};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show, change, delete))
        .routes(routes!(enable))
        .routes(routes!(disable))
        .merge(secrets::routes())
        .merge(test_send::routes())
}

/// List endpoints
///
/// Newest first.
#[utoipa::path(
    get,
    path = "/v1/endpoints",
    operation_id = "list_endpoints",
    tag = "endpoints",
    params(PagingOfTenant),
    responses((status = 200, description = "Endpoints; newest first", body = Listed<EndpointView>)),
    security(("api_key" = ["read"])),
)]
async fn list(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Query(query): Query<PagingOfTenant>,
) -> ApiResult<axum::Json<Listed<EndpointView>>> {
    let (tenant, page) = query.split();
    let tenant = caller.tenant_seen(tenant, &api.services.directory)?;
    let found = api.services.records.endpoints(tenant.as_ref(), &page).await?;
    let keys: Vec<_> = found.items.iter().map(|endpoint| circuits::key_of(&api, endpoint)).collect();
    let lanes: Vec<_> = found.items.iter().map(Endpoint::lane).collect();
    let lanes = waits::of_lanes(&api, &api.services.records.backlogs_of(&lanes).await?);
    let statuses = circuits::statuses(&api, &keys).await?;
    let mut facts = lanes.into_iter().zip(keys.into_iter().zip(statuses));
    Ok(axum::Json(Listed::of(found, |endpoint| {
        let (lane, (key, status)) =
            facts.next().unwrap_or((LaneNow::default(), (None, CircuitStatus::Closed)));
        let last = api.services.directory.last_attempt(endpoint.lane());
        EndpointView::new(endpoint, key.as_deref(), status).waiting(&api, lane).last_attempt(last.as_ref())
    })))
}

/// Create an endpoint
///
/// The endpoint receives events that are accepted after this request. The response contains its signing secret.
#[utoipa::path(
    post,
    path = "/v1/endpoints",
    operation_id = "create_endpoint",
    tag = "endpoints",
    request_body = EndpointBody,
    params(KeyHeader),
    responses((status = 201, description = "The endpoint and its secret", body = CreatedView, headers(("etag" = String)))),
    security(("api_key" = ["manage"])),
)]
async fn create(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Keyed(Json(mut body), key): Keyed<Json<EndpointBody>>,
) -> ApiResult<CreatedOnce> {
    let settings = body.take_settings();
    if settings.sets_policy() {
        caller.needs(Scope::Admin, "setting a policy")?;
    }
    let tenant = caller.tenant_for(body.tenant.map(|tenant| tenant.0))?;
    let addresses = &api.services.addresses;
    let settings = settings.onto(view::fresh(&body.url, addresses)?, addresses)?;
    let secret = body.secret.map(|secret| secret.0);
    let new = NewEndpoint { tenant: tenant.clone(), settings, secret, disabled: body.enabled == Some(false) };
    // The circuit may already exist, if another endpoint has the same URL.
    let entry = api.services.directory.tenant(&tenant);
    let circuit = entry.and_then(|entry| entry.key_of(Purpose::Deliveries, new.settings.url.as_str()).ok());
    let status = circuits::statuses(&api, std::slice::from_ref(&circuit)).await?;
    let status = status.first().copied().unwrap_or(CircuitStatus::Closed);
    let request = idempotency::request(key, Some(&tenant), move |endpoint: &Endpoint| {
        let (id, revision) = (endpoint.id, endpoint.revision);
        let secret = endpoint.secrets.iter().next().map(|newest| newest.secret.reveal()).unwrap_or_default();
        let endpoint = EndpointView::new(endpoint.clone(), circuit.as_deref(), status);
        Created::new(id, &CreatedView { endpoint, secret }).revised(revision).secret(true)
    });
    Ok(api.services.records.create_endpoint_for(request, new).await?.into())
}

/// A new endpoint and its signing secret.
#[derive(Serialize, ToSchema)]
#[schema(as = CreatedEndpoint)]
struct CreatedView {
    #[serde(flatten)]
    endpoint: EndpointView,
    /// The secret that signs requests to the endpoint.
    secret: String,
}

/// Show an endpoint
///
/// Returns the endpoint and, in `effective`, every setting that applies to it, with its origin.
#[utoipa::path(
    get,
    path = "/v1/endpoints/{endpoint}",
    operation_id = "show_endpoint",
    tag = "endpoints",
    params(("endpoint" = String, Path, description = "Endpoint ID", pattern = "^ep_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The endpoint", body = EndpointShown, headers(("etag" = String)))),
    security(("api_key" = ["read"])),
)]
async fn show(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Named(id): Named<EndpointId>,
) -> ApiResult<Revised<EndpointShown>> {
    let endpoint = seen(&api, &caller, id).await?;
    Ok(Revised(endpoint.revision, shown(&api, endpoint).await?))
}

/// Change an endpoint
///
/// Omitted fields stay unchanged; `null` restores the default. If the URL changes, pending and retrying deliveries go
/// to the new URL. `policy` needs an admin key.
#[utoipa::path(
    patch,
    path = "/v1/endpoints/{endpoint}",
    operation_id = "change_endpoint",
    tag = "endpoints",
    request_body = EndpointChange,
    params(
        ("endpoint" = String, Path, description = "Endpoint ID", pattern = "^ep_[0-7][0-9a-hjkmnp-tv-z]{12}$"),
        ("if-match" = Option<String>, Header, description = "Change the resource only if its `etag` still has this value", min_length = 1, pattern = "^(\\*|\"[1-9][0-9]{0,17}\")$"),
    ),
    responses((status = 200, description = "The endpoint", body = EndpointShown, headers(("etag" = String)))),
    security(("api_key" = ["manage"])),
)]
async fn change(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<EndpointId>,
    IfMatch(revision): IfMatch,
    Json(body): Json<EndpointChange>,
) -> ApiResult<Revised<EndpointShown>> {
    if body.sets_policy() {
        caller.needs(Scope::Admin, "changing policy")?;
    }
    seen(&api, &caller, id).await?;
    let addresses = Arc::clone(&api.services.addresses);
    let edit = move |stored: &Endpoint| Ok(body.onto(stored.settings.clone(), &addresses)?);
    let endpoint = api.services.records.edit_endpoint(id, Box::new(edit), revision).await?;
    Ok(Revised(endpoint.revision, shown(&api, endpoint).await?))
}

/// The result of deleting an endpoint.
#[derive(Serialize, ToSchema)]
#[schema(as = DeletedEndpoint)]
struct DeletedView {
    /// The number of pending or retrying deliveries that were cancelled.
    cancelled: u64,
}

/// Delete an endpoint
///
/// Cancels the endpoint's pending and retrying deliveries. The response contains their number.
#[utoipa::path(
    delete,
    path = "/v1/endpoints/{endpoint}",
    operation_id = "delete_endpoint",
    tag = "endpoints",
    params(
        ("endpoint" = String, Path, description = "Endpoint ID", pattern = "^ep_[0-7][0-9a-hjkmnp-tv-z]{12}$"),
        ("if-match" = Option<String>, Header, description = "Delete the resource only if its `etag` still has this value", min_length = 1, pattern = "^(\\*|\"[1-9][0-9]{0,17}\")$"),
    ),
    responses((status = 200, description = "Deleted", body = DeletedView)),
    security(("api_key" = ["manage"])),
)]
async fn delete(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<EndpointId>,
    IfMatch(revision): IfMatch,
) -> ApiResult<axum::Json<DeletedView>> {
    seen(&api, &caller, id).await?;
    let deleted = api.services.records.delete_endpoint(id, revision).await?;
    Ok(axum::Json(DeletedView { cancelled: deleted.cancelled }))
}

/// Enable an endpoint
///
/// Enables the endpoint, whether its owner, a 410 response or its circuit disabled it. Its parked deliveries are sent.
#[utoipa::path(
    post,
    path = "/v1/endpoints/{endpoint}/enable",
    operation_id = "enable_endpoint",
    tag = "endpoints",
    params(("endpoint" = String, Path, description = "Endpoint ID", pattern = "^ep_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The endpoint", body = EndpointShown, headers(("etag" = String)))),
    security(("api_key" = ["manage"])),
)]
async fn enable(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<EndpointId>,
) -> ApiResult<Revised<EndpointShown>> {
    let before = seen(&api, &caller, id).await?;
    let endpoint = match before.disabled {
        Some(_) => api.services.records.set_endpoint_disabled(id, None).await?,
        None => before,
    };
    if let Some(key) = circuits::key_of(&api, &endpoint) {
        let is_disabled = circuits::statuses(&api, &[Some(key.clone())]).await? == [CircuitStatus::Disabled];
        if is_disabled {
            circuits::apply_override(
                &api,
                &caller,
                &key,
                OverrideCommand::Enable,
                &format!("the endpoint {id} was enabled"),
            )
            .await?;
        }
    }
    Ok(Revised(endpoint.revision, shown(&api, endpoint).await?))
}

/// Disable an endpoint
///
/// Deliveries to the endpoint are parked until it is enabled; none is lost.
#[utoipa::path(
    post,
    path = "/v1/endpoints/{endpoint}/disable",
    operation_id = "disable_endpoint",
    tag = "endpoints",
    params(("endpoint" = String, Path, description = "Endpoint ID", pattern = "^ep_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The endpoint", body = EndpointShown, headers(("etag" = String)))),
    security(("api_key" = ["manage"])),
)]
async fn disable(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<EndpointId>,
) -> ApiResult<Revised<EndpointShown>> {
    seen(&api, &caller, id).await?;
    let endpoint = api.services.records.set_endpoint_disabled(id, Some(DisabledBecause::Owner)).await?;
    Ok(Revised(endpoint.revision, shown(&api, endpoint).await?))
}

/// Returns an endpoint, if the caller may access it.
pub(super) async fn seen(api: &Api, caller: &Caller, id: EndpointId) -> ApiResult<Endpoint> {
    let endpoint = api.services.records.endpoint(id).await?;
    if caller.sees(&endpoint.tenant) {
        Ok(endpoint)
    } else {
        Err(Problem::not_found("endpoint", &id.to_string()))
    }
}

/// Returns the view of an endpoint, with its circuit and its effective settings.
async fn shown(api: &Api, endpoint: Endpoint) -> ApiResult<EndpointShown> {
    let key = circuits::key_of(api, &endpoint);
    let status = circuits::statuses(api, std::slice::from_ref(&key)).await?;
    let lanes = waits::of_lanes(api, &api.services.records.backlogs_of(&[endpoint.lane()]).await?);
    let lane = lanes.first().copied().unwrap_or_default();
    let status = status.first().copied().unwrap_or(CircuitStatus::Closed);
    let last = api.services.directory.last_attempt(endpoint.lane());
    // The endpoint may have been deleted in the meantime.
    let entry = api.services.directory.endpoint(endpoint.lane());
    let entry = entry.ok_or_else(|| Problem::not_found("endpoint", &endpoint.id.to_string()))?;
    let effective = EffectiveView::new(&api.services.directory, &entry)?;
    let view =
        EndpointView::new(endpoint, key.as_deref(), status).waiting(api, lane).last_attempt(last.as_ref());
    Ok(EndpointShown { endpoint: view, effective })
}
