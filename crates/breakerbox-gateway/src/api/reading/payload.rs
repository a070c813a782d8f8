//! Payloads for receivers, borrowed from the request body and never parsed, and their destination URLs.
//!
//! A body with a payload may be large. A valid one is parsed once; errors in an invalid one are explained without its
//! payload.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use breakerbox_core::Timestamp;
use breakerbox_egress::AddressPolicy;
use breakerbox_model::objects::Purpose;
use breakerbox_storage::TenantEntry;
use bytes::Bytes;
use http::HeaderValue;
use serde::de::{self, DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use url::Url;

use super::fields::Object;
use super::{explained, fault_in_fields, not_json};
use crate::api::problem::{ApiResult, Code, Problem};

/// The maximum length of a content type, in bytes.
const LONGEST_CONTENT_TYPE: usize = 255;

/// The maximum size of the fields other than the payload, in bytes. Errors in larger fields are not explained.
const EXPLAINED: usize = 256 * 1024;

/// The number of bytes that a body may have for its other fields, in addition to twice the maximum payload. The payload
/// counts twice because base64 or escapes make it longer.
const ENVELOPE: usize = 128 * 1024;

/// Returns the maximum size of a body, in bytes, given the maximum size of its payload.
pub(in crate::api) const fn body_limit(payload: usize) -> usize {
    payload.saturating_mul(2).saturating_add(ENVELOPE)
}

/// The context in which the body of an event or a reminder is parsed.
#[derive(Clone, Copy)]
pub(in crate::api) struct Circumstances<'c> {
    pub(in crate::api) tenant: &'c TenantEntry,
    /// The maximum size of a payload, in bytes.
    pub(in crate::api) payload: usize,
    pub(in crate::api) addresses: &'c AddressPolicy,
    /// The current wall-clock time.
    pub(in crate::api) now: Timestamp,
}

/// The payload fields of a body.
pub(in crate::api) struct Carried<'a> {
    /// The payload as JSON.
    pub(in crate::api) payload: Option<&'a RawValue>,
    /// The payload as raw bytes, in base64.
    pub(in crate::api) payload_base64: Option<&'a str>,
    /// The content type of the raw bytes.
    pub(in crate::api) content_type: Option<&'a str>,
}

impl Carried<'_> {
    /// Returns whether there is no payload.
    pub(in crate::api) const fn is_nothing(&self) -> bool {
        self.payload.is_none() && self.payload_base64.is_none() && self.content_type.is_none()
    }

    /// Returns the payload and its content type. A payload that makes up most of the body shares the body's memory; a
    /// smaller one is copied.
    pub(in crate::api) fn unpacked(&self, body: &Bytes, limit: usize) -> ApiResult<(Bytes, Arc<str>)> {
        let (payload, content_type) = self.content(body)?;
        if payload.len() > limit {
            let detail = format!("payload: must have at most {limit} bytes, but has {}", payload.len());
            return Err(Problem::new(Code::PayloadTooLarge, detail).of_field("payload"));
        }
        Ok((payload, content_type))
    }

    fn content(&self, body: &Bytes) -> ApiResult<(Bytes, Arc<str>)> {
        match (self.payload, self.payload_base64) {
            (Some(_), Some(_)) => Err(Problem::invalid("payload_base64", "can't be combined with payload")),
            (Some(payload), None) => {
                if self.content_type.is_some() {
                    let why = "is allowed with payload_base64 only; payload is always application/json";
                    return Err(Problem::invalid("content_type", why));
                }
                Ok((shared(body, payload.get().as_bytes()), json()))
            }
            (None, Some(encoded)) => {
                let decoded = STANDARD.decode(encoded.as_bytes());
                let payload = decoded
                    .map_err(|_| Problem::invalid("payload_base64", "must be base64, with its padding"))?;
                let named = self.content_type.unwrap_or("application/octet-stream");
                Ok((payload.into(), content_type(named)?))
            }
            (None, None) => {
                let detail = "payload: is missing; send any JSON, or raw bytes as payload_base64";
                Err(Problem::new(Code::MissingField, detail).of_field("payload"))
            }
        }
    }
}

/// Returns the default for an absent field.
pub(in crate::api) fn none<P>() -> Option<P> {
    None
}

/// Deserializes a payload that is present. `null` counts as a payload.
pub(in crate::api) fn some<'de, P: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<P>, D::Error> {
    P::deserialize(deserializer).map(Some)
}

/// Returns a part of the body. The part shares the body's memory if it makes up most of the body; otherwise it is
/// copied.
fn shared(body: &Bytes, part: &[u8]) -> Bytes {
    if part.len() >= body.len() / 2 && !body.is_empty() {
        body.slice_ref(part)
    } else {
        Bytes::copy_from_slice(part)
    }
}

/// Returns the content type of JSON, as a shared string.
fn json() -> Arc<str> {
    static JSON: OnceLock<Arc<str>> = OnceLock::new();
    Arc::clone(JSON.get_or_init(|| "application/json".into()))
}

fn content_type(text: &str) -> ApiResult<Arc<str>> {
    let essence = text.split(';').next().unwrap_or_default();
    let has_both =
        essence.split_once('/').is_some_and(|(kind, rest)| !kind.is_empty() && !rest.trim().is_empty());
    let is_clean = text.trim() == text && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if text.len() > LONGEST_CONTENT_TYPE || !has_both || !is_clean || HeaderValue::from_str(text).is_err() {
        return Err(Problem::invalid("content_type", "must be a media type such as \"text/plain\""));
    }
    Ok(text.into())
}

/// Parses and checks the URL of an event or a reminder.
pub(in crate::api) fn destination(
    text: &str,
    tenant: &TenantEntry,
    purpose: Purpose,
    addresses: &AddressPolicy,
) -> ApiResult<Url> {
    tenant.key_of(purpose, text).map_err(|error| wrong_url(&error))?;
    callable(text, addresses)
}

/// Parses a URL and checks that it may be called. A literal address must be allowed; the addresses of a host name are
/// checked when the URL is called.
pub(in crate::api) fn callable(text: &str, addresses: &AddressPolicy) -> ApiResult<Url> {
    let url = Url::parse(text).map_err(|error| wrong_url(&error))?;
    addresses.check_url(&url).map_err(|denied| Problem::invalid("url", denied))?;
    Ok(url)
}

/// Returns the problem for an invalid `url` field. An error that already names the field does not name it twice.
pub(in crate::api) fn wrong_url(error: &dyn std::error::Error) -> Problem {
    let why = error.to_string();
    Problem::invalid("url", why.strip_prefix("url: ").unwrap_or(&why))
}

/// Returns the fields of a body, borrowed from it.
fn fields_of(body: &[u8]) -> serde_json::Result<BTreeMap<Cow<'_, str>, &RawValue>> {
    serde_json::from_slice(body)
}

/// Returns a minimal value of the same JSON type as the body. Parsing it fails with the same type error, but without
/// the cost of parsing a large body.
fn stand_in(body: &[u8]) -> &'static [u8] {
    match body.trim_ascii_start().first() {
        Some(b'{') => b"{}",
        Some(b'[') => b"[]",
        Some(b'"') => b"\"\"",
        Some(b't' | b'f') => b"true",
        Some(b'n') | None => b"null",
        Some(_) => b"0",
    }
}

/// Explains why a body can't be parsed, without parsing its payload. `T` has all fields of the body, and ignores the
/// payload.
pub(in crate::api) fn wrong<T: DeserializeOwned>(body: &[u8], error: &serde_json::Error) -> Problem {
    if !error.is_data() {
        return not_json(error);
    }
    let mut fields = match fields_of(body) {
        Ok(fields) => fields,
        Err(fault) if !fault.is_data() => return not_json(&fault),
        Err(_) => return explained::<Object<T>>(stand_in(body), error),
    };
    fields.remove("payload");
    // Only its type matters here, not its content.
    if fields.get("payload_base64").is_some_and(|encoded| encoded.get().starts_with('"')) {
        fields.remove("payload_base64");
    }
    let size: usize = fields.iter().map(|(name, value)| name.len() + value.get().len()).sum();
    if size <= EXPLAINED {
        let read = |(name, value): (Cow<'_, str>, &RawValue)| {
            Some((name.into_owned(), serde_json::from_str::<Value>(value.get()).ok()?))
        };
        let fields: Option<Map<String, Value>> = fields.into_iter().map(read).collect();
        if let Some(problem) = fields.and_then(fault_in_fields::<T>) {
            return problem;
        }
    }
    Problem::new(Code::InvalidField, format!("the body: {error}"))
}

/// Explains which item of a batch is invalid, and why. `T` has all fields of the batch, and ignores the items.
pub(in crate::api) fn wrong_batch<T: DeserializeOwned>(
    body: &[u8],
    error: &serde_json::Error,
    list: &str,
    most: usize,
    wrong_with: impl Fn(&[u8]) -> Option<Problem>,
) -> Problem {
    if !error.is_data() {
        return not_json(error);
    }
    let mut fields = match fields_of(body) {
        Ok(fields) => fields,
        Err(fault) if !fault.is_data() => return not_json(&fault),
        Err(_) => return explained::<Object<T>>(stand_in(body), error),
    };
    let parts = fields.remove(list);
    if parts.is_some_and(|parts| !parts.get().trim_start().starts_with('[')) {
        return Problem::invalid(list, "must be a list");
    }
    let read = |(name, value): (Cow<'_, str>, &RawValue)| {
        let short = value.get().len() <= EXPLAINED;
        Some((name.into_owned(), short.then(|| serde_json::from_str::<Value>(value.get()).ok()).flatten()?))
    };
    let fields: Option<Map<String, Value>> = fields.into_iter().map(read).collect();
    let outline = fields.map(|mut fields| {
        parts.is_some().then(|| fields.insert(list.to_owned(), Value::Array(Vec::new())));
        fields
    });
    if let Some(problem) = outline.and_then(fault_in_fields::<T>) {
        return problem;
    }
    let parts = parts.and_then(|parts| serde_json::from_str::<Bounded<'_>>(parts.get()).ok());
    for (at, part) in parts.iter().flat_map(|parts| &parts.0).take(most).enumerate() {
        if let Some(problem) = wrong_with(part.get().as_bytes()) {
            return problem.within(&format!("{list}[{at}]"));
        }
    }
    wrong_count(list, most, None)
}

/// Returns the problem for a batch with too many items, or with no items.
pub(in crate::api) fn wrong_count(list: &str, most: usize, found: Option<usize>) -> Problem {
    let found = found.map_or_else(String::new, |found| format!(", but are {found}"));
    Problem::invalid(list, format_args!("must be 1 to {most} {list}{found}"))
}

/// The items of a list, at most 10,000; a longer list is an error.
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
