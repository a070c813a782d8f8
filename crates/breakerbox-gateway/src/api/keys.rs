//! API keys: create (shown once), list, show, revoke.
//!
//! Only an admin key can create keys. A key that is bound to a tenant can create keys only for that tenant.

use axum::extract::State;
use breakerbox_model::objects::{ApiKey, ApiKeyId, ApiKeyText, Scope, Scopes, TenantId};
use breakerbox_storage::records::NewApiKey;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::caller::{Admin, Allowed, Caller};
use super::idempotency::{self, Created, CreatedOnce, KeyHeader, Keyed};
use super::listing::{Listed, PagingOfTenant};
use super::problem::{ApiResult, Problem};
use super::reading::fields::{Moment, Text};
use super::reading::{Json, Named, Query};
use super::tenants::checked_name;

/// The maximum length of a name, in characters.
const LONGEST_NAME: usize = 200;

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(show)).routes(routes!(revoke))
}

/// A permission of an API key.
#[derive(Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Scope)]
enum ScopeView {
    Admin,
    Manage,
    Read,
    Send,
}

impl From<Scope> for ScopeView {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Admin => Self::Admin,
            Scope::Manage => Self::Manage,
            Scope::Read => Self::Read,
            Scope::Send => Self::Send,
        }
    }
}

impl From<ScopeView> for Scope {
    fn from(scope: ScopeView) -> Self {
        match scope {
            ScopeView::Admin => Self::Admin,
            ScopeView::Manage => Self::Manage,
            ScopeView::Read => Self::Read,
            ScopeView::Send => Self::Send,
        }
    }
}

/// An API key to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewApiKey, example = json!({"name": "billing", "scopes": ["send"], "tenant": "acme"}))]
struct KeyBody {
    /// A human-readable name, such as the purpose of the key.
    #[schema(max_length = 200, example = "billing")]
    name: String,
    /// The scopes. `admin` includes all others; `manage` includes `read`.
    #[schema(min_items = 1, max_items = 4)]
    scopes: Vec<ScopeView>,
    /// The tenant that the key is bound to. Default: the tenant of the calling key, or all tenants.
    #[serde(default)]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    tenant: Option<Text<TenantId>>,
    /// The time at which the key expires. Default: never.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = "date-time")]
    expires_at: Option<Text<Moment>>,
}

/// An API key, without the key itself.
#[derive(Serialize, ToSchema)]
#[schema(as = ApiKey)]
struct KeyView {
    /// API key ID; not a secret.
    #[schema(example = "key_01h5k2m8w4c7e")]
    id: String,
    /// A human-readable name, such as the purpose of the key.
    name: String,
    /// The scopes. `admin` includes all others; `manage` includes `read`.
    scopes: Vec<ScopeView>,
    /// The tenant that the key is bound to; null means all tenants.
    tenant: Option<String>,
    /// The time of creation.
    #[schema(value_type = String, format = "date-time")]
    created_at: Moment,
    /// The time at which the key expires; null means never.
    #[schema(value_type = Option<String>, format = "date-time")]
    expires_at: Option<Moment>,
    /// The time at which the key was revoked; null if it was not revoked.
    #[schema(value_type = Option<String>, format = "date-time")]
    revoked_at: Option<Moment>,
}

impl From<&ApiKey> for KeyView {
    fn from(key: &ApiKey) -> Self {
        Self {
            id: key.id.to_string(),
            name: key.name.clone(),
            scopes: key.scopes.iter().map(ScopeView::from).collect(),
            tenant: key.tenant.as_ref().map(TenantId::to_string),
            created_at: Moment(key.created_at),
            expires_at: key.expires_at.map(Moment),
            revoked_at: key.revoked_at.map(Moment),
        }
    }
}

/// A new API key, including the key itself.
#[derive(Serialize, ToSchema)]
#[schema(as = CreatedApiKey)]
struct CreatedKeyView {
    #[serde(flatten)]
    shown: KeyView,
    /// The key itself. It is shown only once.
    #[schema(example = "bbx_...")]
    key: String,
}

/// List API keys
///
/// Newest first, including revoked and expired keys.
#[utoipa::path(
    get,
    path = "/v1/keys",
    operation_id = "list_keys",
    tag = "keys",
    params(PagingOfTenant),
    responses((status = 200, description = "API keys; newest first", body = Listed<KeyView>)),
    security(("api_key" = ["admin"])),
)]
async fn list(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Admin>,
    Query(query): Query<PagingOfTenant>,
) -> ApiResult<axum::Json<Listed<KeyView>>> {
    let (tenant, page) = query.split();
    let tenant = caller.tenant_seen(tenant, &api.services.directory)?;
    let found = api.services.records.api_keys(tenant.as_ref(), &page).await?;
    Ok(axum::Json(Listed::of(found, |key| KeyView::from(&key))))
}

/// Create an API key
///
/// The response contains the key itself. It is shown only once.
#[utoipa::path(
    post,
    path = "/v1/keys",
    operation_id = "create_key",
    tag = "keys",
    request_body = KeyBody,
    params(KeyHeader),
    responses((status = 201, description = "The key", body = CreatedKeyView)),
    security(("api_key" = ["admin"])),
)]
async fn create(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Admin>,
    Keyed(Json(body), key): Keyed<Json<KeyBody>>,
) -> ApiResult<CreatedOnce> {
    let scopes: Vec<Scope> = body.scopes.into_iter().map(Scope::from).collect();
    if scopes.is_empty() {
        return Err(Problem::invalid("scopes", "must be at least one of admin, manage, read and send"));
    }
    let expires_at = body.expires_at.map(|moment| moment.0.0);
    if expires_at.is_some_and(|expires_at| expires_at <= api.wall()) {
        return Err(Problem::invalid("expires_at", "must be in the future"));
    }
    let text = ApiKeyText::random();
    let new = NewApiKey {
        hash: text.hash(),
        name: checked_name("name", body.name, LONGEST_NAME)?,
        scopes: Scopes::of(&scopes),
        tenant: caller.tenant_seen(body.tenant.map(|tenant| tenant.0), &api.services.directory)?,
        expires_at,
    };
    let scope = new.tenant.clone();
    let request = idempotency::request(key, scope.as_ref(), move |key: &ApiKey| {
        let view = CreatedKeyView { shown: KeyView::from(key), key: text.reveal() };
        Created::new(key.id, &view).secret(true)
    });
    Ok(api.services.records.create_api_key_for(request, new).await?.into())
}

/// Show an API key
#[utoipa::path(
    get,
    path = "/v1/keys/{key}",
    operation_id = "show_key",
    tag = "keys",
    params(("key" = String, Path, description = "API key ID, not the key itself", pattern = "^key_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The API key", body = KeyView)),
    security(("api_key" = ["admin"])),
)]
async fn show(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Admin>,
    Named(id): Named<ApiKeyId>,
) -> ApiResult<axum::Json<KeyView>> {
    Ok(axum::Json((&seen(&api, &caller, id).await?).into()))
}

/// Revoke an API key
///
/// Requests with the key are refused as soon as this response is sent.
#[utoipa::path(
    post,
    path = "/v1/keys/{key}/revoke",
    operation_id = "revoke_key",
    tag = "keys",
    params(("key" = String, Path, description = "API key ID, not the key itself", pattern = "^key_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The API key", body = KeyView)),
    security(("api_key" = ["admin"])),
)]
async fn revoke(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Admin>,
    Named(id): Named<ApiKeyId>,
) -> ApiResult<axum::Json<KeyView>> {
    seen(&api, &caller, id).await?;
    Ok(axum::Json((&api.services.records.revoke_api_key(id).await?).into()))
}

/// Returns an API key, if the caller may access it. A caller whose key is bound to a tenant can't see keys for all
/// tenants.
async fn seen(api: &Api, caller: &Caller, id: ApiKeyId) -> ApiResult<ApiKey> {
    let key = api.services.records.api_key(id).await?;
    let is_theirs = match &key.tenant {
        Some(tenant) => caller.sees(tenant),
        None => caller.0.tenant.is_none(),
    };
    if is_theirs { Ok(key) } else { Err(Problem::not_found("API key", &id.to_string())) }
}
