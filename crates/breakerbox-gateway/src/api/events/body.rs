//! The request bodies of submitted events. They are parsed once, borrowing from the request, and again only to explain
//! an error.

use breakerbox_model::objects::{EventType, NewEvent, Priority, Purpose, TenantId};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::api::problem::{ApiResult, Problem};
use crate::api::reading::fields::{Moment, Object, Span, Text};
use crate::api::reading::payload::{
    Carried, Circumstances, destination, none, some, wrong, wrong_batch, wrong_count,
};

const LIST: &str = "events";

/// The fields of one event. `P` is the type of the payload: borrowed JSON, or a type that skips the payload if only the
/// other fields are needed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "P: Deserialize<'de>"))]
pub(super) struct Fields<P> {
    #[serde(default)]
    tenant: Option<Text<TenantId>>,
    r#type: Text<EventType>,
    #[serde(default = "none", deserialize_with = "some")]
    payload: Option<P>,
    #[serde(default)]
    payload_base64: Option<String>,
    #[serde(default)]
    content_type: Option<String>,
    #[serde(default)]
    priority: Option<Text<Priority>>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    not_before: Option<Text<Moment>>,
    #[serde(default)]
    expires_after: Option<Span>,
}

/// One event, with its payload borrowed from the request body.
pub(super) type EventBody<'a> = Fields<&'a RawValue>;

impl<'a> EventBody<'a> {
    /// Parses the body of a request.
    pub(super) fn read(body: &'a [u8]) -> ApiResult<Self> {
        let read = serde_json::from_slice::<Object<Self>>(body);
        read.map(|event| event.0).map_err(|error| wrong::<Fields<IgnoredAny>>(body, &error))
    }

    /// Returns the tenant that the body names.
    pub(super) fn tenant(&self) -> Option<TenantId> {
        self.tenant.as_ref().map(|tenant| tenant.0.clone())
    }

    /// Builds the event. A payload that makes up most of the body shares the body's memory; a smaller one is copied.
    pub(super) fn into_event(self, body: &Bytes, with: Circumstances<'_>) -> ApiResult<NewEvent> {
        let now = with.now;
        let carried = Carried {
            payload: self.payload,
            payload_base64: self.payload_base64.as_deref(),
            content_type: self.content_type.as_deref(),
        };
        let (payload, content_type) = carried.unpacked(body, with.payload)?;
        let destination = |url| destination(url, with.tenant, Purpose::Deliveries, with.addresses);
        let url = self.url.as_deref().map(destination).transpose()?;
        let not_before = self.not_before.map(|moment| moment.0.0);
        Ok(NewEvent {
            kind: self.r#type.0,
            payload,
            content_type,
            priority: self.priority.map_or_else(Priority::default, |priority| priority.0),
            url,
            not_before,
            // Counted from the first time at which it may be sent; otherwise it could expire before that.
            expires_at: self.expires_after.map(|wait| not_before.unwrap_or(now).max(now) + wait.0),
        })
    }
}

/// The fields of a batch, without the content of its events.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Outline {
    #[serde(default)]
    tenant: Option<Text<TenantId>>,
    events: IgnoredAny,
}

/// A batch of events, borrowed from the request body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchBody<'a> {
    #[serde(default)]
    tenant: Option<Text<TenantId>>,
    #[serde(borrow)]
    events: Vec<Object<EventBody<'a>>>,
}

impl<'a> BatchBody<'a> {
    /// Parses the body of a request. `most` is the maximum number of events.
    pub(super) fn read(body: &'a [u8], most: usize) -> ApiResult<Self> {
        let read = serde_json::from_slice::<Object<Self>>(body);
        let batch = read.map_err(|error| {
            wrong_batch::<Outline>(body, &error, LIST, most, |event| EventBody::read(event).err())
        });
        let batch = batch?.0;
        let count = batch.events.len();
        if !(1..=most).contains(&count) {
            return Err(wrong_count(LIST, most, Some(count)));
        }
        if let Some(at) = batch.events.iter().position(|event| event.0.tenant.is_some()) {
            let why = "must be beside `events`: all events of a batch belong to one tenant";
            return Err(Problem::invalid("tenant", why).within(&format!("events[{at}]")));
        }
        Ok(batch)
    }

    /// Returns the tenant that the batch names.
    pub(super) fn tenant(&self) -> Option<TenantId> {
        self.tenant.as_ref().map(|tenant| tenant.0.clone())
    }

    pub(super) fn into_events(self, with: Circumstances<'_>) -> ApiResult<Vec<NewEvent>> {
        // Each payload gets its own memory. Otherwise one waiting payload would keep the whole batch in memory.
        let no_body = Bytes::new();
        let event = |(at, event): (usize, Object<EventBody<'_>>)| {
            event.0.into_event(&no_body, with).map_err(|problem| problem.within(&format!("events[{at}]")))
        };
        self.events.into_iter().enumerate().map(event).collect()
    }
}

/// An event to submit.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewEvent, example = json!({"type": "invoice.paid", "payload": {"invoice": 7}}))]
#[allow(dead_code)]
pub(super) struct EventSchema {
    /// Tenant ID. Keys bound to one tenant may omit it; other keys default to `default`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    tenant: Option<String>,
    /// Event type: words of letters, digits, `_` and `-`, separated by dots.
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$")]
    r#type: String,
    /// The payload: any JSON, sent byte for byte. Use either this or `payload_base64`.
    payload: Option<Value>,
    /// The payload as base64, for raw bytes. Use either this or `payload`.
    #[schema(content_encoding = "base64")]
    payload_base64: Option<String>,
    /// The content type of the raw bytes. Default: `application/octet-stream`. Only with `payload_base64`.
    #[schema(max_length = 255)]
    content_type: Option<String>,
    /// The priority of the deliveries. Default: `medium`.
    priority: Option<PrioritySchema>,
    /// Deliver the event to this URL only, at most 8,192 bytes. Default: deliver it to the tenant's endpoints.
    #[schema(format = "uri", max_length = 8192)]
    url: Option<String>,
    /// The earliest time at which the event is delivered. Default: now.
    #[schema(format = "date-time")]
    not_before: Option<String>,
    /// The maximum time that deliveries wait before they expire, such as `1h`. Default: the setting of each endpoint.
    #[schema(pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "1h")]
    expires_after: Option<String>,
}

/// The priority of an event, a call or a reminder's run.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code)]
#[schema(as = Priority)]
pub(in crate::api) enum PrioritySchema {
    High,
    Important,
    Medium,
    Low,
}

/// A batch of events.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewEvents, example = json!({"events": [{"type": "invoice.paid", "payload": {"invoice": 7}}]}))]
#[allow(dead_code)]
pub(super) struct BatchSchema {
    /// Tenant ID. Keys bound to one tenant may omit it; other keys default to `default`.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    tenant: Option<String>,
    /// The events. Set `tenant` for the whole batch, not in an event.
    #[schema(min_items = 1, max_items = 1000)]
    events: Vec<EventSchema>,
}
