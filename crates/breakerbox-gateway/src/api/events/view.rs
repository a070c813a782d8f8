//! The JSON representation of events.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use breakerbox_model::objects::Event;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::body::PrioritySchema;
use crate::api::reading::fields::Moment;

/// An event, submitted for delivery.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
pub(super) struct EventView {
    /// Event ID; also the `webhook-id` of all its requests.
    id: String,
    /// Tenant ID.
    tenant: String,
    /// Event type.
    r#type: String,
    /// The payload. Absent unless it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<Box<RawValue>>,
    /// The payload as base64. Absent if it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, content_encoding = "base64")]
    payload_base64: Option<String>,
    /// The content type of the payload.
    content_type: String,
    /// The priority of the deliveries.
    #[schema(value_type = PrioritySchema)]
    priority: &'static str,
    /// The dynamic URL; null if the event goes to the tenant's endpoints.
    url: Option<String>,
    /// The earliest time at which the event is delivered.
    #[schema(value_type = Option<String>, format = "date-time")]
    not_before: Option<Moment>,
    /// The time at which unfinished deliveries expire.
    #[schema(value_type = Option<String>, format = "date-time")]
    expires_at: Option<Moment>,
    /// The time at which the event was accepted.
    #[schema(value_type = String, format = "date-time")]
    accepted_at: Moment,
    /// The number of deliveries, one for each endpoint.
    deliveries: u32,
    /// The number of deliveries still to be created; 0 if all are created. Deliveries beyond the first 1,000 are
    /// created after the response to the request.
    fan_out_remaining: u32,
}

impl From<Event> for EventView {
    fn from(event: Event) -> Self {
        let submitted = event.submitted;
        let is_json = &*submitted.content_type == "application/json";
        let payload =
            is_json.then(|| serde_json::from_slice::<Box<RawValue>>(&submitted.payload).ok()).flatten();
        Self {
            id: event.id.to_string(),
            tenant: event.tenant.to_string(),
            r#type: submitted.kind.to_string(),
            payload_base64: payload.is_none().then(|| STANDARD.encode(&submitted.payload)),
            payload,
            content_type: submitted.content_type.to_string(),
            priority: submitted.priority.name(),
            url: submitted.url.map(String::from),
            not_before: submitted.not_before.map(Moment),
            expires_at: submitted.expires_at.map(Moment),
            accepted_at: Moment(event.accepted_at),
            deliveries: event.deliveries,
            fan_out_remaining: event.fanning_out,
        }
    }
}
