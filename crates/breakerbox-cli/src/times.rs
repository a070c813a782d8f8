//! Times and durations as people write and read them on the command line. Pure: the current time is an argument.
//!
//! All commands accept the same forms: `1h`, `in 5s`, `1h ago`, `now`, `2026-11-18` (midnight in UTC) and RFC 3339.

use std::time::Duration;

use breakerbox_core::{DurationError, format_duration, parse_duration};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// The forms of a time, for `--help` and errors.
pub(super) const FORMS: &str =
    "a duration such as 1h or 30s, a date such as 2026-11-18 (UTC), or a time such as 2026-11-18T12:00:00Z";

/// The direction of a duration without `in` and `ago`.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Direction {
    Past,
    Future,
}

/// Parses a time for a filter, where `1h` means an hour ago. Returns it as RFC 3339.
pub(super) fn past(text: &str) -> Result<String, String> {
    parse(text, Direction::Past, Timestamp::now())
}

/// Parses a time for a schedule, where `1h` means an hour from now. Returns it as RFC 3339.
pub(super) fn future(text: &str) -> Result<String, String> {
    parse(text, Direction::Future, Timestamp::now())
}

/// Parses a duration from now, and returns the time as RFC 3339.
pub(super) fn from_now(text: &str) -> Result<String, String> {
    moved(Timestamp::now(), duration(text)?, Direction::Future)
}

/// Parses a duration. The error states what to write.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// Parses a duration and returns it as the API writes it.
pub(super) fn duration_text(text: &str) -> Result<String, String> {
    duration(text).map(format_duration)
}

fn parse(text: &str, plain: Direction, now: Timestamp) -> Result<String, String> {
    let text = text.trim();
    if text == "now" {
        return Ok(written(now));
    }
    let (span, direction) = if let Some(span) = text.strip_prefix("in ") {
        (span, Direction::Future)
    } else if let Some(span) = text.strip_suffix(" ago") {
        (span, Direction::Past)
    } else {
        (text, plain)
    };
    match parse_duration(span.trim()) {
        Ok(span) => return moved(now, span, direction),
        Err(error @ DurationError::NumberOnly(_)) => return Err(error.to_string()),
        Err(_) => {}
    }
    // Sent as it was written: the API's own parser has the last word.
    if text.parse::<Timestamp>().is_ok() {
        return Ok(text.to_owned());
    }
    // jiff would also parse the date of a longer string.
    if text.len() == "2026-11-18".len()
        && let Ok(date) = text.parse::<Date>()
        && let Ok(midnight) = date.to_zoned(TimeZone::UTC)
    {
        return Ok(midnight.timestamp().to_string());
    }
    Err(format!("must be {FORMS}"))
}

fn moved(now: Timestamp, span: Duration, direction: Direction) -> Result<String, String> {
    let signed = SignedDuration::try_from(span).map_err(|_| "is too long".to_owned())?;
    let moved = match direction {
        Direction::Past => now.checked_sub(signed),
        Direction::Future => now.checked_add(signed),
    };
    moved.map(written).map_err(|_| "is too long: the time is outside the calendar".to_owned())
}

/// Formats a time as the API does: RFC 3339 in UTC, to the millisecond.
pub(super) fn written(moment: Timestamp) -> String {
    format!("{moment:.3}")
}

/// Formats a time relative to now: `31s ago`, `in 12s`, `now`. Has at most 7 characters until the year 2100.
pub(super) fn relative(moment: Timestamp, now: Timestamp) -> String {
    let apart = moment.duration_since(now);
    let span = short(apart.unsigned_abs());
    match apart.as_millis() {
        -999..=999 => "now".to_owned(),
        ..=-1_000 => format!("{span} ago"),
        _ => format!("in {span}"),
    }
}

/// Formats a duration with one unit, rounded down: `250ms`, `31s`, `5m`, `23h`, `99d`, `103w`, `3y`.
pub(super) fn short(span: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    let seconds = span.as_secs();
    match seconds {
        0 => format!("{}ms", span.as_millis()),
        1..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => format!("{}m", seconds / MINUTE),
        HOUR..DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 100 * DAY => format!("{}d", seconds / DAY),
        _ if seconds < 700 * DAY => format!("{}w", seconds / (7 * DAY)),
        _ => format!("{}y", seconds / (365 * DAY)),
    }
}

/// Formats a duration like [`short`], but with tenths of a second below 10 s: `1.4s`.
pub(super) fn tenths(span: Duration) -> String {
    match span.as_millis() {
        100..10_000 => format!("{}.{}s", span.as_secs(), span.subsec_millis() / 100),
        _ => short(span),
    }
}

/// Formats a time as the time of day in UTC, such as `09:15:02`.
pub(super) fn clock(moment: Timestamp) -> String {
    let time = moment.to_zoned(TimeZone::UTC).time();
    format!("{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-18T10:00:00Z".parse().unwrap()
    }

    #[test]
    fn times_are_read_in_every_form() {
        use Direction::{Future, Past};
        for (text, direction, expected) in [
            ("1h", Past, "2026-11-18T09:00:00.000Z"),
            ("1h", Future, "2026-11-18T11:00:00.000Z"),
            ("1h30m", Past, "2026-11-18T08:30:00.000Z"),
            ("in 5s", Past, "2026-11-18T10:00:05.000Z"),
            ("2d ago", Future, "2026-11-16T10:00:00.000Z"),
            ("now", Past, "2026-11-18T10:00:00.000Z"),
            ("2026-11-17", Past, "2026-11-17T00:00:00Z"),
            ("2026-11-17T12:00:00+02:00", Past, "2026-11-17T12:00:00+02:00"),
            (" 250ms ", Future, "2026-11-18T10:00:00.250Z"),
        ] {
            assert_eq!(parse(text, direction, now()).as_deref(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("5", "write \"5s\""),
            ("", "must be a duration"),
            ("yesterday", "must be a duration"),
            ("2026-11-17T12:00", "must be a duration"),
            ("2026-13-01", "must be a duration"),
            ("in", "must be a duration"),
        ] {
            let error = parse(text, Direction::Past, now()).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let error = parse("1d", Direction::Past, Timestamp::MIN).unwrap_err();
        assert!(error.contains("outside the calendar"), "{error}");
    }

    #[test]
    fn a_number_alone_is_told_its_unit() {
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert!(duration("5").unwrap_err().starts_with("needs a unit; write \"5s\""), "{:?}", duration("5"));
        assert_eq!(duration_text("90s").as_deref(), Ok("1m30s"));
        for text in ["", "s", "5x", "1s1h", "1h5"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_shown_relative_to_now() {
        for (moment, expected) in [
            ("2026-11-18T10:00:00.500Z", "now"),
            ("2026-11-18T09:59:59.001Z", "now"),
            ("2026-11-18T09:59:29Z", "31s ago"),
            ("2026-11-18T10:00:12Z", "in 12s"),
            ("2026-11-18T10:59:59Z", "in 59m"),
            ("2026-11-17T10:00:01Z", "23h ago"),
            ("2026-08-20T10:00:00Z", "90d ago"),
            ("2026-08-01T10:00:00Z", "15w ago"),
            ("2036-11-18T10:00:00Z", "in 10y"),
            ("1999-11-18T10:00:00Z", "27y ago"),
        ] {
            let shown = relative(moment.parse().unwrap(), now());
            assert_eq!(shown, expected, "{moment}");
            assert!(shown.len() <= 7, "{shown}");
        }
        assert_eq!(short(Duration::from_millis(250)), "250ms");
        assert_eq!(tenths(Duration::from_millis(1_450)), "1.4s");
        assert_eq!(tenths(Duration::from_millis(928)), "0.9s");
        assert_eq!(tenths(Duration::from_secs(12)), "12s");
        assert_eq!(clock("2026-11-18T09:15:02.25Z".parse().unwrap()), "09:15:02");
    }
}
