//! Timestamps inside payloads: the sender of an event writes one, and the receiver reads it.
//!
//! The difference is the end-to-end latency, without a lookup or stored state. Times are relative to the first
//! use in this process, so the sender and the receiver must be in the same process.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The start of a payload that contains a timestamp. [`WIDTH`] digits follow.
pub const PREFIX: &str = r#"{"at":""#;

/// The number of digits in a timestamp.
pub const WIDTH: usize = 20;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns the current time, in nanoseconds since the first use of this module.
#[must_use]
pub fn now() -> u64 {
    of(Instant::now())
}

/// Converts a time to nanoseconds since the first use of this module. Earlier times become 0.
#[must_use]
pub fn of(moment: Instant) -> u64 {
    u64::try_from(moment.saturating_duration_since(*START).as_nanos()).unwrap_or(u64::MAX)
}

/// Writes a timestamp as [`WIDTH`] digits. If the buffer is shorter, it gets the last digits.
pub fn write(mut stamp: u64, place: &mut [u8]) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + u8::try_from(stamp % 10).unwrap_or(0);
        stamp /= 10;
    }
}

/// Returns the timestamp at the start of a payload, or `None` if the payload has no timestamp.
#[must_use]
pub fn read(payload: &[u8]) -> Option<u64> {
    let digits = payload.strip_prefix(PREFIX.as_bytes())?.get(..WIDTH)?;
    digits.iter().try_fold(0_u64, |sum, digit| {
        let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
        sum.checked_mul(10)?.checked_add(digit.into())
    })
}

/// Returns the time since a payload was stamped, or `None` if the payload has no timestamp.
#[must_use]
pub fn age(payload: &[u8]) -> Option<Duration> {
    read(payload).map(|stamp| Duration::from_nanos(now().saturating_sub(stamp)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for stamp in [0, 7, 12_345_678_901_234, u64::MAX] {
            let mut payload = format!("{PREFIX}{}\",\"n\":1}}", "x".repeat(WIDTH)).into_bytes();
            write(stamp, &mut payload[PREFIX.len()..PREFIX.len() + WIDTH]);
            assert_eq!(read(&payload), Some(stamp));
        }
        for payload in ["", "{}", r#"{"at":"12"}"#, r#"{"at":"1234567890123456789x"}"#] {
            assert_eq!(read(payload.as_bytes()), None, "{payload}");
        }
    }
}
