//! Policies in force: every value with its origin, and changes of single values.
//!
//! A tenant's policy overrides the gateway's, and an endpoint's overrides its tenant's; reminders have a policy of
//! their own. The values shown are those in force now. A change is checked together with the layers below and above it,
//! and takes effect with the next outcome: state, counts and times of circuits stay.

mod names;

use axum::extract::State;
use breakerbox_model::objects::{Endpoint, EndpointId, Purpose, Revision, Tenant, TenantId};
use breakerbox_storage::RecordsError;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::names::{NamesView, PolicyChange};
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

/// A policy in force, and where each of its values is from.
#[derive(Serialize, ToSchema)]
#[schema(as = EffectivePolicy)]
struct PolicyView {
    /// Whose circuits.
    tenant: String,
    /// Which endpoint's circuit; null: the tenant's circuits.
    endpoint: Option<String>,
    /// What those circuits are for.
    #[schema(inline)]
    purpose: PurposeView,
    /// Who shares a circuit.
    #[schema(inline)]
    circuit_by: CircuitByName,
    /// What is said here and nowhere else; null: nothing.
    #[schema(value_type = Option<Object>)]
    own: Option<Value>,
    /// The endpoint whose own policy or timeout holds for this circuit; null: the tenant's holds. It is always null unless
    /// circuits are by endpoint; of several endpoints with one URL, and so with one circuit, it is the oldest that has its own.
    decided_by: Option<String>,
    /// Every name of the policy file.
    policy: NamesView,
}

/// Show a tenant's policy in force
///
/// Every name of the policy file with its value, what would hold without a word of the tenant's, and where the value is from.
#[utoipa::path(
    get,
    path = "/v1/tenants/{tenant}/policy",
    tag = "policies",
    params(("tenant" = String, Path, description = "The tenant's id", pattern = "^[A-Za-z0-9._-]{1,64}$")),
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

/// Change a tenant's policy
///
/// What is left out stays; `null` removes the tenant's own value, and what is below holds again. It holds at once: state, counts
/// and times of circuits stay, and the next outcome is judged by it.
#[utoipa::path(
    patch,
    path = "/v1/tenants/{tenant}/policy",
    tag = "policies",
    request_body = PolicyChange,
    params(
        ("tenant" = String, Path, description = "The tenant's id", pattern = "^[A-Za-z0-9._-]{1,64}$"),
        ("if-match" = Option<String>, Header, description = "Change it only if this is still the tenant's `etag`", min_length = 1, pattern = "^(\\*|\"[1-9][0-9]{0,17}\")$"),
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

/// Show the policy in force for a tenant's reminders
///
/// Reminders have circuits of their own. Their policy begins from the preset `reminders`, and what is said on reminders (origin
/// `reminders`) lies over that. The tenant's other policy is for deliveries.
#[utoipa::path(
    get,
    path = "/v1/tenants/{tenant}/reminders/policy",
    tag = "policies",
    params(("tenant" = String, Path, description = "The tenant's id", pattern = "^[A-Za-z0-9._-]{1,64}$")),
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
/// As a tenant's policy is changed: what is left out stays, `null` brings back what is below, and it holds at once.
#[utoipa::path(
    patch,
    path = "/v1/tenants/{tenant}/reminders/policy",
    tag = "policies",
    request_body = PolicyChange,
    params(
        ("tenant" = String, Path, description = "The tenant's id", pattern = "^[A-Za-z0-9._-]{1,64}$"),
        ("if-match" = Option<String>, Header, description = "Change it only if this is still the tenant's `etag`", min_length = 1, pattern = "^(\\*|\"[1-9][0-9]{0,17}\")$"),
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

/// Show an endpoint's policy in force
///
/// Every name of the policy file with its value, what would hold without a word of the endpoint's, and where the value is from.
#[utoipa::path(
    get,
    path = "/v1/endpoints/{endpoint}/policy",
    tag = "policies",
    params(("endpoint" = String, Path, description = "The endpoint's id", pattern = "^ep_[0-7][0-9a-hjkmnp-tv-z]{12}$")),
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

/// Change an endpoint's policy
///
/// What is left out stays; `null` removes the endpoint's own value, and the tenant's holds again. It holds at once: state, counts
/// and times of the circuit stay, and the next outcome is judged by it. Where circuits are not by endpoint it is kept, but does
/// not count.
#[utoipa::path(
    patch,
    path = "/v1/endpoints/{endpoint}/policy",
    tag = "policies",
    request_body = PolicyChange,
    params(
        ("endpoint" = String, Path, description = "The endpoint's id", pattern = "^ep_[0-7][0-9a-hjkmnp-tv-z]{12}$"),
        ("if-match" = Option<String>, Header, description = "Change it only if this is still the endpoint's `etag`", min_length = 1, pattern = "^(\\*|\"[1-9][0-9]{0,17}\")$"),
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
    // The tenant may be deleted at this moment.
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

/// Maps the error of a policy that was sent alone: the policy's names are the fields.
fn refused(error: RecordsError) -> Problem {
    match error {
        RecordsError::Policy(why) | RecordsError::ReminderPolicy(why) => {
            Problem::new(Code::InvalidField, why).of_policy()
        }
        other => other.into(),
    }
}
