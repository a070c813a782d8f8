//! Resend jobs, which resend deliveries by filter and time range in the background: create, list, show, cancel.

use axum::extract::State;
use breakerbox_model::objects::{
    DeliveryFilter, EndpointId, EventId, EventType, JobId, Resend, ResendState, StateName, TenantId,
};
use breakerbox_storage::records::NewResend;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::caller::{Allowed, Caller, Manage, Read};
use super::deliveries::StateNameView;
use super::idempotency::{self, Created, CreatedOnce, KeyHeader, Keyed};
use super::listing::{Listed, PagingOfTenant};
use super::problem::{ApiResult, Code, Problem};
use super::reading::fields::{Moment, Text};
use super::reading::{Json, Named, Query};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(show)).routes(routes!(cancel))
}

/// A filter for the deliveries to resend. A delivery must match all given conditions.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewResend, example = json!({"tenant": "acme", "endpoint": "ep_01h5k2m8w4c7e", "from": "2030-01-31T09:00:00Z"}))]
struct ResendBody {
    /// Tenant ID. Keys bound to one tenant may omit it. Other keys must send `tenant`, `endpoint` or `event`, because a
    /// resend job is always for one tenant.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    tenant: Option<Text<TenantId>>,
    /// Only deliveries to this endpoint.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^ep_[0-7][0-9a-hjkmnp-tv-z]{12}$")]
    endpoint: Option<Text<EndpointId>>,
    /// Only deliveries of this event.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^evt_[0-7][0-9a-hjkmnp-tv-z]{12}$")]
    event: Option<Text<EventId>>,
    /// Only deliveries of this event type.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$")]
    r#type: Option<Text<EventType>>,
    /// Only deliveries in this state: `delivered`, `failed` or `cancelled`. Default: `failed`.
    #[serde(default)]
    #[schema(value_type = Option<FinishedView>)]
    state: Option<Text<StateName>>,
    /// Only deliveries created at this time or later.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = "date-time")]
    from: Option<Text<Moment>>,
    /// Only deliveries created before this time. Default: now.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = "date-time")]
    until: Option<Text<Moment>>,
}

/// A state in which a delivery can be resent.
#[derive(ToSchema)]
#[schema(as = FinishedState, rename_all = "snake_case")]
#[allow(dead_code)]
enum FinishedView {
    Delivered,
    Failed,
    Cancelled,
}

/// A resend job and its progress.
#[derive(Serialize, ToSchema)]
#[schema(as = Resend)]
struct ResendView {
    /// Job ID.
    #[schema(example = "job_01h5k2m8w4c7e")]
    id: String,
    /// The state of the job.
    #[schema(value_type = ResendStateView)]
    state: &'static str,
    /// The filter that selects the deliveries.
    filter: FilterView,
    /// The ID of the API key that created the job.
    created_by: Option<String>,
    /// The number of deliveries made pending again.
    resent: u64,
    /// The number of deliveries skipped because their endpoint was deleted.
    skipped: u64,
    /// The job processes deliveries from oldest to newest, and has processed those created before this time; null if it
    /// has not started.
    #[schema(value_type = Option<String>, format = "date-time")]
    processed_until: Option<Moment>,
    /// The time of creation.
    #[schema(value_type = String, format = "date-time")]
    created_at: Moment,
    /// The time at which the job finished or was cancelled.
    #[schema(value_type = Option<String>, format = "date-time")]
    finished_at: Option<Moment>,
}

/// The state of a resend job.
#[derive(ToSchema)]
#[schema(as = ResendState, rename_all = "snake_case")]
#[allow(dead_code)]
enum ResendStateView {
    Running,
    Done,
    Cancelled,
}

/// The filter of a resend job.
#[derive(Serialize, ToSchema)]
#[schema(as = ResendFilter)]
struct FilterView {
    /// Only deliveries of this tenant.
    tenant: Option<String>,
    /// Only deliveries to this endpoint; null means all endpoints.
    endpoint: Option<String>,
    /// Only deliveries of this event; null means all events.
    event: Option<String>,
    /// Only deliveries of this event type; null means all types.
    r#type: Option<String>,
    /// Only deliveries in this state.
    #[schema(value_type = Option<StateNameView>)]
    state: Option<&'static str>,
    /// Only deliveries created at this time or later; null means no limit.
    #[schema(value_type = Option<String>, format = "date-time")]
    from: Option<Moment>,
    /// Only deliveries created before this time.
    #[schema(value_type = Option<String>, format = "date-time")]
    until: Option<Moment>,
}

impl From<Resend> for ResendView {
    fn from(resend: Resend) -> Self {
        let filter = resend.filter;
        Self {
            id: resend.id.to_string(),
            state: ResendState::name(resend.state),
            filter: FilterView {
                tenant: filter.tenant.map(|tenant| tenant.to_string()),
                endpoint: filter.endpoint.map(|endpoint| endpoint.to_string()),
                event: filter.event.map(|event| event.to_string()),
                r#type: filter.kind.map(|kind| kind.to_string()),
                state: filter.state.map(StateName::name),
                from: filter.from.map(Moment),
                until: filter.until.map(Moment),
            },
            created_by: resend.by.map(|by| by.to_string()),
            resent: resend.progress.resent,
            skipped: resend.progress.skipped,
            processed_until: resend.progress.reached.map(Moment),
            created_at: Moment(resend.created_at),
            finished_at: resend.finished_at.map(Moment),
        }
    }
}

/// List resend jobs
///
/// Newest first.
#[utoipa::path(
    get,
    path = "/v1/resends",
    operation_id = "list_resends",
    tag = "resends",
    params(PagingOfTenant),
    responses((status = 200, description = "Resend jobs; newest first", body = Listed<ResendView>)),
    security(("api_key" = ["read"])),
)]
async fn list(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Query(query): Query<PagingOfTenant>,
) -> ApiResult<axum::Json<Listed<ResendView>>> {
    let (tenant, page) = query.split();
    let tenant = caller.tenant_seen(tenant, &api.services.directory)?;
    let found = api.services.records.resends(tenant.as_ref(), &page).await?;
    Ok(axum::Json(Listed::of(found, ResendView::from)))
}

/// Resend deliveries by filter
///
/// Starts a background job that makes finished deliveries pending again, oldest first. These deliveries are sent after
/// live traffic.
#[utoipa::path(
    post,
    path = "/v1/resends",
    operation_id = "create_resend",
    tag = "resends",
    request_body = ResendBody,
    params(KeyHeader),
    responses((status = 201, description = "The job", body = ResendView)),
    security(("api_key" = ["manage"])),
)]
async fn create(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Keyed(Json(body), key): Keyed<Json<ResendBody>>,
) -> ApiResult<CreatedOnce> {
    let state = body.state.map(|state| state.0);
    if matches!(state, Some(StateName::Pending | StateName::InFlight | StateName::Retrying)) {
        return Err(Problem::invalid(
            "state",
            "must be delivered, failed or cancelled: deliveries in other states are not finished",
        ));
    }
    let (from, until) = (body.from.map(|moment| moment.0.0), body.until.map(|moment| moment.0.0));
    if let (Some(from), Some(until)) = (from, until)
        && from >= until
    {
        return Err(Problem::invalid("until", "must be after `from`"));
    }
    let (endpoint, event) = (body.endpoint.map(|endpoint| endpoint.0), body.event.map(|event| event.0));
    let tenant = caller.tenant_seen(body.tenant.map(|tenant| tenant.0), &api.services.directory)?;
    let tenant = resent_tenant(&api, &caller, tenant, endpoint, event).await?;
    let kind = body.r#type.map(|kind| kind.0);
    let request = idempotency::request(key, Some(&tenant), |resend: &Resend| {
        Created::new(resend.id, &ResendView::from(resend.clone()))
    });
    let filter = DeliveryFilter { tenant: Some(tenant.clone()), endpoint, event, kind, state, from, until };
    let new = NewResend { filter, by: Some(caller.0.id) };
    Ok(api.services.records.create_resend_for(request, new).await?.into())
}

/// Returns the tenant whose deliveries to resend: the named tenant, or else the owner of the endpoint or event. An
/// endpoint or event of another tenant is not found.
async fn resent_tenant(
    api: &Api,
    caller: &Caller,
    mut tenant: Option<TenantId>,
    endpoint: Option<EndpointId>,
    event: Option<EventId>,
) -> ApiResult<TenantId> {
    if let Some(id) = endpoint {
        let entry = api.services.directory.endpoint(id.into());
        let entry = entry.filter(|entry| tenant.as_ref().is_none_or(|tenant| *tenant == entry.tenant.id));
        let entry = entry.ok_or_else(|| Problem::not_found("endpoint", &id.to_string()))?;
        tenant = Some(entry.tenant.id.clone());
    }
    if let Some(id) = event {
        let found = api.services.records.event(id).await?;
        let is_named = tenant.as_ref().is_none_or(|tenant| *tenant == found.tenant);
        if !is_named || !caller.owns(found.owner, &api.services.directory) {
            return Err(Problem::not_found("event", &id.to_string()));
        }
        tenant = Some(found.tenant);
    }
    tenant.ok_or_else(|| {
        let detail = "tenant: is missing; with a key for all tenants, send `tenant`, `endpoint` or `event`";
        Problem::new(Code::MissingField, detail).of_field("tenant")
    })
}

/// Show a resend job
#[utoipa::path(
    get,
    path = "/v1/resends/{resend}",
    operation_id = "show_resend",
    tag = "resends",
    params(("resend" = String, Path, description = "Job ID", pattern = "^job_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The job", body = ResendView)),
    security(("api_key" = ["read"])),
)]
async fn show(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Named(id): Named<JobId>,
) -> ApiResult<axum::Json<ResendView>> {
    Ok(axum::Json(seen(&api, &caller, id).await?.into()))
}

/// Cancel a resend job
///
/// Deliveries that the job has already made pending stay pending. A finished job is not changed.
#[utoipa::path(
    post,
    path = "/v1/resends/{resend}/cancel",
    operation_id = "cancel_resend",
    tag = "resends",
    params(("resend" = String, Path, description = "Job ID", pattern = "^job_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The job", body = ResendView)),
    security(("api_key" = ["manage"])),
)]
async fn cancel(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<JobId>,
) -> ApiResult<axum::Json<ResendView>> {
    seen(&api, &caller, id).await?;
    Ok(axum::Json(api.services.records.cancel_resend(id).await?.into()))
}

/// Returns a resend job, if the caller may access it.
async fn seen(api: &Api, caller: &Caller, id: JobId) -> ApiResult<Resend> {
    let resend = api.services.records.resend(id).await?;
    let is_theirs = match resend.owner {
        Some(owner) => caller.owns(owner, &api.services.directory),
        None => caller.0.tenant.is_none(),
    };
    if is_theirs { Ok(resend) } else { Err(Problem::not_found("job", &id.to_string())) }
}
