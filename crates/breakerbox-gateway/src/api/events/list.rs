//! Lists events, without their payloads.

use axum::extract::State;
use breakerbox_model::objects::{EventFilter, EventSummary, EventType, TenantId};
use breakerbox_storage::records::PageOf;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::body::PrioritySchema;
use crate::api::Api;
use crate::api::caller::{Allowed, Read};
use crate::api::listing::{Limit, Listed, Paging};
use crate::api::problem::ApiResult;
use crate::api::reading::Query;
use crate::api::reading::fields::{Moment, Text};

/// A filter for events. An event must match all given conditions.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only events of this tenant.
    #[param(value_type = Option<String>, min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    tenant: Option<Text<TenantId>>,
    /// Only events of this type.
    #[param(value_type = Option<String>, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$")]
    r#type: Option<Text<EventType>>,
    /// Only events accepted at this time or later.
    #[param(value_type = Option<String>, format = "date-time")]
    from: Option<Text<Moment>>,
    /// Only events accepted before this time.
    #[param(value_type = Option<String>, format = "date-time")]
    until: Option<Text<Moment>>,
    /// Maximum number of items. Default: 50.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 500)]
    limit: Option<Text<Limit>>,
    /// The `next` value of the previous page. Omit it, or leave it empty, for the first page.
    cursor: Option<String>,
}

/// An event without its payload.
#[derive(Serialize, ToSchema)]
#[schema(as = EventSummary)]
pub(super) struct SummaryView {
    /// Event ID; also the `webhook-id` of all its requests.
    #[schema(example = "evt_01h5k2m8w4c7e")]
    id: String,
    /// Tenant ID.
    tenant: String,
    /// Event type.
    r#type: String,
    /// The content type of the payload.
    content_type: String,
    /// The size of the payload, in bytes.
    payload_bytes: u64,
    /// The priority of the deliveries.
    #[schema(value_type = PrioritySchema)]
    priority: &'static str,
    /// The dynamic URL; null if the event goes to the tenant's endpoints.
    url: Option<String>,
    /// The time at which the event was accepted.
    #[schema(value_type = String, format = "date-time")]
    accepted_at: Moment,
    /// The number of deliveries, one for each endpoint.
    deliveries: u32,
}

impl From<EventSummary> for SummaryView {
    fn from(event: EventSummary) -> Self {
        Self {
            id: event.id.to_string(),
            tenant: event.tenant.to_string(),
            r#type: event.kind.to_string(),
            content_type: event.content_type.to_string(),
            payload_bytes: event.payload_bytes,
            priority: event.priority.name(),
            url: event.url.map(|url| url.to_string()),
            accepted_at: Moment(event.accepted_at),
            deliveries: event.deliveries,
        }
    }
}

/// List events
///
/// Newest first, without payloads. Runs of reminders are listed with their reminder instead. A page may have fewer
/// items than `limit`, or none, even if it is not the last; follow `next` until it is null.
#[utoipa::path(
    get,
    path = "/v1/events",
    tag = "events",
    operation_id = "list_events",
    params(ListQuery),
    responses((status = 200, description = "Events; newest first", body = Listed<SummaryView>)),
    security(("api_key" = ["read"])),
)]
pub(super) async fn list(
    State(api): State<Api>,
    Allowed(caller, _): Allowed<Read>,
    Query(which): Query<ListQuery>,
) -> ApiResult<axum::Json<Listed<SummaryView>>> {
    let filter = EventFilter {
        tenant: caller.tenant_seen(which.tenant.map(|tenant| tenant.0), &api.services.directory)?,
        kind: which.r#type.map(|kind| kind.0),
        from: which.from.map(|moment| moment.0.0),
        until: which.until.map(|moment| moment.0.0),
    };
    let page: PageOf = Paging { limit: which.limit, cursor: which.cursor }.into();
    let found = api.services.records.events(&filter, &page).await?;
    Ok(axum::Json(Listed::of(found, SummaryView::from)))
}
