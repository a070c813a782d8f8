//! Conversions to and from `bigint`, the database's signed 64-bit integer. Values that do not fit are clamped;
//! real counts and times never reach the limits.

use std::time::Duration;

use breakerbox::{Epoch, Timestamp};

/// The maximum duration, in microseconds. It is small enough that adding a realistic time to it does not
/// overflow.
const LONGEST: u64 = 1 << 62;

/// Converts a count to the database's type, saturating at the maximum.
pub(crate) fn count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Converts a count from the database's type; negative counts become zero.
pub(crate) fn counted(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

/// Converts a duration to microseconds.
pub(crate) fn micros(duration: Duration) -> i64 {
    count(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).min(LONGEST))
}

/// Converts a duration to nanoseconds.
pub(crate) fn nanos(duration: Duration) -> i64 {
    count(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Converts a point in time to microseconds.
pub(crate) fn time(time: Timestamp) -> i64 {
    count(time.as_micros())
}

/// Converts microseconds from the database to a point in time.
pub(crate) fn timed(time: i64) -> Timestamp {
    Timestamp::from_micros(counted(time))
}

/// Converts an epoch to a signed number with the same bits. Epochs are only compared for equality, so the sign
/// does not matter.
pub(crate) fn epoch(epoch: Epoch) -> i64 {
    epoch.0.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_the_nearest_that_does() {
        assert_eq!((count(7), count(u64::MAX)), (7, i64::MAX));
        assert_eq!((counted(7), counted(-1)), (7, 0));
        assert_eq!(micros(Duration::from_micros(7)), 7);
        assert_eq!(micros(Duration::MAX).checked_add(1 << 61), Some(i64::MAX - (1 << 61) + 1));
        assert_eq!((nanos(Duration::from_nanos(7)), nanos(Duration::MAX)), (7, i64::MAX));
        assert_eq!(time(Timestamp::from_micros(u64::MAX)), i64::MAX);
        assert_ne!(epoch(Epoch(u64::MAX)), epoch(Epoch(u64::MAX - 1)));
    }
}
