//! The history of all circuits: each change with its time, cause and actor. It is read-only.

use axum::extract::State;
use breakerbox_core::CircuitStatus;
use breakerbox_model::objects::{CircuitId, TenantId};
use breakerbox_storage::records::ChangeFilter;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::StateView;
use super::view::ChangeView;
use crate::api::Api;
use crate::api::caller::{Allowed, Read};
use crate::api::listing::{Limit, Listed, Paging};
use crate::api::problem::ApiResult;
use crate::api::reading::Query;
use crate::api::reading::fields::{Moment, Text};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list_changes))
}

/// A filter for circuit changes.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    /// Only changes of this tenant's circuits, including those of its reminders.
    #[param(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    tenant: Option<Text<TenantId>>,
    /// Only changes of this circuit.
    #[param(value_type = Option<String>, pattern = "^cir_[A-Za-z0-9_-]{2,1366}$")]
    circuit: Option<Text<CircuitId>>,
    /// Only changes at this time or later.
    #[param(value_type = Option<String>, format = "date-time")]
    from: Option<Text<Moment>>,
    /// Only changes before this time.
    #[param(value_type = Option<String>, format = "date-time")]
    until: Option<Text<Moment>>,
    /// Only changes to this state: `open` for trips, `closed` for recoveries.
    to: Option<StateView>,
    /// Maximum number of items. Default: 50.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 500)]
    limit: Option<Text<Limit>>,
    /// The `next` value of the previous page. Omit it, or leave it empty, for the first page.
    cursor: Option<String>,
}

/// List the history of all circuits
///
/// Returns every change of every circuit, newest first: trips, probes, recoveries and overrides. Entries are immutable,
/// and are kept for `retention.history`. A page may have fewer items than `limit`, or none, even if it is not the last;
/// follow `next` until it is null.
#[utoipa::path(
    get,
    path = "/v1/changes",
    operation_id = "list_changes",
    tag = "circuits",
    params(ListQuery),
    responses((status = 200, description = "Changes; newest first", body = Listed<ChangeView>)),
    security(("api_key" = ["read"])),
)]
async fn list_changes(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Query(which): Query<ListQuery>,
) -> ApiResult<axum::Json<Listed<ChangeView>>> {
    let tenant = caller.tenant_seen(which.tenant.map(|tenant| tenant.0), &api.services.directory)?;
    let filter = ChangeFilter {
        tenant,
        circuit: which.circuit.map(|circuit| circuit.0.key().into()),
        from: which.from.map(|from| from.0.0),
        until: which.until.map(|until| until.0.0),
        to: which.to.map(CircuitStatus::from),
    };
    let page = Paging { limit: which.limit, cursor: which.cursor }.into();
    let page = api.services.records.history(&filter, &page).await?;
    Ok(axum::Json(Listed::of(page, ChangeView::from)))
}
