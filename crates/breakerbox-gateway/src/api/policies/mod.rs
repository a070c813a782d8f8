//! Effective policies: shows every value with its origin, and changes single values.
//!
//! A tenant's policy overrides the gateway's, and an endpoint's overrides its tenant's; reminders have a separate
//! policy. The values shown are those in effect now. A change is validated together with the layers below and above it,
//! and takes effect with the next outcome; circuits keep their state, counts and times.

mod names;

use axum::extract::State;
use breakerbox_model::objects::{Endpoint, EndpointId, Purpose, Revision, Tenant, TenantId};
use breakerbox_storage::RecordsError;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) use self::names::NamesView;
use self::names::PolicyChange;
use super::Api;
use super::caller::{Admin, Allowed, Read};
use super::circuits::PurposeView;
use super::problem::{ApiResult, Code, Problem};
use super::reading::{Json, Named};
use super::revision::{IfMatch, Revised};
use super::tenants::CircuitByName;
use super::{endpoints, tenants};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(of_tenant, change_of_tenant))
        .routes(routes!(of_reminders, change_of_reminders))
        .routes(routes!(of_endpoint, change_of_endpoint))
}

/// The effective policy for circuits, with the origin of each value.
#[derive(Serialize, ToSchema)]
#[schema(as = EffectivePolicy)]
struct PolicyView {
    /// Tenant ID.
    tenant: String,
    /// Endpoint ID; null for a tenant's policy.
    endpoint: Option<String>,
    /// The kind of calls that the circuits are for.
    purpose: PurposeView,
    /// The requests that share a circuit: those to one `endpoint`, to one `host`, or all of the `tenant`.
    circuit_by: CircuitByName,
    /// The values that this tenant or endpoint sets itself; null if it sets none.
    #[schema(value_type = Option<Object>)]
    own: Option<Value>,
    /// The endpoint whose policy or timeout applies to this circuit; null if the tenant's applies. Always null unless
    /// `circuit_by` is `endpoint`. If several endpoints have the same URL, and so share a circuit, the oldest one with
    /// its own policy or timeout decides.
    decided_by: Option<String>,
    /// All values, with the names used in policy files.
    policy: NamesView,
}

/// Show the effective policy of a tenant
///
/// Returns each policy value with its inherited default and its origin.
#[utoipa::path(
    get,
    path = "/v1/tenants/{tenant}/policy",
    operation_id = "show_tenant_policy",
    tag = "policies",
    params(("tenant" = String, Path, description = "Tenant ID", pattern = "^[A-Za-z0-9._-]{1,64}$")),
    responses((status = 200, description = "The policy", body = PolicyView, headers(("etag" = String)))),
    security(("api_key" = ["read"])),
)]
async fn of_tenant(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Named(id): Named<TenantId>,
) -> ApiResult<Revised<PolicyView>> {
    tenants::seen(&api, &caller, &id).await?;
    shown_of_tenant(&api, &id, Purpose::Deliveries)
}

/// Change the policy of a tenant
///
/// Omitted values stay unchanged; `null` removes the tenant's own value, so that the inherited one applies. The change
/// takes effect with the next outcome; circuits keep their state, counts and times.
#[utoipa::path(
    patch,
    path = "/v1/tenants/{tenant}/policy",
    operation_id = "change_tenant_policy",
    tag = "policies",
    request_body = PolicyChange,
    params(
        ("tenant" = String, Path, description = "Tenant ID", pattern = "^[A-Za-z0-9._-]{1,64}$"),
        ("if-match" = Option<String>, Header, description = "Change the policy only if the `etag` of the tenant still has this value", min_length = 1, pattern = "^(\\*|\"[1-9][0-9]{0,17}\")$"),
    ),
    responses((status = 200, description = "The policy", body = PolicyView, headers(("etag" = String)))),
    security(("api_key" = ["admin"])),
)]
async fn change_of_tenant(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Admin>,
    Named(id): Named<TenantId>,
    IfMatch(revision): IfMatch,
    Json(change): Json<PolicyChange>,
) -> ApiResult<Revised<PolicyView>> {
    changed_of_tenant(&api, tenants::seen(&api, &caller, &id).await?, Purpose::Deliveries, revision, change)
        .await
}

/// Show the effective policy of a tenant's reminders
///
/// Reminders have their own circuits. Their policy is the preset `reminders`, overridden by the tenant's settings for
/// reminders (origin `reminders`). The tenant's own `policy` applies to deliveries.
#[utoipa::path(
    get,
    path = "/v1/tenants/{tenant}/reminders/policy",
    operation_id = "show_reminder_policy",
    tag = "policies",
    params(("tenant" = String, Path, description = "Tenant ID", pattern = "^[A-Za-z0-9._-]{1,64}$")),
    responses((status = 200, description = "The policy", body = PolicyView, headers(("etag" = String)))),
    security(("api_key" = ["read"])),
)]
async fn of_reminders(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Named(id): Named<TenantId>,
) -> ApiResult<Revised<PolicyView>> {
    tenants::seen(&api, &caller, &id).await?;
    shown_of_tenant(&api, &id, Purpose::Reminders)
}

/// Change the policy of a tenant's reminders
///
/// Omitted values stay unchanged; `null` removes the value set for reminders, so that the inherited one applies. The
/// change takes effect with the next outcome; circuits keep their state, counts and times.
#[utoipa::path(
    patch,
    path = "/v1/tenants/{tenant}/reminders/policy",
    operation_id = "change_reminder_policy",
    tag = "policies",
    request_body = PolicyChange,
    params(
        ("tenant" = String, Path, description = "Tenant ID", pattern = "^[A-Za-z0-9._-]{1,64}$"),
        ("if-match" = Option<String>, Header, description = "Change the policy only if the `etag` of the tenant still has this value", min_length = 1, pattern = "^(\\*|\"[1-9][0-9]{0,17}\")$"),
    ),
    responses((status = 200, description = "The policy", body = PolicyView, headers(("etag" = String)))),
    security(("api_key" = ["admin"])),
)]
async fn change_of_reminders(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Admin>,
    Named(id): Named<TenantId>,
    IfMatch(revision): IfMatch,
    Json(change): Json<PolicyChange>,
) -> ApiResult<Revised<PolicyView>> {
    changed_of_tenant(&api, tenants::seen(&api, &caller, &id).await?, Purpose::Reminders, revision, change)
        .await
}

/// Show the effective policy of an endpoint
///
/// Returns each policy value with its inherited default and its origin.
#[utoipa::path(
    get,
    path = "/v1/endpoints/{endpoint}/policy",
    operation_id = "show_endpoint_policy",
    tag = "policies",
    params(("endpoint" = String, Path, description = "Endpoint ID", pattern = "^ep_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
    responses((status = 200, description = "The policy", body = PolicyView, headers(("etag" = String)))),
    security(("api_key" = ["read"])),
)]
async fn of_endpoint(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Named(id): Named<EndpointId>,
) -> ApiResult<Revised<PolicyView>> {
    endpoints::seen(&api, &caller, id).await?;
    shown_of_endpoint(&api, id)
}

/// Change the policy of an endpoint
///
/// Omitted values stay unchanged; `null` removes the endpoint's own value, so that the tenant's applies. The change
/// takes effect with the next outcome; the circuit keeps its state, counts and times. Unless `circuit_by` is
/// `endpoint`, the policy is stored but not used.
#[utoipa::path(
    patch,
    path = "/v1/endpoints/{endpoint}/policy",
    operation_id = "change_endpoint_policy",
    tag = "policies",
    request_body = PolicyChange,
    params(
        ("endpoint" = String, Path, description = "Endpoint ID", pattern = "^ep_[0-7][0-9a-hjkmnp-tv-z]{12}$"),
        ("if-match" = Option<String>, Header, description = "Change the policy only if the `etag` of the endpoint still has this value", min_length = 1, pattern = "^(\\*|\"[1-9][0-9]{0,17}\")$"),
    ),
    responses((status = 200, description = "The policy", body = PolicyView, headers(("etag" = String)))),
    security(("api_key" = ["admin"])),
)]
async fn change_of_endpoint(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Admin>,
    Named(id): Named<EndpointId>,
    IfMatch(revision): IfMatch,
    Json(change): Json<PolicyChange>,
) -> ApiResult<Revised<PolicyView>> {
    endpoints::seen(&api, &caller, id).await?;
    let edit = move |stored: &Endpoint| {
        let mut settings = stored.settings.clone();
        settings.policy = change.onto(settings.policy);
        Ok(settings)
    };
    api.services.records.edit_endpoint(id, Box::new(edit), revision).await.map_err(refused)?;
    shown_of_endpoint(&api, id)
}

async fn changed_of_tenant(
    api: &Api,
    tenant: Tenant,
    purpose: Purpose,
    revision: Option<Revision>,
    change: PolicyChange,
) -> ApiResult<Revised<PolicyView>> {
    let edit = move |stored: &Tenant| {
        let mut settings = stored.settings.clone();
        let own = match purpose {
            Purpose::Deliveries => &mut settings.policy,
            Purpose::Reminders => &mut settings.reminders.policy,
        };
        *own = change.onto(own.take());
        Ok(settings)
    };
    api.services.records.edit_tenant(&tenant.id, Box::new(edit), revision).await.map_err(refused)?;
    shown_of_tenant(api, &tenant.id, purpose)
}

fn shown_of_tenant(api: &Api, id: &TenantId, purpose: Purpose) -> ApiResult<Revised<PolicyView>> {
    let directory = &api.services.directory;
    // The tenant may have been deleted in the meantime.
    let tenant = directory.tenant(id).ok_or_else(|| Problem::not_found("tenant", id.as_str()))?;
    let (settings, defaults) = (&tenant.source.settings, directory.defaults());
    let (circuit_by, own, explained) = match purpose {
        Purpose::Deliveries => (tenant.circuit_by, &settings.policy, tenant.explained_policy(defaults)),
        Purpose::Reminders => {
            let reminders = &tenant.reminders;
            (reminders.circuit_by, &settings.reminders.policy, reminders.explained_policy(defaults))
        }
    };
    let view = PolicyView {
        tenant: id.to_string(),
        endpoint: None,
        purpose: purpose.into(),
        circuit_by: circuit_by.into(),
        own: own.clone(),
        decided_by: None,
        policy: explained?.into_iter().collect(),
    };
    Ok(Revised(tenant.source.revision, view))
}

fn shown_of_endpoint(api: &Api, id: EndpointId) -> ApiResult<Revised<PolicyView>> {
    let directory = &api.services.directory;
    let endpoint = directory.endpoint(id.into());
    let endpoint = endpoint.ok_or_else(|| Problem::not_found("endpoint", &id.to_string()))?;
    let deciding = directory.deciding(&endpoint.circuit);
    let view = PolicyView {
        tenant: endpoint.tenant.id.to_string(),
        endpoint: Some(id.to_string()),
        purpose: PurposeView::Deliveries,
        circuit_by: endpoint.tenant.circuit_by.into(),
        own: endpoint.source.settings.policy.clone(),
        decided_by: deciding.as_ref().map(|deciding| deciding.id.to_string()),
        policy: deciding.as_ref().unwrap_or(&endpoint).explained_policy()?.into_iter().collect(),
    };
    Ok(Revised(endpoint.source.revision, view))
}

/// Maps the error for an invalid policy to a problem. Its field has no prefix `policy.`, because the policy is the
/// whole request body.
fn refused(error: RecordsError) -> Problem {
    match error {
        RecordsError::Policy(why) | RecordsError::ReminderPolicy(why) => {
            Problem::new(Code::InvalidField, why).of_policy()
        }
        other => other.into(),
    }
}
