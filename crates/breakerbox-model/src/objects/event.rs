//! Events: what customers submit.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use breakerbox_core::Timestamp;
use bytes::Bytes;
use url::Url;

use super::{EventId, Priority, TenantId, TenantNumber};

/// The longest event type, in bytes.
const MAX_TYPE_LENGTH: usize = 128;

/// What kind of event it is, such as `invoice.paid`: words of letters, digits, `_` and `-`, parted by dots.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventType(Arc<str>);

impl EventType {
    /// The text.
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

/// Why something is no event type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "must be 1 to {MAX_TYPE_LENGTH} characters: words of a-z, A-Z, 0-9, `_` and `-`, parted by single dots"
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

/// Which events an endpoint gets: all of them, or those of some types. `invoice.*` means every type below `invoice.`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Filter(Vec<Pattern>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Pattern {
    Exactly(EventType),
    Below(EventType),
}

impl Filter {
    /// All events.
    pub const ALL: Self = Self(Vec::new());

    /// Events of any of these types or patterns; of all if there are none.
    ///
    /// # Errors
    /// If one is neither a type nor a type followed by `.*`.
    pub fn any_of<'t>(patterns: impl IntoIterator<Item = &'t str>) -> Result<Self, EventTypeError> {
        let pattern = |text: &str| match text.strip_suffix(".*") {
            Some(above) => above.parse().map(Pattern::Below),
            None => text.parse().map(Pattern::Exactly),
        };
        patterns.into_iter().map(pattern).collect::<Result<_, _>>().map(Self)
    }

    /// Whether it lets an event of this type through.
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

    /// The types and patterns, as they were given.
    pub fn patterns(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|pattern| match pattern {
            Pattern::Exactly(kind) => kind.to_string(),
            Pattern::Below(above) => format!("{above}.*"),
        })
    }
}

/// Events of one request, which are accepted together or not at all.
#[derive(Clone, PartialEq, Debug)]
pub struct NewBatch {
    /// Whose.
    pub tenant: TenantId,
    /// The events.
    pub events: Vec<NewEvent>,
    /// How a repetition is known.
    pub idempotency: Option<IdempotencyKey>,
}

/// How the repetition of a request is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdempotencyKey {
    /// The client's word.
    pub key: String,
    /// SHA-256 of what was asked, so that another request with the same key is noticed.
    pub fingerprint: [u8; 32],
}

/// An event that is submitted.
#[derive(Clone, PartialEq, Debug)]
pub struct NewEvent {
    /// What kind.
    pub kind: EventType,
    /// What is sent, byte for byte.
    pub payload: Bytes,
    /// What the payload is, such as `application/json`.
    pub content_type: Arc<str>,
    /// How important.
    pub priority: Priority,
    /// Where it goes, instead of to the tenant's endpoints.
    pub url: Option<Url>,
    /// Not sent before.
    pub not_before: Option<Timestamp>,
    /// Given up after, instead of what endpoint or tenant say.
    pub expires_at: Option<Timestamp>,
}

/// An event that was accepted.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// Its name.
    pub id: EventId,
    /// Whose.
    pub tenant: TenantId,
    /// The same, where another tenant may have taken the name since.
    pub owner: TenantNumber,
    /// What was submitted.
    pub submitted: NewEvent,
    /// When.
    pub accepted_at: Timestamp,
    /// How many deliveries it has.
    pub deliveries: u32,
    /// How many of them are still to be written, because its fan-out is under way.
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
