//! Circuits: list, show, history and operator overrides.
//!
//! Paths contain a circuit's key in base64, so that no proxy can misinterpret a URL in it. The key begins with the
//! tenant that owns the circuit.

mod changes;
mod list;
mod overrides;
mod reset;
mod view;

use std::sync::Arc;

use axum::extract::State;
use breakerbox::store::StoreError;
use breakerbox::{Attribution, Circuit, OverrideError};
use breakerbox_core::{CircuitStatus, OverrideCommand, Record, Totals};
use breakerbox_model::objects::{CircuitId, Endpoint, TenantId};
use breakerbox_storage::records::ChangeFilter;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) use self::reset::reset_circuits_of;
use self::view::{ChangeView, CircuitShown};
pub(super) use self::view::{CircuitOf, PurposeView, StateView};
use super::Api;
use super::caller::{Allowed, Caller, Read};
use super::listing::{Listed, Paging};
use super::problem::{ApiResult, Code, Problem};
use super::reading::{Named, Query};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .merge(list::routes())
        .routes(routes!(show))
        .routes(routes!(history))
        .merge(changes::routes())
        .merge(overrides::routes())
}

/// Show a circuit
///
/// Returns the circuit with its policy and the counts in its window. A circuit that never changed is closed.
#[utoipa::path(
    get,
    path = "/v1/circuits/{circuit}",
    operation_id = "show_circuit",
    tag = "circuits",
    params(("circuit" = String, Path, description = "Circuit ID", pattern = "^cir_[A-Za-z0-9_-]{2,1366}$")),
    responses((status = 200, description = "The circuit", body = CircuitShown)),
    security(("api_key" = ["read"])),
)]
async fn show(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Named(id): Named<CircuitId>,
) -> ApiResult<axum::Json<CircuitShown>> {
    let key = seen(&api, &caller, &id)?;
    shown(&api, &caller, key).await.map(axum::Json)
}

/// List the history of a circuit
///
/// Newest first.
#[utoipa::path(
    get,
    path = "/v1/circuits/{circuit}/history",
    operation_id = "list_circuit_changes",
    tag = "circuits",
    params(("circuit" = String, Path, description = "Circuit ID", pattern = "^cir_[A-Za-z0-9_-]{2,1366}$"), Paging),
    responses((status = 200, description = "Changes of the circuit; newest first", body = Listed<ChangeView>)),
    security(("api_key" = ["read"])),
)]
async fn history(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Named(id): Named<CircuitId>,
    Query(paging): Query<Paging>,
) -> ApiResult<axum::Json<Listed<ChangeView>>> {
    let key = seen(&api, &caller, &id)?;
    let (tenant, circuit) = (caller.0.tenant.clone(), Some(key.into()));
    let filter = ChangeFilter { tenant, circuit, ..ChangeFilter::default() };
    let page = api.services.records.history(&filter, &paging.into()).await?;
    Ok(axum::Json(Listed::of(page, ChangeView::from)))
}

/// Returns the circuit's key, if it belongs to a tenant that the caller may access.
fn seen<'i>(api: &Api, caller: &Caller, id: &'i CircuitId) -> ApiResult<&'i str> {
    let tenant = id.owner().map(|owner| owner.tenant);
    let is_there = |tenant: &TenantId| caller.sees(tenant) && api.services.directory.tenant(tenant).is_some();
    match tenant.filter(is_there) {
        Some(_) => Ok(id.key()),
        None => Err(Problem::not_found("circuit", &id.to_string())),
    }
}

/// Returns the view of a circuit, with all the details that the caller may see.
async fn shown(api: &Api, caller: &Caller, key: &str) -> ApiResult<CircuitShown> {
    let visible = |record: Option<Record>| {
        record.filter(|record| is_visible(caller, record)).unwrap_or_else(|| view::untouched(key))
    };
    if let Some(circuit) = api.services.circuits.find(key) {
        let record = visible(Some(circuit.record()));
        return Ok(CircuitShown::new(api, key, &record, &circuit.totals(), &circuit.policy()));
    }
    let policy = api.services.circuits.policy_of(key);
    let record = visible(stored(api, &[Arc::from(key)]).await?.pop().flatten());
    Ok(CircuitShown::new(api, key, &record, &Totals::default(), &policy))
}

/// Returns whether the caller may see a circuit's record. A tenant may not see a record that a deleted tenant of the
/// same name left behind, so such a circuit looks new to the tenant.
fn is_visible(caller: &Caller, record: &Record) -> bool {
    caller.0.tenant.is_none() || !reset::is_left_behind(record)
}

async fn stored(api: &Api, keys: &[Arc<str>]) -> ApiResult<Vec<Option<Record>>> {
    let read = api.services.circuit_store.read(keys).await.map_err(|error| store_problem(&error))?;
    Ok(read.value.into_iter().map(Result::ok).map(Option::flatten).collect())
}

/// Returns the key of an endpoint's circuit. `None` if the endpoint was deleted in the meantime.
pub(super) fn key_of(api: &Api, endpoint: &Endpoint) -> Option<Arc<str>> {
    api.services.directory.endpoint(endpoint.lane()).map(|entry| Arc::clone(&entry.circuit))
}

/// Returns the states of these circuits: from this process for circuits in its memory, otherwise from the store. The
/// state for a key of `None`, or for a circuit without a record, is closed.
pub(super) async fn statuses(api: &Api, keys: &[Option<Arc<str>>]) -> ApiResult<Vec<CircuitStatus>> {
    let here = |key: &Option<Arc<str>>| match key {
        Some(key) => api.services.circuits.find(key).map(|circuit| circuit.status()),
        None => Some(CircuitStatus::Closed),
    };
    let mut statuses: Vec<Option<CircuitStatus>> = keys.iter().map(here).collect();
    let elsewhere: Vec<usize> = (0..keys.len()).filter(|at| statuses[*at].is_none()).collect();
    if !elsewhere.is_empty() {
        let asked: Vec<Arc<str>> = elsewhere.iter().filter_map(|at| keys[*at].clone()).collect();
        let records = stored(api, &asked).await?;
        for (at, record) in elsewhere.into_iter().zip(records) {
            statuses[at] = record.map(|record| record.status());
        }
    }
    Ok(statuses.into_iter().map(|status| status.unwrap_or(CircuitStatus::Closed)).collect())
}

/// Applies an operator's override, and records the ID of the caller's API key as its actor.
pub(super) async fn apply_override(
    api: &Api,
    caller: &Caller,
    key: &str,
    command: OverrideCommand,
    reason: &str,
) -> ApiResult<Circuit> {
    let by = Attribution::new(&caller.0.id.to_string(), reason)
        .map_err(|error| Problem::new(Code::InvalidField, error.to_string()).of_field(error.field))?;
    let circuit = api.services.circuits.circuit(key);
    let circuit = circuit.map_err(|_| Problem::not_found("circuit", key))?;
    circuit.apply_override(command, &by).await.map_err(|error| match error {
        OverrideError::Contended => {
            Problem::new(Code::Overloaded, "other clients keep changing the circuit; retry")
        }
        OverrideError::NoRoom => Problem::new(
            Code::Overloaded,
            "the maximum number of circuits is reached; raise circuits.max, or retry later",
        ),
        other => Problem::new(Code::Unavailable, "the circuit store does not respond; retry later")
            .caused_by(other.to_string()),
    })?;
    Ok(circuit)
}

/// Maps any store error to the problem `unavailable`. This includes errors that the request caused, such as an invalid
/// cursor, because the store does not distinguish them.
fn store_problem(error: &StoreError) -> Problem {
    Problem::new(Code::Unavailable, "the circuit store does not respond; retry later")
        .caused_by(error.to_string())
}
