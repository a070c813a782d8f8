//! Events: the items that customers submit.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use breakerbox_core::Timestamp;
use bytes::Bytes;
use url::Url;

use super::{EventId, Priority, TenantId, TenantNumber};

/// The maximum length of an event type, in bytes.
const MAX_TYPE_LENGTH: usize = 128;

/// The type of an event, such as `invoice.paid`: words of letters, digits, `_` and `-`, separated by dots.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventType(Arc<str>);

impl EventType {
    /// Returns the type as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The string is not an event type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "must be 1 to {MAX_TYPE_LENGTH} characters: words of a-z, A-Z, 0-9, `_` and `-`, separated by single dots"
)]
pub struct EventTypeError;

impl FromStr for EventType {
    type Err = EventTypeError;

    fn from_str(text: &str) -> Result<Self, EventTypeError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(fits);
        if text.len() > MAX_TYPE_LENGTH || !text.split('.').all(is_word) {
            return Err(EventTypeError);
        }
        Ok(Self(text.into()))
    }
}

/// Selects the events that an endpoint receives: all, or those of some types. `invoice.*` matches every type that
/// begins with `invoice.`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter(Vec<Pattern>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Pattern {
    Exactly(EventType),
    Below(EventType),
}

impl Filter {
    /// The filter that matches all events.
    pub const ALL: Self = Self(Vec::new());

    /// Returns a filter for events of any of these types or patterns. An empty list matches all events.
    ///
    /// # Errors
    /// Returns an error if an item is neither a type nor a type followed by `.*`.
    pub fn any_of<'t>(patterns: impl IntoIterator<Item = &'t str>) -> Result<Self, EventTypeError> {
        let pattern = |text: &str| match text.strip_suffix(".*") {
            Some(above) => above.parse().map(Pattern::Below),
            None => text.parse().map(Pattern::Exactly),
        };
        patterns.into_iter().map(pattern).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether the filter matches events of this type.
    #[must_use]
    pub fn admits(&self, kind: &EventType) -> bool {
        let matches = |pattern: &Pattern| match pattern {
            Pattern::Exactly(wanted) => wanted == kind,
            Pattern::Below(above) => {
                kind.0.strip_prefix(&*above.0).is_some_and(|below| below.starts_with('.'))
            }
        };
        self.0.is_empty() || self.0.iter().any(matches)
    }

    /// Iterates over the types and patterns, as they were passed to [`any_of`](Self::any_of).
    pub fn patterns(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|pattern| match pattern {
            Pattern::Exactly(kind) => kind.to_string(),
            Pattern::Below(above) => format!("{above}.*"),
        })
    }
}

/// The events submitted by one request. They are accepted together or not at all.
#[derive(Clone, PartialEq, Debug)]
pub struct NewBatch {
    /// The tenant that submits the events.
    pub tenant: TenantId,
    /// The events, in the order of the request.
    pub events: Vec<NewEvent>,
    /// The request's idempotency key. `None`: retries are not detected, so each request is accepted.
    pub idempotency: Option<IdempotencyKey>,
}

/// A request's idempotency key, which identifies retries of the same request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdempotencyKey {
    /// The key that the client chose.
    pub key: String,
    /// The SHA-256 hash of the request. It detects a different request with the same key.
    pub fingerprint: [u8; 32],
}

/// An event as it is submitted.
#[derive(Clone, PartialEq, Debug)]
pub struct NewEvent {
    /// The event's type, such as `invoice.paid`.
    pub kind: EventType,
    /// The body of the event's requests, sent unchanged, byte for byte.
    pub payload: Bytes,
    /// The media type of the payload, such as `application/json`.
    pub content_type: Arc<str>,
    /// The priority within the tenant. Higher priorities are sent first.
    pub priority: Priority,
    /// The dynamic URL that the event is sent to. `None`: it is sent to the tenant's endpoints.
    pub url: Option<Url>,
    /// The earliest time of the first attempt. `None`: as soon as possible.
    pub not_before: Option<Timestamp>,
    /// When the event's deliveries expire. `None`: the setting of the endpoint or the tenant applies.
    pub expires_at: Option<Timestamp>,
}

/// An event that the gateway accepted.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// The event's id, `evt_...`.
    pub id: EventId,
    /// The name of the tenant that the event belongs to.
    pub tenant: TenantId,
    /// The owning tenant's number. A deleted tenant's name may be reused, but its number never is.
    pub owner: TenantNumber,
    /// The event as it was submitted.
    pub submitted: NewEvent,
    /// When the gateway accepted the event.
    pub accepted_at: Timestamp,
    /// The number of deliveries created from the event.
    pub deliveries: u32,
    /// The number of deliveries that are not written yet, because the event's fan-out is still running.
    pub fanning_out: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> EventType {
        text.parse().unwrap()
    }

    #[test]
    fn filters_admit_types_and_what_is_below_them() {
        let filter = Filter::any_of(["invoice.*", "user.created"]).unwrap();
        for (text, admitted) in [
            ("invoice.paid", true),
            ("invoice.line.added", true),
            ("invoice", false),
            ("invoices.paid", false),
            ("user.created", true),
            ("user.created.again", false),
        ] {
            assert_eq!(filter.admits(&kind(text)), admitted, "{text}");
        }
        assert!(Filter::ALL.admits(&kind("anything")));
        assert_eq!(filter.patterns().collect::<Vec<_>>(), ["invoice.*", "user.created"]);
    }

    #[test]
    fn what_is_no_type_is_refused() {
        for text in ["", ".", "a.", ".a", "a..b", "a b", "*", "a.*.b", "é", &"a".repeat(129)] {
            assert_eq!(text.parse::<EventType>(), Err(EventTypeError), "{text}");
        }
        assert!(Filter::any_of(["*"]).is_err());
    }
}
