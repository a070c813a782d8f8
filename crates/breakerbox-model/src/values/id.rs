//! Ids: 63 bits, of which the first 42 are the milliseconds since 1970. So ids sort by the time they were created, an
//! index on them grows at its end, and a page can begin at any of them.
//!
//! Written, an id is a prefix for the kind of object and 13 characters of Crockford's base 32 in lower case.

use std::fmt;
use std::str::FromStr;

use breakerbox_core::Timestamp;

/// The number of bits that count within a millisecond.
const COUNTER_BITS: u32 = 21;
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// The number of digits of a written id, at 5 bits each.
const LENGTH: usize = 13;

/// A 63-bit number that sorts by time.
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

    /// Returns the lowest id of the millisecond that contains this time.
    #[must_use]
    pub fn first_at(now: Timestamp) -> Self {
        let millis = i64::try_from(now.as_micros() / 1_000).unwrap_or(i64::MAX) & (i64::MAX >> COUNTER_BITS);
        Self(millis << COUNTER_BITS)
    }

    /// Returns the next id after this one, at this time. It is always greater, even if the clock was set back.
    #[must_use]
    pub fn next(self, now: Timestamp) -> Self {
        Self(Self::first_at(now).0.max(self.0.saturating_add(1)))
    }

    /// Returns when the id was created, to the millisecond.
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
            // The first digit has room for only four bits; more would wrap.
            let shifted = number.checked_mul(32).ok_or(IdError::Malformed)?;
            Ok(shifted + digit as u64)
        })?;
        i64::try_from(number).ok().and_then(Self::from_number).ok_or(IdError::Malformed)
    }
}

/// Why a text is not an id of the expected kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The text has the prefix of another kind, or none.
    #[error("must begin with `{expected}`")]
    Prefix {
        /// The prefix of the expected kind.
        expected: &'static str,
    },
    /// The text is not an id of any kind.
    #[error("must be a prefix and 13 characters of 0-9 and a-z without i, l, o and u")]
    Malformed,
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $prefix:literal,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub Id);

        impl $name {
            /// The prefix of the text.
            pub const PREFIX: &str = $prefix;

            /// Returns the number, as a database stores it.
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
    /// The ID of an endpoint.
    EndpointId "ep_",
    /// The ID of an event, and the `webhook-id` of all its requests.
    EventId "evt_",
    /// The ID of a delivery.
    DeliveryId "dlv_",
    /// The ID of a reminder. With the number of a run it is the `webhook-id` of that run's requests.
    ReminderId "rem_",
    /// The ID of an API key. It is not a secret.
    ApiKeyId "key_",
    /// The ID of a background job, such as a resend.
    JobId "job_",
    /// The ID of a lane. The lane of an endpoint has the endpoint's number; a lane of dynamic URLs has its own.
    LaneId "lane_",
    /// The ID of a notification, and the `webhook-id` of its message.
    NotificationId "ntf_",
    /// The ID of a notification target of a tenant.
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
