//! Conversions between three clocks: schedules use the wall clock, the receiver's times are relative to its
//! start, and the test sleeps by the monotonic clock.

use std::thread;
use std::time::{Duration, SystemTime};

use breakerbox::Timestamp;
use breakerbox_testkit::receiver::Receiver;

/// Returns the current wall-clock time.
pub(in crate::gateway) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// Returns the wall-clock time of a receiver's start.
pub(super) fn start_of(receiver: &Receiver) -> Timestamp {
    let micros = u64::try_from(receiver.start_time().elapsed().as_micros()).unwrap_or(0);
    Timestamp::from_micros(now().as_micros().saturating_sub(micros))
}

/// Sleeps until this wall-clock time.
pub(in crate::gateway) fn sleep_until(at: Timestamp) {
    thread::sleep(at.since(now()));
}

/// Returns the delay from a run's due time to its arrival, or zero if the run arrived too early. `at` is
/// relative to `start`.
pub(super) fn lag(due: Timestamp, start: Timestamp, at: Duration) -> Duration {
    (start + at).since(due)
}
