//! Ids: 63-bit numbers whose first 42 bits are the milliseconds since 1970. So ids sort by creation time, an index on
//! them grows at its end, and a page can begin at any of them.
//!
//! An id is written as a prefix for the kind of object and 13 characters of Crockford's base 32, in lower case.

use std::fmt;
use std::str::FromStr;

use breakerbox_core::Timestamp;

/// The number of low bits that distinguish ids created in the same millisecond.
const COUNTER_BITS: u32 = 21;
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// The number of digits in a written id, after its prefix. Each digit encodes 5 bits.
const LENGTH: usize = 13;

/// A 63-bit id that sorts by creation time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Id(i64);

impl Id {
    /// Returns the id with this number, or `None` if the number is negative.
    #[must_use]
    pub const fn from_number(number: i64) -> Option<Self> {
        if number < 0 { None } else { Some(Self(number)) }
    }

    /// Returns the number, as the database stores it. It is never negative.
    #[must_use]
    pub const fn number(self) -> i64 {
        self.0
    }

    /// Returns the lowest possible id for the millisecond that contains this time. Times after the year 2109 have no
    /// ids; for them, returns the id of the last millisecond.
    #[must_use]
    pub fn first_at(now: Timestamp) -> Self {
        let millis = i64::try_from(now.as_micros() / 1_000).unwrap_or(i64::MAX).min(i64::MAX >> COUNTER_BITS);
        Self(millis << COUNTER_BITS)
    }

    /// Returns the id that follows this one, given the current time. The result is always greater than this id, even
    /// if the clock was set back.
    #[must_use]
    pub fn next(self, now: Timestamp) -> Self {
        Self(Self::first_at(now).0.max(self.0.saturating_add(1)))
    }

    /// Returns the time at which the id was created, to the millisecond.
    #[must_use]
    pub fn made_at(self) -> Timestamp {
        Timestamp::from_millis((self.0 >> COUNTER_BITS).unsigned_abs())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0_u8; LENGTH];
        let mut rest = self.0.unsigned_abs();
        for digit in text.iter_mut().rev() {
            *digit = DIGITS[usize::try_from(rest & 31).unwrap_or_default()];
            rest >>= 5;
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl FromStr for Id {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if text.len() != LENGTH {
            return Err(IdError::Malformed);
        }
        let number = text.bytes().try_fold(0_u64, |number, byte| {
            let digit = DIGITS.iter().position(|digit| *digit == byte).ok_or(IdError::Malformed)?;
            // 13 digits of 5 bits are 65 bits: a first digit above 15 overflows.
            let shifted = number.checked_mul(32).ok_or(IdError::Malformed)?;
            Ok(shifted + digit as u64)
        })?;
        i64::try_from(number).ok().and_then(Self::from_number).ok_or(IdError::Malformed)
    }
}

/// Why a string is not an id of the expected kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The string has another kind's prefix, or no prefix.
    #[error("must begin with `{expected}`")]
    Prefix {
        /// The prefix of the expected kind of id.
        expected: &'static str,
    },
    /// The string is not an id of any kind.
    #[error("must be a prefix and 13 characters of 0-9 and a-z without i, l, o and u")]
    Malformed,
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $prefix:literal,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub Id);

        impl $name {
            /// The prefix of this kind of id.
            pub const PREFIX: &str = $prefix;

            /// Returns the number that the database stores.
            #[must_use]
            pub const fn number(self) -> i64 {
                self.0.number()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $prefix, self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                text.strip_prefix($prefix).ok_or(IdError::Prefix { expected: $prefix })?.parse().map(Self)
            }
        }
    )*};
}

ids! {
    /// The ID of an endpoint. The endpoint's lane has the same number.
    EndpointId "ep_",
    /// The ID of an event, and the `webhook-id` of all its requests.
    EventId "evt_",
    /// The ID of a delivery. The deliveries of an event have the IDs that follow the event's.
    DeliveryId "dlv_",
    /// The ID of a reminder. Together with the number of a run, it forms the `webhook-id` of that run's requests.
    ReminderId "rem_",
    /// The ID of an API key. It is not a secret.
    ApiKeyId "key_",
    /// The ID of a background job, such as a resend.
    JobId "job_",
    /// The ID of a lane. An endpoint's lane has the endpoint's number; a lane for dynamic URLs has its own.
    LaneId "lane_",
    /// The ID of a notification, and the `webhook-id` of its message.
    NotificationId "ntf_",
    /// The ID of a tenant's notification target.
    TargetId "tgt_",
}

impl From<EndpointId> for LaneId {
    fn from(endpoint: EndpointId) -> Self {
        Self(endpoint.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_beyond_all_ids_is_after_all_others() {
        let today = Id::first_at(Timestamp::from_millis(1_763_000_000_000));
        let far = Id::first_at(Timestamp::from_millis(32_472_144_000_000));
        assert!(far > today && far <= Id::first_at(Timestamp::from_micros(u64::MAX)));
    }

    #[test]
    fn ids_sort_by_time_and_are_read_back() {
        let first = Id::first_at(Timestamp::from_millis(1_763_000_000_000));
        let second = first.next(Timestamp::from_millis(1_763_000_000_000));
        let stepped_back = second.next(Timestamp::from_millis(1));
        assert!(first < second && second < stepped_back);
        assert_eq!(stepped_back.made_at(), Timestamp::from_millis(1_763_000_000_000));
        assert!(first.to_string() < second.to_string(), "as texts too");
        let event = EventId(second);
        assert_eq!(event.to_string().parse(), Ok(event));
        assert_eq!(Id::from_number(i64::MAX).map(|id| id.to_string()).as_deref(), Some("7zzzzzzzzzzzz"));
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for text in
            ["", "0", "zzzzzzzzzzzzz", "8000000000000", "000000000000i", "00000000000000", "00000000000é"]
        {
            assert_eq!(text.parse::<Id>(), Err(IdError::Malformed), "{text}");
        }
        assert_eq!("dlv_0000000000000".parse::<EventId>(), Err(IdError::Prefix { expected: "evt_" }));
    }
}
