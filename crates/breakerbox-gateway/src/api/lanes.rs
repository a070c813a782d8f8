//! Lanes: the queues of endpoints, dynamic URLs and reminders, and what their deliveries wait for.

use axum::extract::State;
use breakerbox_core::CircuitStatus;
use breakerbox_model::objects::EndpointId;
use breakerbox_storage::records::{LaneBacklog, Page};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Api;
use super::caller::{Allowed, Read};
use super::circuits::{self, CircuitOf};
use super::listing::{Listed, PagingOfTenant};
use super::problem::ApiResult;
use super::reading::Query;
use super::reading::fields::Moment;
use super::waits::{self, Gates, LaneNow, WaitsForView};

pub(super) fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(list))
}

/// The queue of one endpoint. Dynamic URLs and reminders have one lane per circuit.
#[derive(Serialize, ToSchema)]
#[schema(as = Lane)]
struct LaneView {
    /// Lane ID.
    #[schema(example = "lane_01h5k2m8w4c7e")]
    id: String,
    /// Tenant ID.
    tenant: String,
    /// Endpoint ID; null for dynamic URLs and reminders.
    endpoint: Option<String>,
    /// The circuit that governs the lane; null if the endpoint was just deleted.
    circuit: Option<CircuitOf>,
    /// The number of pending and retrying deliveries.
    waiting: u64,
    /// The number of requests in flight.
    in_flight: u32,
    /// What the delivery that is sent next waits for; null if none is waiting.
    #[schema(value_type = Option<WaitsForView>)]
    waits_for: Option<&'static str>,
    /// The time until which it waits; null if only a change ends the wait, or if the time is not known.
    #[schema(value_type = Option<String>, format = "date-time")]
    waits_until: Option<Moment>,
}

impl LaneView {
    fn new(api: &Api, backlog: LaneBacklog, now: LaneNow, circuit: Option<CircuitOf>) -> Self {
        Self {
            id: backlog.lane.to_string(),
            tenant: backlog.tenant.to_string(),
            endpoint: backlog.dynamic.is_none().then(|| EndpointId(backlog.lane.0).to_string()),
            circuit,
            waiting: now.waiting,
            in_flight: now.in_flight,
            waits_for: now.wait.map(|wait| wait.waits_for.name()),
            waits_until: now.wait.and_then(|wait| wait.until).map(|at| api.shown(at)),
        }
    }
}

/// List lanes
///
/// Lists the lanes with pending, retrying or in-flight deliveries, and what the delivery that is sent next waits for.
/// Newest first. A page may have fewer items than `limit`, or none, even if it is not the last; follow `next` until it
/// is null.
#[utoipa::path(
    get,
    path = "/v1/lanes",
    operation_id = "list_lanes",
    tag = "lanes",
    params(PagingOfTenant),
    responses((status = 200, description = "Lanes; newest first", body = Listed<LaneView>)),
    security(("api_key" = ["read"])),
)]
async fn list(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Query(query): Query<PagingOfTenant>,
) -> ApiResult<axum::Json<Listed<LaneView>>> {
    let (tenant, page) = query.split();
    let tenant = caller.tenant_seen(tenant, &api.services.directory)?;
    let Page { items, next } = api.services.records.lane_backlogs(tenant.as_ref(), &page).await?;
    let keys: Vec<_> = items
        .iter()
        .map(|backlog| {
            let gates = Gates::of_lane(&api, backlog.lane, &backlog.tenant, backlog.dynamic.clone());
            gates.and_then(|gates| gates.circuit)
        })
        .collect();
    let statuses = circuits::statuses(&api, &keys).await?;
    let items: Vec<_> = items.into_iter().map(Some).collect();
    let lanes = waits::of_lanes(&api, &items);
    let mut facts = lanes.into_iter().zip(keys.into_iter().zip(statuses));
    Ok(axum::Json(Listed::of(Page { items: items.into_iter().flatten().collect(), next }, |backlog| {
        let (now, (key, status)) =
            facts.next().unwrap_or((LaneNow::default(), (None, CircuitStatus::Closed)));
        LaneView::new(&api, backlog, now, key.map(|key| CircuitOf::new(&key, status)))
    })))
}
