//! Tenants: create, list, show, change, delete; and the secrets that sign deliveries to dynamic URLs.
//!
//! A key with the scope `manage` may rename a tenant, enable and disable it, and set its retry schedule and its
//! notification targets. Policy, `circuit_by`, limits and response rules need an admin key. Limits need an admin key
//! for all tenants: a tenant's own admin key can neither raise nor lower them.

mod reminders;
mod view;

use std::sync::{Arc, OnceLock};

use axum::extract::State;
use breakerbox_model::notifications::NotificationTarget;
use breakerbox_model::objects::{Scope, Tenant, TenantId, TenantSettings};
use breakerbox_storage::records::{NewTenant, Page, PageOf};
use http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) use self::view::{CircuitByName, RateView, checked_name, checked_policy};
use self::view::{TenantBody, TenantChange, TenantView};
use super::Api;
use super::caller::{Admin, Allowed, Caller, Manage, Read};
use super::circuits::reset_circuits_of;
use super::endpoints::{NewSecret, SecretsView};
use super::idempotency::{self, Created, CreatedOnce, KeyHeader, Keyed};
use super::listing::{Listed, Paging};
use super::problem::{ApiResult, Problem};
use super::reading::{Json, Named, OptionalJson, Query};
use super::revision::{IfMatch, Revised};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show, change, delete))
        .routes(routes!(secrets))
        .routes(routes!(rotate_secret))
}

/// List tenants
///
/// Ordered by ID. A key bound to one tenant sees only that tenant.
#[utoipa::path(
    get,
    path = "/v1/tenants",
    operation_id = "list_tenants",
    tag = "tenants",
    params(Paging),
    responses((status = 200, description = "Tenants, ordered by ID", body = Listed<TenantView>)),
    security(("api_key" = ["read"])),
)]
async fn list(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Query(paging): Query<Paging>,
) -> ApiResult<axum::Json<Listed<TenantView>>> {
    let page: PageOf = paging.into();
    let found = match &caller.0.tenant {
        None => api.services.records.tenants(&page).await?,
        Some(own) => Page { items: vec![api.services.records.tenant(own).await?], next: None },
    };
    Ok(axum::Json(Listed::of(found, TenantView::from)))
}

/// Create a tenant
///
/// Needs an admin key for all tenants.
#[utoipa::path(
    post,
    path = "/v1/tenants",
    operation_id = "create_tenant",
    tag = "tenants",
    request_body = TenantBody,
    params(KeyHeader),
    responses((status = 201, description = "The tenant", body = TenantView, headers(("etag" = String)))),
    security(("api_key" = ["admin"])),
)]
async fn create(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Admin>,
    Keyed(Json(mut body), key): Keyed<Json<TenantBody>>,
) -> ApiResult<CreatedOnce> {
    caller.needs_all_tenants("creating a tenant")?;
    let settings = body.take_settings().onto(TenantSettings::new(body.id.0.as_str()), &api.services)?;
    let id = body.id.0;
    id.check_new().map_err(|why| Problem::invalid("id", why))?;
    if api.services.directory.tenant(&id).is_none() {
        reset_circuits_of(&api, &caller, &id).await?;
    }
    let new = NewTenant { id, settings, secret: body.secret.map(|secret| secret.0) };
    let request = idempotency::request(key, None, |tenant: &Tenant| {
        let view = TenantView::changed(tenant.clone(), &[]);
        Created::new(&tenant.id, &view).revised(tenant.revision).secret(view.has_secret())
    });
    Ok(api.services.records.create_tenant_for(request, new).await?.into())
}

/// Show a tenant
#[utoipa::path(
    get,
    path = "/v1/tenants/{tenant}",
    operation_id = "show_tenant",
    tag = "tenants",
    params(("tenant" = String, Path, description = "Tenant ID", pattern = "^[A-Za-z0-9._-]{1,64}$")),
    responses((status = 200, description = "The tenant", body = TenantView, headers(("etag" = String)))),
    security(("api_key" = ["read"])),
)]
async fn show(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Named(id): Named<TenantId>,
) -> ApiResult<Revised<TenantView>> {
    let tenant = seen(&api, &caller, &id).await?;
    Ok(Revised(tenant.revision, tenant.into()))
}

/// Change a tenant
///
/// Omitted fields stay unchanged, including those in `reminders`; `null` restores the default. `policy`, `circuit_by`
/// and `response_rules` need an admin key, including those in `reminders`. Limits (`backlog`, `ingest_rate`,
/// `reminders.limit`, and `reminders` as `null`) need an admin key for all tenants, because they protect other tenants.
#[utoipa::path(
    patch,
    path = "/v1/tenants/{tenant}",
    operation_id = "change_tenant",
    tag = "tenants",
    request_body = TenantChange,
    params(
        ("tenant" = String, Path, description = "Tenant ID", pattern = "^[A-Za-z0-9._-]{1,64}$"),
        ("if-match" = Option<String>, Header, description = "Change the resource only if its `etag` still has this value", min_length = 1, pattern = "^(\\*|\"[1-9][0-9]{0,17}\")$"),
    ),
    responses((status = 200, description = "The tenant", body = TenantView, headers(("etag" = String)))),
    security(("api_key" = ["manage"])),
)]
async fn change(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<TenantId>,
    IfMatch(revision): IfMatch,
    Json(body): Json<TenantChange>,
) -> ApiResult<Revised<TenantView>> {
    if let Some(field) = body.admins_field() {
        caller.needs(Scope::Admin, &format!("changing {field}"))?;
    }
    if let Some(field) = body.limits_field() {
        let allowed = caller.needs_all_tenants(&format!("{field}: changing it"));
        allowed.map_err(|problem| problem.of_field(field))?;
    }
    seen(&api, &caller, &id).await?;
    let targets: Arc<OnceLock<Vec<NotificationTarget>>> = Arc::default();
    let (services, targets_before) = (api.services.clone(), Arc::clone(&targets));
    let edit = move |stored: &Tenant| {
        // This is the only place that sets it.
        let _ = targets_before.set(stored.settings.notification_targets.clone());
        Ok(body.onto(stored.settings.clone(), &services)?)
    };
    let tenant = api.services.records.edit_tenant(&id, Box::new(edit), revision).await?;
    Ok(Revised(tenant.revision, TenantView::changed(tenant, targets.get().map_or(&[], Vec::as_slice))))
}

/// Delete a tenant
///
/// The tenant must have no endpoints, reminders or unfinished deliveries. Its API keys are deleted, too. Needs an admin
/// key for all tenants.
#[utoipa::path(
    delete,
    path = "/v1/tenants/{tenant}",
    operation_id = "delete_tenant",
    tag = "tenants",
    params(
        ("tenant" = String, Path, description = "Tenant ID", pattern = "^[A-Za-z0-9._-]{1,64}$"),
        ("if-match" = Option<String>, Header, description = "Delete the resource only if its `etag` still has this value", min_length = 1, pattern = "^(\\*|\"[1-9][0-9]{0,17}\")$"),
    ),
    responses((status = 204, description = "Deleted")),
    security(("api_key" = ["admin"])),
)]
async fn delete(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Admin>,
    Named(id): Named<TenantId>,
    IfMatch(revision): IfMatch,
) -> ApiResult<StatusCode> {
    if !caller.sees(&id) {
        return Err(Problem::not_found("tenant", id.as_str()));
    }
    caller.needs_all_tenants("deleting a tenant")?;
    api.services.records.delete_tenant(&id, revision).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Show the secrets of a tenant
///
/// Returns the secrets that sign reminders and deliveries to dynamic URLs, newest first.
#[utoipa::path(
    get,
    path = "/v1/tenants/{tenant}/secrets",
    operation_id = "show_tenant_secrets",
    tag = "tenants",
    params(("tenant" = String, Path, description = "Tenant ID", pattern = "^[A-Za-z0-9._-]{1,64}$")),
    responses((status = 200, description = "The secrets", body = SecretsView)),
    security(("api_key" = ["manage"])),
)]
async fn secrets(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<TenantId>,
) -> ApiResult<axum::Json<SecretsView>> {
    let tenant = seen(&api, &caller, &id).await?;
    Ok(axum::Json(SecretsView::new(&tenant.secrets, api.wall())))
}

/// Rotate the secret of a tenant
///
/// Requests are signed with the new secret immediately, and during `overlap` also with the previous one.
#[utoipa::path(
    post,
    path = "/v1/tenants/{tenant}/secrets/rotate",
    operation_id = "rotate_tenant_secret",
    tag = "tenants",
    request_body(content = Option<NewSecret>),
    params(KeyHeader, ("tenant" = String, Path, description = "Tenant ID", pattern = "^[A-Za-z0-9._-]{1,64}$")),
    responses((status = 200, description = "The secrets", body = SecretsView)),
    security(("api_key" = ["manage"])),
)]
async fn rotate_secret(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Manage>,
    Named(id): Named<TenantId>,
    Keyed(OptionalJson(body), key): Keyed<OptionalJson<NewSecret>>,
) -> ApiResult<CreatedOnce> {
    seen(&api, &caller, &id).await?;
    let (secret, overlap) = body.split()?;
    let now = api.wall();
    let request = idempotency::request(key, Some(&id), move |tenant: &Tenant| {
        SecretsView::new(&tenant.secrets, now).rotated(&tenant.id)
    });
    Ok(api.services.records.rotate_tenant_secret_for(request, &id, secret, overlap).await?.into())
}

/// Returns a tenant, if the caller may access it.
pub(super) async fn seen(api: &Api, caller: &Caller, id: &TenantId) -> ApiResult<Tenant> {
    if !caller.sees(id) {
        return Err(Problem::not_found("tenant", id.as_str()));
    }
    Ok(api.services.records.tenant(id).await?)
}
