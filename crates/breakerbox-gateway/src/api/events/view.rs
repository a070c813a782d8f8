//! The JSON of events.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use breakerbox_model::objects::Event;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::body::PrioritySchema;
use crate::api::reading::fields::Moment;

/// An event that was accepted.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
pub(super) struct EventView {
    /// Its name, and the `webhook-id` of all its requests.
    id: String,
    /// Whose.
    tenant: String,
    /// What kind.
    r#type: String,
    /// What is sent, if it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    payload: Option<Box<RawValue>>,
    /// What is sent, if it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    /// What the payload is.
    content_type: String,
    /// How important.
    #[schema(value_type = PrioritySchema, inline)]
    priority: &'static str,
    /// Where it goes, instead of to the tenant's endpoints.
    url: Option<String>,
    /// Not sent before.
    #[schema(value_type = Option<String>, format = "date-time")]
    not_before: Option<Moment>,
    /// Given up then.
    #[schema(value_type = Option<String>, format = "date-time")]
    expires_at: Option<Moment>,
    /// When it was accepted.
    #[schema(value_type = String, format = "date-time")]
    accepted_at: Moment,
    /// How many deliveries it has.
    deliveries: u32,
    /// How many of them are not listed yet. Of an event with more than 1,000 deliveries the gateway writes the rest after it has
    /// answered; 0: all of them are there.
    fanning_out: u32,
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
            fanning_out: event.fanning_out,
        }
    }
}
