//! Durations in policy files: `"30s"`, `"5m"`, `"250ms"`, `"1h30m"`.

use alloc::string::String;
use core::fmt::Write;
use core::time::Duration;

/// The maximum duration in a policy, a hundred years. Longer durations are mistakes, and sums of shorter ones do not
/// overflow.
pub const MAX_DURATION: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Units with their lengths in milliseconds, longest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The reason why a string is not a duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// The string is empty.
    #[error("is empty; write a number and a unit, such as \"30s\"")]
    Empty,
    /// A unit has no number before it.
    #[error("needs a whole number before each unit, such as \"30s\", \"5m\" or \"250ms\"")]
    NoNumber,
    /// The string is a number without a unit.
    #[error("needs a unit; write \"{0}s\" for {0} seconds, or use the unit ms, m, h or d")]
    NumberOnly(u64),
    /// A number has no unit.
    #[error("needs a unit after each number: ms, s, m, h or d, such as \"30s\"")]
    NoUnit,
    /// The unit is not `ms`, `s`, `m`, `h` or `d`.
    #[error("has an unknown unit; the units are ms, s, m, h and d, such as \"30s\"")]
    UnknownUnit,
    /// The units are not in descending order, or a unit occurs twice.
    #[error("has its units out of order; write the longest first, such as \"1h30m\"")]
    OutOfOrder,
    /// The duration is longer than [`MAX_DURATION`].
    #[error("is too long; the longest is 36500d")]
    TooLong,
}

/// Parses a duration: one or more of `<whole number><unit>`, longest unit first, with the units `d`, `h`, `m`, `s`
/// and `ms`.
///
/// ```
/// use breakerbox_core::{DurationError, parse_duration};
/// use core::time::Duration;
///
/// assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5_400)));
/// assert_eq!(parse_duration("30"), Err(DurationError::NumberOnly(30)));
/// ```
///
/// # Errors
/// The error states what is wrong with the string and how to correct it.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let mut rest = text;
    let mut total_ms: u64 = 0;
    let mut shorter_units = &UNITS[..];
    if rest.is_empty() {
        return Err(DurationError::Empty);
    }
    while !rest.is_empty() {
        let (number, after) = split_where(rest, |c| !c.is_ascii_digit());
        if number.is_empty() {
            return Err(DurationError::NoNumber);
        }
        let (unit, after) = split_where(after, |c| c.is_ascii_digit());
        if unit.is_empty() {
            return Err(text.parse().map_or(DurationError::NoUnit, DurationError::NumberOnly));
        }
        if !UNITS.iter().any(|(name, _)| *name == unit) {
            return Err(DurationError::UnknownUnit);
        }
        let slot =
            shorter_units.iter().position(|(name, _)| *name == unit).ok_or(DurationError::OutOfOrder)?;
        // The string has only digits, so parsing fails only if the number is too large.
        let number: u64 = number.parse().map_err(|_| DurationError::TooLong)?;
        total_ms = number
            .checked_mul(shorter_units[slot].1)
            .and_then(|ms| total_ms.checked_add(ms))
            .ok_or(DurationError::TooLong)?;
        shorter_units = &shorter_units[slot + 1..];
        rest = after;
    }
    let duration = Duration::from_millis(total_ms);
    if duration > MAX_DURATION { Err(DurationError::TooLong) } else { Ok(duration) }
}

/// Formats a duration in the syntax that [`parse_duration`] accepts. Fractions of a millisecond are dropped.
///
/// ```
/// use core::time::Duration;
///
/// assert_eq!(breakerbox_core::format_duration(Duration::from_millis(90_500)), "1m30s500ms");
/// ```
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let mut left = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, ms) in UNITS {
        // Fewer than four days read better in hours: "72h".
        if unit == "d" && left < 4 * ms {
            continue;
        }
        if left >= ms {
            write!(text, "{}{unit}", left / ms).expect("a String takes all that is written to it");
            left %= ms;
        }
    }
    if text.is_empty() { String::from("0s") } else { text }
}

fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        let table = [
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("72h", 259_200_000),
            ("7d", 604_800_000),
            ("1h30m", 5_400_000),
            ("1m0s500ms", 60_500),
            ("0s", 0),
        ];
        for (text, ms) in table {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        use DurationError::{Empty, NoNumber, NoUnit, NumberOnly, OutOfOrder, TooLong, UnknownUnit};
        let table = [
            ("", Empty),
            ("s", NoNumber),
            ("-5s", NoNumber),
            ("1.5s", UnknownUnit),
            ("30", NumberOnly(30)),
            ("99999999999999999999", NoUnit),
            ("1h30", NoUnit),
            ("30 s", UnknownUnit),
            ("30sec", UnknownUnit),
            ("5M", UnknownUnit),
            ("30m1h", OutOfOrder),
            ("1s1s", OutOfOrder),
            ("36501d", TooLong),
            ("99999999999999999999s", TooLong),
            ("18446744073709551615d", TooLong),
            ("213503982334d23h", TooLong),
        ];
        for (text, error) in table {
            assert_eq!(parse_duration(text), Err(error), "{text}");
        }
        assert_eq!(parse_duration("36500d"), Ok(MAX_DURATION));
        let hint = "needs a unit; write \"5s\" for 5 seconds, or use the unit ms, m, h or d";
        assert_eq!(alloc::string::ToString::to_string(&NumberOnly(5)), hint);
    }

    #[test]
    fn writes_what_it_reads() {
        for text in ["0s", "250ms", "30s", "5m", "1h30m", "72h", "7d", "36500d", "4d1ms"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(format_duration(Duration::MAX), "213503982334d14h25m51s615ms");
    }
}
