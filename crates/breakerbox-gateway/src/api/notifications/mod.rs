//! Notifications: list them with their results, and test a tenant's targets.

mod targets;
mod view;

use axum::extract::State;
use breakerbox_model::notifications::NotificationTarget;
use breakerbox_model::objects::TenantId;
use breakerbox_storage::records::{NotificationFilter, PastNotification};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::targets::TargetSecret;
pub(super) use self::targets::{TargetBody, TargetView, checked as checked_targets};
use self::view::{KindName, NotificationView, SendStateName};
use super::Api;
use super::caller::{Allowed, Manage, Read};
use super::listing::{Limit, Listed, Paging};
use super::problem::{ApiResult, Code, Problem};
use super::reading::fields::Text;
use super::reading::{Named, Query};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(test)).routes(routes!(secrets))
}

/// A filter for notifications.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only notifications of this tenant.
    #[param(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    tenant: Option<Text<TenantId>>,
    /// Only notifications of this type.
    kind: Option<KindName>,
    /// Only notifications in this state at one or more targets.
    state: Option<SendStateName>,
    /// Maximum number of items. Default: 50.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 500)]
    limit: Option<Text<Limit>>,
    /// The `next` value of the previous page. Omit it, or leave it empty, for the first page.
    cursor: Option<String>,
}

/// List notifications
///
/// Returns notifications with their results, newest first. A key bound to one tenant sees that tenant's notifications,
/// with the results at the tenant's own targets. A page may have fewer items than `limit`, or none, even if it is not
/// the last; follow `next` until it is null.
#[utoipa::path(
    get,
    path = "/v1/notifications",
    operation_id = "list_notifications",
    tag = "notifications",
    params(ListQuery),
    responses((status = 200, description = "Notifications; newest first", body = Listed<NotificationView>)),
    security(("api_key" = ["read"])),
)]
async fn list(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Query(which): Query<ListQuery>,
) -> ApiResult<axum::Json<Listed<NotificationView>>> {
    let tenant = caller.tenant_seen(which.tenant.map(|tenant| tenant.0), &api.services.directory)?;
    let filter =
        NotificationFilter { tenant, kind: which.kind.map(Into::into), state: which.state.map(Into::into) };
    let paging = Paging { limit: which.limit, cursor: which.cursor };
    let page = api.services.records.notifications(&filter, &paging.into()).await?;
    let shows_operators = caller.0.tenant.is_none();
    let show = |past: PastNotification| {
        let known = known(&api, past.notification.tenant.as_ref());
        NotificationView::new(past, &known, shows_operators)
    };
    Ok(axum::Json(Listed::of(page, show)))
}

/// Returns the operator's targets and, if a tenant is given, the tenant's own targets.
fn known(api: &Api, tenant: Option<&TenantId>) -> Vec<NotificationTarget> {
    let directory = &api.services.directory;
    let entry = tenant.and_then(|tenant| directory.tenant(tenant));
    let own = entry.map(|entry| entry.source.settings.notification_targets.clone()).unwrap_or_default();
    directory.defaults().notification_targets.iter().cloned().chain(own).collect()
}

/// The results of testing a tenant's targets.
#[derive(Serialize, ToSchema)]
#[schema(as = NotificationTest)]
struct TestedView {
    /// The result for each target.
    targets: Vec<TestedTargetView>,
}

/// The result of testing one target.
#[derive(Serialize, ToSchema)]
#[schema(as = TestedTarget)]
struct TestedTargetView {
    /// Target ID.
    #[schema(example = "tgt_01h5k2m8w4c7e")]
    target: String,
    /// The kind of target and its address, without secrets.
    to: String,
    /// Whether the target accepted the notification.
    ok: bool,
    /// The HTTP status of the response, or the error.
    response: String,
}

/// Test the targets of a tenant
///
/// Sends a test notification to each target now, and returns the results. Tests are not retried and not stored. Each
/// target accepts a burst of `notify.burst` tests, and all targets of a tenant together accept a burst of 20. After a
/// burst, each of the two limits allows one more test per `notify.interval`.
#[utoipa::path(
    post,
    path = "/v1/tenants/{tenant}/notifications/test",
    operation_id = "test_notification_targets",
    tag = "notifications",
    params(("tenant" = String, Path, description = "Tenant ID", pattern = "^[A-Za-z0-9._-]{1,64}$")),
    responses((status = 200, description = "The result", body = TestedView)),
    security(("api_key" = ["manage"])),
)]
async fn test(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<TenantId>,
) -> ApiResult<axum::Json<TestedView>> {
    if !caller.sees(&id) {
        return Err(Problem::not_found("tenant", id.as_str()));
    }
    api.services.records.tenant(&id).await?;
    let now = api.now();
    let _place = api.test_sends.place(&id)?;
    let tested = api.services.notification_tests.test(&id).await;
    let tested = tested.map_err(|due| {
        let detail = "too many test notifications to one of the tenant's targets, or to all of them together";
        Problem::new(Code::TestsTooFast, detail).retry_after(due.since(now))
    })?;
    let targets = tested.into_iter().map(|tested| TestedTargetView {
        target: tested.target.name.to_string(),
        to: format!("{} {}", tested.target.way.name(), tested.target.way.shown()),
        ok: tested.delivered.well,
        response: tested.delivered.answer,
    });
    Ok(axum::Json(TestedView { targets: targets.collect() }))
}

/// The signing secrets of a tenant's webhook targets.
#[derive(Serialize, ToSchema)]
#[schema(as = NotificationTargetSecrets)]
struct TargetSecrets {
    /// The secrets, one for each webhook target.
    secrets: Vec<TargetSecret>,
}

/// Show the secrets of a tenant's targets
///
/// Returns the secrets that sign notifications to webhook targets.
#[utoipa::path(
    get,
    path = "/v1/tenants/{tenant}/notifications/secrets",
    operation_id = "show_notification_secrets",
    tag = "notifications",
    params(("tenant" = String, Path, description = "Tenant ID", pattern = "^[A-Za-z0-9._-]{1,64}$")),
    responses((status = 200, description = "The secrets", body = TargetSecrets)),
    security(("api_key" = ["manage"])),
)]
async fn secrets(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<TenantId>,
) -> ApiResult<axum::Json<TargetSecrets>> {
    if !caller.sees(&id) {
        return Err(Problem::not_found("tenant", id.as_str()));
    }
    let tenant = api.services.records.tenant(&id).await?;
    let secrets = tenant.settings.notification_targets.iter().filter_map(TargetSecret::of).collect();
    Ok(axum::Json(TargetSecrets { secrets }))
}
