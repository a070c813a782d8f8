//! Numbers for values in columns. Databases have signed 64-bit integers only.

use std::sync::{Arc, LazyLock};

use breakerbox_core::{OutcomeKind, Timestamp};
use breakerbox_model::objects::{DeliveryState, FailReason, Id, PermitSettled, Priority, SettledAs};

use crate::records::SendState;

/// Converts a count to a database integer.
#[must_use]
pub fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Converts a database integer to a count.
#[must_use]
pub fn whole(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Converts a time to a database integer: microseconds since 1970.
#[must_use]
pub fn micros(at: Timestamp) -> i64 {
    number(at.as_micros())
}

/// Converts a database integer to a time.
#[must_use]
pub fn time(micros: i64) -> Timestamp {
    Timestamp::from_micros(whole(micros))
}

/// Converts a database integer to an id. Negative numbers, which are invalid, become the lowest id.
#[must_use]
pub fn id(number: i64) -> Id {
    Id::from_number(number).unwrap_or_else(|| Id::first_at(Timestamp::ZERO))
}

/// The `state` of a delivery that waits in its lane. It is not finished.
pub const WAITING: i64 = 0;
/// The `state` of a leased delivery. It is not finished.
pub const LEASED: i64 = 1;
/// The `state` of a finished delivery that the receiver accepted.
pub const DELIVERED: i64 = 2;
/// The `state` of a dead letter, which is a finished delivery that failed.
pub const FAILED: i64 = 3;
/// The `state` of a finished delivery that was cancelled, or whose endpoint was deleted.
pub const CANCELLED: i64 = 4;

/// Decodes a delivery's state from the columns `state`, `reason` and `attempts`.
#[must_use]
pub fn state(state: i64, reason: Option<i64>, attempts: u32) -> DeliveryState {
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
pub const fn reason(reason: FailReason) -> i64 {
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
pub const fn level(priority: Priority) -> i64 {
    match priority {
        Priority::High => 0,
        Priority::Important => 1,
        Priority::Medium => 2,
        Priority::Low => 3,
    }
}

/// Decodes the column `priority`. Unknown values mean low priority.
#[must_use]
pub fn priority(level: i64) -> Priority {
    let index = usize::try_from(level).unwrap_or(usize::MAX);
    Priority::ALL.get(index).copied().unwrap_or(Priority::Low)
}

/// The most frequent content type.
pub(super) const JSON: &str = "application/json";

/// Encodes a content type for the column `content_type`. JSON, the most frequent type, is stored as NULL.
#[must_use]
pub fn content_type(text: &str) -> Option<&str> {
    (text != JSON).then_some(text)
}

/// Decodes the column `content_type`; NULL means `application/json`.
#[must_use]
pub fn content_type_of(column: Option<String>) -> Arc<str> {
    static SHARED: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(JSON));
    column.map_or_else(|| Arc::clone(&SHARED), Arc::from)
}

/// Encodes the state of a notification at a target.
#[must_use]
pub const fn send_state_number(state: SendState) -> i64 {
    match state {
        SendState::Waiting => 0,
        SendState::Sent => 1,
        SendState::GivenUp => 2,
        SendState::Dropped => 3,
    }
}

/// Decodes the state of a notification at a target. Unknown values mean [`SendState::Dropped`].
#[must_use]
pub fn send_state(number: i64) -> SendState {
    let known = SendState::ALL.into_iter().find(|state| send_state_number(*state) == number);
    known.unwrap_or(SendState::Dropped)
}

const OUTCOMES: [OutcomeKind; 3] = [OutcomeKind::Success, OutcomeKind::Failure, OutcomeKind::Ignored];

/// Encodes the outcome of a permit for the column `outcome`.
#[must_use]
pub fn outcome_number(outcome: OutcomeKind) -> i64 {
    position(&OUTCOMES, outcome)
}

/// Encodes a circuit's response to a permit's outcome for the column `settled`.
#[must_use]
pub fn settled_number(settled: SettledAs) -> i64 {
    position(&SettledAs::ALL, settled)
}

/// Decodes the columns `settled` and `outcome` of a permit.
#[must_use]
pub fn permit_settled(settled: i64, outcome: i64) -> PermitSettled {
    let index = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
    PermitSettled {
        outcome: OUTCOMES.get(index(outcome)).copied().unwrap_or(OutcomeKind::Ignored),
        settled: SettledAs::ALL.get(index(settled)).copied().unwrap_or(SettledAs::Unconfirmed),
    }
}

/// Returns the number that the database stores for the value `word`: its index in `words`, or 0 if it is
/// missing there.
fn position<T: PartialEq>(words: &[T], word: T) -> i64 {
    number(words.iter().position(|other| *other == word).unwrap_or_default() as u64)
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
        for wanted in SendState::ALL {
            assert_eq!(send_state(send_state_number(wanted)), wanted);
        }
        for (outcome, settled) in OUTCOMES.into_iter().flat_map(|one| SettledAs::ALL.map(|two| (one, two))) {
            let read = permit_settled(settled_number(settled), outcome_number(outcome));
            assert_eq!((read.outcome, read.settled), (outcome, settled));
        }
        assert_eq!(state(WAITING, None, 0), DeliveryState::Pending);
        assert_eq!(state(WAITING, None, 1), DeliveryState::Retrying);
    }
}
