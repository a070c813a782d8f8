//! Deliveries: list, show, list attempts, cancel, resend.

mod view;

use axum::extract::State;
use breakerbox_model::objects::{
    Delivery, DeliveryFilter, DeliveryId, EndpointId, EventId, EventType, StateName, TenantId,
};
use breakerbox_storage::records::PageOf;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::view::AttemptView;
pub(super) use self::view::{DeliveryView, FailReasonView, StateNameView};
use super::Api;
use super::caller::{Allowed, Caller, Manage, Read};
use super::listing::{Limit, Listed, Paging};
use super::problem::{ApiResult, Problem};
use super::reading::fields::{Moment, Text};
use super::reading::{Named, Query};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(attempts))
        .routes(routes!(cancel))
        .routes(routes!(resend))
}

/// A filter for deliveries. A delivery must match all given conditions.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only deliveries of this tenant.
    #[param(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    tenant: Option<Text<TenantId>>,
    /// Only deliveries to this endpoint.
    #[param(value_type = Option<String>, pattern = "^ep_[0-7][0-9a-hjkmnp-tv-z]{12}$")]
    endpoint: Option<Text<EndpointId>>,
    /// Only deliveries of this event.
    #[param(value_type = Option<String>, pattern = "^evt_[0-7][0-9a-hjkmnp-tv-z]{12}$")]
    event: Option<Text<EventId>>,
    /// Only deliveries of this event type.
    #[param(value_type = Option<String>, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$")]
    r#type: Option<Text<EventType>>,
    /// Only deliveries in this state.
    #[param(value_type = Option<StateNameView>)]
    state: Option<Text<StateName>>,
    /// Only deliveries created at this time or later.
    #[param(value_type = Option<String>, format = "date-time")]
    from: Option<Text<Moment>>,
    /// Only deliveries created before this time.
    #[param(value_type = Option<String>, format = "date-time")]
    until: Option<Text<Moment>>,
    /// Maximum number of items. Default: 50.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 500)]
    limit: Option<Text<Limit>>,
    /// The `next` value of the previous page. Omit it, or leave it empty, for the first page.
    cursor: Option<String>,
}

/// List deliveries
///
/// Newest first. A page may have fewer items than `limit`, or none, even if it is not the last; follow `next` until it
/// is null.
#[utoipa::path(
    get,
    path = "/v1/deliveries",
    operation_id = "list_deliveries",
    tag = "deliveries",
    params(ListQuery),
    responses((status = 200, description = "Deliveries; newest first", body = Listed<DeliveryView>)),
    security(("api_key" = ["read"])),
)]
async fn list(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Query(which): Query<ListQuery>,
) -> ApiResult<axum::Json<Listed<DeliveryView>>> {
    let filter = DeliveryFilter {
        tenant: caller.tenant_seen(which.tenant.map(|tenant| tenant.0), &api.services.directory)?,
        endpoint: which.endpoint.map(|endpoint| endpoint.0),
        event: which.event.map(|event| event.0),
        kind: which.r#type.map(|kind| kind.0),
        state: which.state.map(|state| state.0),
        from: which.from.map(|moment| moment.0.0),
        until: which.until.map(|moment| moment.0.0),
    };
    let page: PageOf = Paging { limit: which.limit, cursor: which.cursor }.into();
    let found = api.services.records.deliveries(&filter, &page).await?;
    Ok(axum::Json(Listed::of(found, |delivery| DeliveryView::new(&api, delivery))))
}

/// Show a delivery
#[utoipa::path(
    get,
    path = "/v1/deliveries/{delivery}",
    operation_id = "show_delivery",
    tag = "deliveries",
    params(("delivery" = String, Path, description = "Delivery ID", pattern = "^dlv_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The delivery", body = DeliveryView)),
    security(("api_key" = ["read"])),
)]
async fn show(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Named(id): Named<DeliveryId>,
) -> ApiResult<axum::Json<DeliveryView>> {
    let delivery = seen(&api, &caller, id).await?;
    Ok(axum::Json(DeliveryView::new(&api, delivery)))
}

/// List the attempts of a delivery
///
/// Newest first.
#[utoipa::path(
    get,
    path = "/v1/deliveries/{delivery}/attempts",
    operation_id = "list_attempts",
    tag = "deliveries",
    params(("delivery" = String, Path, description = "Delivery ID", pattern = "^dlv_[0-7][0-9a-hjkmnp-tv-z]{12}$"), Paging),
    responses((status = 200, description = "Attempts of the delivery; newest first", body = Listed<AttemptView>)),
    security(("api_key" = ["read"])),
)]
async fn attempts(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Named(id): Named<DeliveryId>,
    Query(paging): Query<Paging>,
) -> ApiResult<axum::Json<Listed<AttemptView>>> {
    seen(&api, &caller, id).await?;
    let found = api.services.records.attempts(id, &paging.into()).await?;
    Ok(axum::Json(Listed::of(found, AttemptView::from)))
}

/// Cancel a delivery
///
/// Cancels a pending or retrying delivery. A delivery in flight can't be cancelled: the response decides its state.
#[utoipa::path(
    post,
    path = "/v1/deliveries/{delivery}/cancel",
    operation_id = "cancel_delivery",
    tag = "deliveries",
    params(("delivery" = String, Path, description = "Delivery ID", pattern = "^dlv_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The delivery", body = DeliveryView)),
    security(("api_key" = ["manage"])),
)]
async fn cancel(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<DeliveryId>,
) -> ApiResult<axum::Json<DeliveryView>> {
    seen(&api, &caller, id).await?;
    let delivery = api.services.records.cancel_delivery(id).await?;
    Ok(axum::Json(DeliveryView::new(&api, delivery)))
}

/// Resend a delivery
///
/// Makes a delivered, failed or cancelled delivery pending again, with its full number of attempts.
#[utoipa::path(
    post,
    path = "/v1/deliveries/{delivery}/resend",
    operation_id = "resend_delivery",
    tag = "deliveries",
    params(("delivery" = String, Path, description = "Delivery ID", pattern = "^dlv_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The delivery", body = DeliveryView)),
    security(("api_key" = ["manage"])),
)]
async fn resend(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<DeliveryId>,
) -> ApiResult<axum::Json<DeliveryView>> {
    seen(&api, &caller, id).await?;
    let delivery = api.services.records.resend_delivery(id).await?;
    Ok(axum::Json(DeliveryView::new(&api, delivery)))
}

/// Returns a delivery, if the caller may access it.
async fn seen(api: &Api, caller: &Caller, id: DeliveryId) -> ApiResult<Delivery> {
    let delivery = api.services.records.delivery(id).await?;
    if caller.owns(delivery.owner, &api.services.directory) {
        Ok(delivery)
    } else {
        Err(Problem::not_found("delivery", &id.to_string()))
    }
}
