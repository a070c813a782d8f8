//! The conversion of values from and to columns. SQLite has only signed 64-bit integers.

use std::error::Error;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{DeliveryState, FailReason, Id, Priority};
use rusqlite::types::Type;

/// Converts a count to an SQLite integer.
pub(crate) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Converts an SQLite integer to a count.
pub(crate) fn whole(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Converts a time to an SQLite integer: microseconds since 1970.
pub(crate) fn micros(at: Timestamp) -> i64 {
    number(at.as_micros())
}

/// Converts an SQLite integer to a time.
pub(crate) fn time(micros: i64) -> Timestamp {
    Timestamp::from_micros(whole(micros))
}

/// The `state` of a delivery that waits in its lane. It is not finished.
pub(crate) const WAITING: i64 = 0;
/// The `state` of a leased delivery. It is not finished.
pub(crate) const LEASED: i64 = 1;
/// The `state` of a finished delivery that the receiver accepted.
pub(crate) const DELIVERED: i64 = 2;
/// The `state` of a dead letter, which is a finished delivery that failed.
pub(crate) const FAILED: i64 = 3;
/// The `state` of a finished delivery that was cancelled, or whose endpoint was deleted.
pub(crate) const CANCELLED: i64 = 4;

/// Decodes a delivery's state from the columns `state`, `reason` and `attempts`.
#[must_use]
pub(crate) fn state(state: i64, reason: Option<i64>, attempts: u32) -> DeliveryState {
    match state {
        WAITING if attempts == 0 => DeliveryState::Pending,
        WAITING => DeliveryState::Retrying,
        LEASED => DeliveryState::InFlight,
        DELIVERED => DeliveryState::Delivered,
        FAILED => DeliveryState::Failed(match reason {
            Some(0) => FailReason::Rejected,
            Some(2) => FailReason::Gone,
            Some(3) => FailReason::Expired,
            Some(4) => FailReason::Unreadable,
            _ => FailReason::Exhausted,
        }),
        _ => DeliveryState::Cancelled,
    }
}

/// Encodes a failure reason for the column `reason`.
#[must_use]
pub(crate) const fn reason(reason: FailReason) -> i64 {
    match reason {
        FailReason::Rejected => 0,
        FailReason::Exhausted => 1,
        FailReason::Gone => 2,
        FailReason::Expired => 3,
        FailReason::Unreadable => 4,
    }
}

/// Encodes a priority for the column `priority`.
#[must_use]
pub(crate) const fn level(priority: Priority) -> i64 {
    match priority {
        Priority::High => 0,
        Priority::Important => 1,
        Priority::Medium => 2,
        Priority::Low => 3,
    }
}

/// Decodes the column `priority`. Unknown values mean low priority.
#[must_use]
pub(crate) fn priority(level: i64) -> Priority {
    let index = usize::try_from(level).unwrap_or(usize::MAX);
    Priority::ALL.get(index).copied().unwrap_or(Priority::Low)
}

/// Encodes a content type for the column `content_type`. JSON, the most frequent type, is stored as NULL.
#[must_use]
pub(crate) fn content_type(text: &str) -> Option<&str> {
    (text != JSON).then_some(text)
}

/// Decodes the column `content_type`; NULL means `application/json`.
#[must_use]
pub(crate) fn content_type_of(column: Option<String>) -> Arc<str> {
    static SHARED: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(JSON));
    column.map_or_else(|| Arc::clone(&SHARED), Arc::from)
}

const JSON: &str = "application/json";

/// Parses text that was validated before it was stored.
pub(crate) fn parsed<T: FromStr>(column: usize, text: &str) -> rusqlite::Result<T>
where
    T::Err: Error + Send + Sync + 'static,
{
    text.parse()
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

/// Returns whether the error concerns only the values of one row, which means that the database itself works.
pub(crate) fn is_unreadable(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

/// Converts an SQLite integer to an id. Negative numbers, which are invalid, become the lowest id.
pub(crate) fn id(number: i64) -> Id {
    Id::from_number(number).unwrap_or_else(|| Id::first_at(Timestamp::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_back() {
        for wanted in [
            FailReason::Rejected,
            FailReason::Exhausted,
            FailReason::Gone,
            FailReason::Expired,
            FailReason::Unreadable,
        ] {
            assert_eq!(state(FAILED, Some(reason(wanted)), 1), DeliveryState::Failed(wanted));
        }
        for wanted in Priority::ALL {
            assert_eq!(priority(level(wanted)), wanted);
        }
        for text in ["application/json", "text/plain"] {
            assert_eq!(&*content_type_of(content_type(text).map(str::to_owned)), text);
        }
        assert_eq!(state(WAITING, None, 0), DeliveryState::Pending);
        assert_eq!(state(WAITING, None, 1), DeliveryState::Retrying);
    }
}
