//! What is submitted: read once, borrowed from the body, and only if it is wrong read again to say why.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use breakerbox_core::Timestamp;
use bytes::Bytes;
use http::HeaderValue;
use serde::de::{self, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use url::Url;
use utoipa::ToSchema;

use crate::api::problem::{Answer, Code, Problem};
use crate::api::reading::fields::{Moment, Object, Span, Text};
use crate::api::reading::{explained, fault_in_fields, not_json};
use crate::objects::{EventType, NewEvent, Priority, TenantId};
use crate::queue::TenantEntry;

/// The longest content type.
const LONGEST_CONTENT_TYPE: usize = 255;

/// More than this of other fields than the payload is not explained.
const EXPLAINED: usize = 256 * 1024;

/// The body of one event. `P` is the payload: borrowed, or ignored where only the rest is looked at.
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

fn none<P>() -> Option<P> {
    None
}

/// `null` is a payload too.
fn some<'de, P: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<P>, D::Error> {
    P::deserialize(deserializer).map(Some)
}

/// The body of one event.
pub(super) type EventBody<'a> = Fields<&'a RawValue>;

impl<'a> EventBody<'a> {
    /// Reads the body of a request.
    pub(super) fn read(body: &'a [u8]) -> Answer<Self> {
        let read = serde_json::from_slice::<Object<Self>>(body);
        read.map(|event| event.0).map_err(|error| wrong(body, &error))
    }

    /// The tenant that it names.
    pub(super) fn tenant(&self) -> Option<TenantId> {
        self.tenant.as_ref().map(|tenant| tenant.0.clone())
    }

    /// The event. Its payload shares the body's memory if it is most of it.
    pub(super) fn into_event(
        self,
        body: &Bytes,
        tenant: &TenantEntry,
        limit: usize,
        now: Timestamp,
    ) -> Answer<NewEvent> {
        let (payload, content_type) = self.content(body)?;
        if payload.len() > limit {
            let detail = format!("payload: must have at most {limit} bytes, but has {}", payload.len());
            return Err(Problem::new(Code::PayloadTooLarge, detail).of_field("payload"));
        }
        let url = self.url.as_deref().map(|url| destination(url, tenant)).transpose()?;
        let not_before = self.not_before.map(|moment| moment.0.0);
        Ok(NewEvent {
            kind: self.r#type.0,
            payload,
            content_type,
            priority: self.priority.map_or_else(Priority::default, |priority| priority.0),
            url,
            not_before,
            // Counted from when it may first be sent, or it could expire before that.
            expires_at: self.expires_after.map(|wait| not_before.unwrap_or(now).max(now) + wait.0),
        })
    }

    fn content(&self, body: &Bytes) -> Answer<(Bytes, Arc<str>)> {
        match (self.payload, &self.payload_base64) {
            (Some(_), Some(_)) => Err(Problem::invalid("payload_base64", "can't go together with payload")),
            (Some(payload), None) => {
                if self.content_type.is_some() {
                    let why = "goes with payload_base64; payload is always application/json";
                    return Err(Problem::invalid("content_type", why));
                }
                Ok((shared(body, payload.get().as_bytes()), json()))
            }
            (None, Some(encoded)) => {
                let decoded = STANDARD.decode(encoded.as_bytes());
                let payload = decoded
                    .map_err(|_| Problem::invalid("payload_base64", "must be base64, with its padding"))?;
                let named = self.content_type.as_deref().unwrap_or("application/octet-stream");
                Ok((payload.into(), content_type(named)?))
            }
            (None, None) => {
                let detail = "payload: is missing; send any JSON, or raw bytes as payload_base64";
                Err(Problem::new(Code::MissingField, detail).of_field("payload"))
            }
        }
    }
}

/// The body of a batch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchBody<'a> {
    #[serde(default)]
    tenant: Option<Text<TenantId>>,
    #[serde(borrow)]
    events: Vec<Object<EventBody<'a>>>,
}

impl<'a> BatchBody<'a> {
    /// Reads the body of a request.
    pub(super) fn read(body: &'a [u8], most: usize) -> Answer<Self> {
        let read = serde_json::from_slice::<Object<Self>>(body);
        let batch = read.map_err(|error| wrong_batch(body, &error, most))?.0;
        let count = batch.events.len();
        if !(1..=most).contains(&count) {
            return Err(Problem::invalid(
                "events",
                format_args!("must be 1 to {most} events, but are {count}"),
            ));
        }
        if let Some(at) = batch.events.iter().position(|event| event.0.tenant.is_some()) {
            let why = "goes beside `events`: all events of a batch are of one tenant";
            return Err(Problem::invalid("tenant", why).within(&format!("events[{at}]")));
        }
        Ok(batch)
    }

    /// The tenant that it names.
    pub(super) fn tenant(&self) -> Option<TenantId> {
        self.tenant.as_ref().map(|tenant| tenant.0.clone())
    }

    /// The events.
    pub(super) fn into_events(
        self,
        tenant: &TenantEntry,
        limit: usize,
        now: Timestamp,
    ) -> Answer<Vec<NewEvent>> {
        // Each payload has memory of its own: one that waits must not keep the whole batch in memory.
        let no_body = Bytes::new();
        let event = |(at, event): (usize, Object<EventBody<'_>>)| {
            event
                .0
                .into_event(&no_body, tenant, limit, now)
                .map_err(|problem| problem.within(&format!("events[{at}]")))
        };
        self.events.into_iter().enumerate().map(event).collect()
    }
}

/// A part of the body: the same memory if the part is most of it, else a copy.
fn shared(body: &Bytes, part: &[u8]) -> Bytes {
    if part.len() >= body.len() / 2 && !body.is_empty() {
        body.slice_ref(part)
    } else {
        Bytes::copy_from_slice(part)
    }
}

/// One text for all.
fn json() -> Arc<str> {
    static JSON: OnceLock<Arc<str>> = OnceLock::new();
    Arc::clone(JSON.get_or_init(|| "application/json".into()))
}

fn content_type(text: &str) -> Answer<Arc<str>> {
    let essence = text.split(';').next().unwrap_or_default();
    let has_both =
        essence.split_once('/').is_some_and(|(kind, rest)| !kind.is_empty() && !rest.trim().is_empty());
    let is_clean = text.trim() == text && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if text.len() > LONGEST_CONTENT_TYPE || !has_both || !is_clean || HeaderValue::from_str(text).is_err() {
        return Err(Problem::invalid("content_type", "must be a media type such as \"text/plain\""));
    }
    Ok(text.into())
}

/// A URL that something can be sent to. Whether its address may be called is seen when it is called.
fn destination(text: &str, tenant: &TenantEntry) -> Answer<Url> {
    let wrong = |why: String| {
        let why = why.strip_prefix("url: ").map(str::to_owned).unwrap_or(why);
        Problem::invalid("url", why)
    };
    tenant.circuit_of(text).map_err(|error| wrong(error.to_string()))?;
    Url::parse(text).map_err(|error| wrong(error.to_string()))
}

/// Says what is wrong with an event, whatever its payload is.
fn wrong(body: &[u8], error: &serde_json::Error) -> Problem {
    if !error.is_data() {
        return not_json(error);
    }
    let Ok(mut fields) = serde_json::from_slice::<std::collections::BTreeMap<Cow<'_, str>, &RawValue>>(body)
    else {
        return explained::<Object<Fields<IgnoredAny>>>(b"null", error);
    };
    fields.remove("payload");
    // What it says does not matter, only that it is a text.
    if fields.get("payload_base64").is_some_and(|encoded| encoded.get().starts_with('"')) {
        fields.remove("payload_base64");
    }
    let size: usize = fields.iter().map(|(name, value)| name.len() + value.get().len()).sum();
    if size <= EXPLAINED {
        let read = |(name, value): (Cow<'_, str>, &RawValue)| {
            Some((name.into_owned(), serde_json::from_str::<Value>(value.get()).ok()?))
        };
        let fields: Option<Map<String, Value>> = fields.into_iter().map(read).collect();
        if let Some(problem) = fields.and_then(fault_in_fields::<Fields<IgnoredAny>>) {
            return problem;
        }
    }
    Problem::new(Code::InvalidField, format!("the body: {error}"))
}

/// Says which event of a batch is wrong, and what is wrong with it.
fn wrong_batch(body: &[u8], error: &serde_json::Error, most: usize) -> Problem {
    if !error.is_data() {
        return not_json(error);
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Parts<'a> {
        #[serde(borrow)]
        events: Bounded<'a>,
        #[serde(default)]
        #[allow(dead_code)]
        tenant: Option<Text<TenantId>>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outline {
        #[allow(dead_code)]
        events: IgnoredAny,
        #[serde(default)]
        #[allow(dead_code)]
        tenant: Option<Text<TenantId>>,
    }
    let Ok(parts) = serde_json::from_slice::<Object<Parts<'_>>>(body) else {
        let outline = serde_json::from_slice::<std::collections::BTreeMap<Cow<'_, str>, &RawValue>>(body);
        let Ok(mut fields) = outline else { return explained::<Object<Outline>>(b"null", error) };
        let events = fields.remove("events").map(|events| events.get().trim_start().starts_with('['));
        if events == Some(false) {
            return Problem::invalid("events", "must be a list");
        }
        let read = |(name, value): (Cow<'_, str>, &RawValue)| {
            let short = value.get().len() <= EXPLAINED;
            Some((
                name.into_owned(),
                short.then(|| serde_json::from_str::<Value>(value.get()).ok()).flatten()?,
            ))
        };
        let fields: Option<Map<String, Value>> = fields.into_iter().map(read).collect();
        let with_events = fields.map(|mut fields| {
            events.is_some().then(|| fields.insert("events".to_owned(), Value::Array(Vec::new())));
            fields
        });
        let explained = with_events.and_then(fault_in_fields::<Outline>);
        return explained
            .unwrap_or_else(|| Problem::invalid("events", format_args!("must be 1 to {most} events")));
    };
    for (at, event) in parts.0.events.0.iter().take(most).enumerate() {
        if let Err(error) = serde_json::from_str::<Object<EventBody<'_>>>(event.get()) {
            return wrong(event.get().as_bytes(), &error).within(&format!("events[{at}]"));
        }
    }
    Problem::invalid("events", format_args!("must be 1 to {most} events"))
}

/// The parts of a list, not more than anybody looks at.
struct Bounded<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Bounded<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Most;

        impl<'de> Visitor<'de> for Most {
            type Value = Vec<&'de RawValue>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = items.next_element()? {
                    if parts.len() >= 10_000 {
                        return Err(de::Error::custom("too many"));
                    }
                    parts.push(part);
                }
                Ok(parts)
            }
        }

        deserializer.deserialize_seq(Most).map(Self)
    }
}

/// An event to submit.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"type": "invoice.paid", "payload": {"invoice": 7}}))]
#[allow(dead_code)]
pub(super) struct EventSchema {
    /// Whose; needed only with a key for all tenants, and then `default` if nothing is said.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    tenant: Option<String>,
    /// What kind: words of letters, digits, `_` and `-`, parted by dots.
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$")]
    r#type: String,
    /// Any JSON; sent byte for byte. Either this or `payload_base64`.
    payload: Option<Value>,
    /// Raw bytes, as base64. Either this or `payload`.
    #[schema(content_encoding = "base64")]
    payload_base64: Option<String>,
    /// What the raw bytes are; `application/octet-stream` if nothing is said. Only with `payload_base64`.
    #[schema(max_length = 255)]
    content_type: Option<String>,
    /// How important; medium if nothing is said.
    #[schema(inline)]
    priority: Option<PrioritySchema>,
    /// Send it there, and not to the tenant's endpoints.
    #[schema(format = "uri", max_length = 8192)]
    url: Option<String>,
    /// Not sent before.
    #[schema(format = "date-time")]
    not_before: Option<String>,
    /// Given up after so long, such as `1h`.
    #[schema(pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "1h")]
    expires_after: Option<String>,
}

/// How important.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[allow(dead_code)]
pub(in crate::api) enum PrioritySchema {
    High,
    Important,
    Medium,
    Low,
}

/// Events to submit together.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"events": [{"type": "invoice.paid", "payload": {"invoice": 7}}]}))]
#[allow(dead_code)]
pub(super) struct BatchSchema {
    /// Whose; needed only with a key for all tenants, and then `default` if nothing is said.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9._-]+$")]
    tenant: Option<String>,
    /// The events, as for a single one, without `tenant`.
    #[schema(min_items = 1, max_items = 1000)]
    events: Vec<EventSchema>,
}
