//! Clock times: RFC 3339 as input, RFC 3339 in UTC to the millisecond as output.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use serde::{Serialize, Serializer};

/// How the traffic states its times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Times {
    /// As milliseconds since an arbitrary origin (`at_ms`).
    #[default]
    Elapsed,
    /// As RFC 3339 times (`at`). Milliseconds then count from 1970, in UTC.
    Clock,
}

impl Times {
    /// Returns the name of the field with the time.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::Elapsed => "at_ms",
            Self::Clock => "at",
        }
    }

    /// Returns the clock time of these milliseconds. `None` if the traffic has no clock times.
    pub(super) const fn utc(self, at_ms: u64) -> Option<Utc> {
        match self {
            Self::Elapsed => None,
            Self::Clock => Some(Utc(at_ms)),
        }
    }
}

/// A time in milliseconds since 1970, displayed as RFC 3339 in UTC. Times after the year 9999 are displayed as its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Utc(pub(super) u64);

impl Utc {
    pub(super) fn timestamp(self) -> Timestamp {
        let millis = i64::try_from(self.0).unwrap_or(i64::MAX);
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.timestamp())
    }
}

impl Serialize for Utc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Why a string is not a time that a replay accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TimeError {
    /// The string is not an RFC 3339 time.
    NotATime,
    /// The string is a date with a time, but without an offset from UTC.
    NoOffset,
    /// The time is before 1970.
    TooEarly,
}

/// Parses an RFC 3339 time to milliseconds since 1970. Smaller fractions of a second are cut off.
pub(super) fn parse(text: &str) -> Result<u64, TimeError> {
    let time: Timestamp = text.parse().map_err(|_| {
        if text.contains(':') && text.parse::<DateTime>().is_ok() {
            TimeError::NoOffset
        } else {
            TimeError::NotATime
        }
    })?;
    u64::try_from(time.as_millisecond()).map_err(|_| TimeError::TooEarly)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_any_offset_and_written_in_utc() {
        let table = [
            ("1970-01-01T00:00:00Z", Ok("1970-01-01T00:00:00.000Z")),
            ("2026-01-31T12:00:00Z", Ok("2026-01-31T12:00:00.000Z")),
            ("2026-01-31T12:00:00.2509+02:00", Ok("2026-01-31T10:00:00.250Z")),
            ("2026-01-31t12:00:00z", Ok("2026-01-31T12:00:00.000Z")),
            ("2026-01-31 12:00:00-05:30", Ok("2026-01-31T17:30:00.000Z")),
            ("2026-01-31T12:00:00", Err(TimeError::NoOffset)),
            ("2026-01-31", Err(TimeError::NotATime)),
            ("2026-02-30T12:00:00Z", Err(TimeError::NotATime)),
            ("1730000000", Err(TimeError::NotATime)),
            ("noon", Err(TimeError::NotATime)),
            ("", Err(TimeError::NotATime)),
            ("1969-12-31T23:59:59Z", Err(TimeError::TooEarly)),
        ];
        for (text, expected) in table {
            let written = parse(text).map(|at_ms| Utc(at_ms).to_string());
            assert_eq!(written, expected.map(String::from), "{text}");
        }
    }

    #[test]
    fn a_time_after_the_calendar_is_its_end() {
        assert_eq!(Utc(u64::MAX).to_string(), "9999-12-30T22:00:00.999Z");
    }
}
