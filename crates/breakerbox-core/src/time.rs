//! Points in time, by the store's clock.
//!
//! A [`Timestamp`] counts microseconds from an origin that the caller chooses (the Unix epoch for Redis and Postgres,
//! any monotonic origin in memory). It is always an argument: this crate never reads a clock. Sums saturate, so no
//! duration, however long, can make a deadline wrap into the past.

use core::ops::Add;
use core::time::Duration;

/// A point in time, in microseconds since an origin that the caller chooses.
///
/// ```
/// use breakerbox_core::Timestamp;
/// use core::time::Duration;
///
/// let opened_at = Timestamp::from_millis(1_000);
/// let retry_at = opened_at + Duration::from_secs(30);
/// assert_eq!(retry_at.since(opened_at), Duration::from_secs(30));
/// assert_eq!(opened_at.since(retry_at), Duration::ZERO, "a time in the future is no time ago");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Timestamp(u64);

impl Timestamp {
    /// The origin, at zero microseconds.
    pub const ZERO: Self = Self(0);

    /// Returns the point in time this many microseconds after the origin.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Returns the point in time this many milliseconds after the origin.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Returns the microseconds since the origin.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns the milliseconds since the origin, rounded up, so that a caller that waits until this time does not wake
    /// up early.
    #[must_use]
    pub const fn as_millis_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Subtracts a duration, saturating at the origin.
    #[must_use]
    pub fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(by.as_micros()).unwrap_or(u64::MAX)))
    }

    /// Returns the duration from `earlier` to this point in time; zero if `earlier` is later than this point.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// Subtracts a duration, saturating at the origin.
    #[must_use]
    pub(crate) fn back_by(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(micros(by)))
    }

    /// Converts this time from a clock that shows `before` to one that shows `after` at the same moment.
    #[must_use]
    pub(crate) const fn moved(self, before: Self, after: Self) -> Self {
        Self(match after.0.checked_sub(before.0) {
            Some(ahead) => self.0.saturating_add(ahead),
            None => self.0.saturating_sub(before.0 - after.0),
        })
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }
}

/// Returns a duration in whole microseconds, saturating on overflow.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_saturate_instead_of_wrapping() {
        assert_eq!(Timestamp(u64::MAX - 1) + Duration::from_secs(1), Timestamp(u64::MAX));
        assert_eq!(Timestamp(5) + Duration::MAX, Timestamp(u64::MAX));
        assert_eq!(Timestamp::from_millis(u64::MAX), Timestamp(u64::MAX));
        assert_eq!(Timestamp(5).back_by(Duration::from_secs(1)), Timestamp::ZERO);
    }

    #[test]
    fn milliseconds_round_up() {
        assert_eq!(Timestamp(1_000).as_millis_ceil(), 1);
        assert_eq!(Timestamp(1_001).as_millis_ceil(), 2);
    }
}
