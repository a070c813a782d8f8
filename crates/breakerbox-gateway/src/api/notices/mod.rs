//! Notifications: list with their results, and test a tenant's targets.

mod targets;
mod view;

use axum::extract::State;
use breakerbox_model::notifications::NoticeTarget;
use breakerbox_model::objects::TenantId;
use breakerbox_storage::records::{NoticeFilter, PastNotice};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::targets::TargetSecret;
pub(super) use self::targets::{TargetBody, TargetView, checked as checked_targets};
use self::view::{KindName, NoticeView, SendStateName};
use super::Api;
use super::caller::{Allowed, Manage, Read};
use super::listing::{Limit, Listed, Paging};
use super::problem::{ApiResult, Code, Problem};
use super::reading::fields::Text;
use super::reading::{Named, Query};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(test)).routes(routes!(secrets))
}

/// Which notices.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only this tenant's.
    #[param(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    tenant: Option<Text<TenantId>>,
    /// Only of this kind.
    #[param(inline)]
    kind: Option<KindName>,
    /// Only those that are in this state at any target.
    #[param(inline)]
    state: Option<SendStateName>,
    /// At most so many; 50 if nothing is said.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 500)]
    limit: Option<Text<Limit>>,
    /// The `next` of the page before; empty or absent: the first page.
    cursor: Option<String>,
}

/// List notices
///
/// What people were told, to whom and with what result, the newest first. A key for one tenant sees that tenant's notices, and
/// what became of them at its own targets. A page may be short, or empty, and not the last.
#[utoipa::path(
    get,
    path = "/v1/notices",
    tag = "notices",
    params(ListQuery),
    responses((status = 200, description = "Notices, the newest first", body = Listed<NoticeView>)),
    security(("api_key" = ["read"])),
)]
async fn list(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Query(which): Query<ListQuery>,
) -> ApiResult<axum::Json<Listed<NoticeView>>> {
    let tenant = caller.tenant_seen(which.tenant.map(|tenant| tenant.0))?;
    let filter =
        NoticeFilter { tenant, kind: which.kind.map(Into::into), state: which.state.map(Into::into) };
    let paging = Paging { limit: which.limit, cursor: which.cursor };
    let page = api.services.records.notices(&filter, &paging.into()).await?;
    let shows_operators = caller.0.tenant.is_none();
    let show = |past: PastNotice| {
        let known = known(&api, past.notice.tenant.as_ref());
        NoticeView::new(past, &known, shows_operators)
    };
    Ok(axum::Json(Listed::of(page, show)))
}

/// Returns all targets to which a notification of this tenant may have been sent.
fn known(api: &Api, tenant: Option<&TenantId>) -> Vec<NoticeTarget> {
    let directory = &api.services.directory;
    let entry = tenant.and_then(|tenant| directory.tenant(tenant));
    let own = entry.map(|entry| entry.source.settings.notices.clone()).unwrap_or_default();
    directory.defaults().notices.iter().cloned().chain(own).collect()
}

/// What came of a test.
#[derive(Serialize, ToSchema)]
struct TestedView {
    /// Each target, and what it answered.
    #[schema(inline)]
    targets: Vec<TestedTargetView>,
}

/// What one target answered.
#[derive(Serialize, ToSchema)]
struct TestedTargetView {
    /// The target.
    #[schema(example = "tgt_01h5k2m8w4c7e")]
    target: String,
    /// How and where to.
    to: String,
    /// Whether it took the notice.
    ok: bool,
    /// What it answered: a status, or why there was none.
    answer: String,
}

/// Try a tenant's targets
///
/// Sends a test notice to each of them, now, and says what each answered. It is not retried, and kept nowhere. Tests are paced:
/// one target takes `notify.burst` of them at once and then one in each `notify.interval`, a tenant 20 for all its targets.
#[utoipa::path(
    post,
    path = "/v1/tenants/{tenant}/notices/test",
    tag = "notices",
    params(("tenant" = String, Path, description = "The tenant's id", pattern = "^[A-Za-z0-9._-]{1,64}$")),
    responses((status = 200, description = "What came of it", body = TestedView)),
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
    let tested = api.services.notice_tests.test(&id).await;
    let tested = tested.map_err(|due| {
        let detail = "too many test notices went to one of the tenant's targets, or to all of them together";
        Problem::new(Code::TestsTooFast, detail).retry_after(due.since(now))
    })?;
    let targets = tested.into_iter().map(|tested| TestedTargetView {
        target: tested.target.name.to_string(),
        to: format!("{} {}", tested.target.way.name(), tested.target.way.shown()),
        ok: tested.delivered.well,
        answer: tested.delivered.answer,
    });
    Ok(axum::Json(TestedView { targets: targets.collect() }))
}

/// The secrets of a tenant's webhooks.
#[derive(Serialize, ToSchema)]
struct TargetSecrets {
    /// One for each webhook.
    #[schema(inline)]
    secrets: Vec<TargetSecret>,
}

/// Show the secrets of a tenant's targets
///
/// What notices to its webhooks are signed with.
#[utoipa::path(
    get,
    path = "/v1/tenants/{tenant}/notices/secrets",
    tag = "notices",
    params(("tenant" = String, Path, description = "The tenant's id", pattern = "^[A-Za-z0-9._-]{1,64}$")),
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
    let secrets = tenant.settings.notices.iter().filter_map(TargetSecret::of).collect();
    Ok(axum::Json(TargetSecrets { secrets }))
}
