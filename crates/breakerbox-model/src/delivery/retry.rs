//! The schedule by which failed attempts are retried.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use breakerbox_core::{DurationError, format_duration, parse_duration};
use serde::{Deserialize, Serialize};

/// The maximum number of delays in a schedule.
pub const MAX_WAITS: usize = 50;
/// The minimum delay. Retries without a delay would be a busy loop.
pub const MIN_WAIT: Duration = Duration::from_millis(10);
/// The maximum delay: 30 days.
pub const MAX_WAIT: Duration = Duration::from_secs(30 * 86_400);
/// The maximum time by which a receiver's `Retry-After` can postpone a delivery.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(86_400);
/// The maximum jitter, as a fraction of the delay: each delay is up to 10 % shorter or longer.
const JITTER: f64 = 0.1;

/// The delays between attempts. If the attempt after the last delay fails, the delivery fails. An empty schedule
/// allows one attempt.
///
/// It serializes as a list of durations, such as `["5s", "5m", "30m"]` in JSON and TOML, and is `5s,5m,30m` as one
/// string.
///
/// ```
/// use breakerbox_model::delivery::RetrySchedule;
/// use std::time::Duration;
///
/// let schedule: RetrySchedule = "5s,5m".parse()?;
/// assert_eq!(schedule.due_after(1, 0.0, None), Some(Duration::from_secs(5)));
/// assert_eq!(schedule.due_after(2, 0.0, None), Some(Duration::from_secs(300)));
/// assert_eq!(schedule.due_after(3, 0.0, None), None, "failed");
/// # Ok::<(), breakerbox_model::delivery::RetryScheduleError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct RetrySchedule {
    waits: Vec<Duration>,
    /// Whether the delays have no jitter. This flag is not serialized, so code that deserializes a schedule has to
    /// set it.
    exact: bool,
}

/// Why a retry schedule is rejected. Indexes start at 0, as in a JSON path.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetryScheduleError {
    /// There are too many delays.
    #[error("retry: must have at most {max} waits, but has {found}")]
    TooMany {
        /// The maximum number of delays.
        max: usize,
        /// The number of delays given.
        found: usize,
    },
    /// A delay is not a valid duration.
    #[error("retry[{place}]: {problem}")]
    Duration {
        /// The index of the delay.
        place: usize,
        /// Why the duration is not valid.
        problem: DurationError,
    },
    /// A delay is too short or too long.
    #[error(
        "retry[{place}]: must be from {} to {}, but is {}",
        format_duration(MIN_WAIT),
        format_duration(MAX_WAIT),
        format_duration(*.found)
    )]
    OutOfRange {
        /// The index of the delay.
        place: usize,
        /// The delay given.
        found: Duration,
    },
}

impl RetrySchedule {
    /// Creates a schedule with these delays and jitter.
    ///
    /// # Errors
    /// Returns an error if there are too many delays, or one is too short or too long.
    pub fn new(waits: Vec<Duration>) -> Result<Self, RetryScheduleError> {
        if waits.len() > MAX_WAITS {
            return Err(RetryScheduleError::TooMany { max: MAX_WAITS, found: waits.len() });
        }
        match waits.iter().position(|wait| !(MIN_WAIT..=MAX_WAIT).contains(wait)) {
            Some(place) => Err(RetryScheduleError::OutOfRange { place, found: waits[place] }),
            None => Ok(Self { waits, exact: false }),
        }
    }

    /// Returns the default schedule for reminder runs: three retries, exactly a minute apart.
    #[must_use]
    pub fn for_reminders() -> Self {
        Self { waits: vec![Duration::from_secs(60); 3], exact: true }
    }

    /// Returns the same schedule without jitter.
    #[must_use]
    pub fn without_jitter(self) -> Self {
        Self { exact: true, ..self }
    }

    /// Returns the delays between attempts, in order.
    #[must_use]
    pub fn waits(&self) -> &[Duration] {
        &self.waits
    }

    /// Returns the delay after a failed attempt, or `None` if that attempt was the last one.
    ///
    /// `attempts_used` includes that attempt. `jitter` is a sample from -1 to 1, which changes the delay by up to a
    /// tenth, unless the schedule has no jitter. `retry_after` is the delay that the receiver asked for. It can
    /// postpone the next attempt to at most [`MAX_RETRY_AFTER`] from now, but never bring it forward.
    #[must_use]
    pub fn due_after(
        &self,
        attempts_used: u32,
        jitter: f64,
        retry_after: Option<Duration>,
    ) -> Option<Duration> {
        let place = usize::try_from(attempts_used.saturating_sub(1)).unwrap_or(usize::MAX);
        let jitter = if jitter.is_finite() && !self.exact { jitter.clamp(-1.0, 1.0) } else { 0.0 };
        let wait = self.waits.get(place)?.mul_f64(1.0 + JITTER * jitter);
        Some(retry_after.map_or(wait, |asked| wait.max(asked.min(MAX_RETRY_AFTER))))
    }
}

impl Default for RetrySchedule {
    fn default() -> Self {
        let waits = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000].map(Duration::from_secs);
        Self { waits: waits.to_vec(), exact: false }
    }
}

impl TryFrom<Vec<String>> for RetrySchedule {
    type Error = RetryScheduleError;

    fn try_from(texts: Vec<String>) -> Result<Self, RetryScheduleError> {
        read(texts.iter().map(String::as_str))
    }
}

impl From<RetrySchedule> for Vec<String> {
    fn from(schedule: RetrySchedule) -> Self {
        schedule.waits.into_iter().map(format_duration).collect()
    }
}

impl FromStr for RetrySchedule {
    type Err = RetryScheduleError;

    fn from_str(text: &str) -> Result<Self, RetryScheduleError> {
        if text.trim().is_empty() { Self::new(Vec::new()) } else { read(text.split(',').map(str::trim)) }
    }
}

impl fmt::Display for RetrySchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Vec::<String>::from(self.clone()).join(","))
    }
}

fn read<'a>(texts: impl Iterator<Item = &'a str>) -> Result<RetrySchedule, RetryScheduleError> {
    let read = |(place, text)| {
        parse_duration(text).map_err(|problem| RetryScheduleError::Duration { place, problem })
    };
    RetrySchedule::new(texts.enumerate().map(read).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_default_schedule() {
        let schedule = RetrySchedule::default();
        let table = [(1, 5), (2, 300), (3, 1_800), (4, 7_200), (5, 18_000), (6, 36_000), (7, 36_000)];
        for (attempts, wait) in table {
            assert_eq!(schedule.due_after(attempts, 0.0, None), Some(secs(wait)), "{attempts}");
        }
        assert_eq!(schedule.due_after(8, 0.0, None), None);
        assert_eq!(schedule.due_after(u32::MAX, 0.0, None), None);
        assert_eq!(schedule.due_after(0, 0.0, None), Some(secs(5)), "one that was not counted");
        assert_eq!(schedule.to_string(), "5s,5m,30m,2h,5h,10h,10h");
    }

    #[test]
    fn jitter_is_a_tenth_either_way() {
        let schedule = RetrySchedule::new(vec![secs(100)]).unwrap();
        let table = [
            (-1.0, 90.0),
            (-0.5, 95.0),
            (0.0, 100.0),
            (1.0, 110.0),
            (7.0, 110.0),
            (-7.0, 90.0),
            (f64::NAN, 100.0),
            (f64::INFINITY, 100.0),
        ];
        for (sample, expected) in table {
            let wait = schedule.due_after(1, sample, None).unwrap();
            assert!((wait.as_secs_f64() - expected).abs() < 1e-6, "{sample}: {wait:?}");
        }
    }

    #[test]
    fn reminders_wait_exactly_a_minute() {
        let schedule = RetrySchedule::for_reminders();
        for (attempts, wait) in
            [(1, Some(secs(60))), (2, Some(secs(60))), (3, Some(secs(60))), (4, None), (5, None)]
        {
            for jitter in [-1.0, 0.0, 0.7, 1.0] {
                assert_eq!(schedule.due_after(attempts, jitter, None), wait, "{attempts}, {jitter}");
            }
        }
        assert_eq!(schedule.due_after(1, 1.0, Some(secs(90))), Some(secs(90)), "a receiver is heard");
        let own = RetrySchedule::new(vec![secs(100)]).unwrap().without_jitter();
        assert_eq!(own.due_after(1, -1.0, None), Some(secs(100)));
    }

    #[test]
    fn a_receiver_can_only_put_it_off() {
        let schedule = RetrySchedule::default();
        let table =
            [(0, 5), (4, 5), (6, 6), (3_600, 3_600), (86_400, 86_400), (86_401, 86_400), (u64::MAX, 86_400)];
        for (asked, expected) in table {
            assert_eq!(schedule.due_after(1, 0.0, Some(secs(asked))), Some(secs(expected)), "{asked}");
        }
        assert_eq!(schedule.due_after(8, 0.0, Some(secs(60))), None, "it makes no attempts");
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["", "10ms", "5s,5m", "1h30m,10h,30d"] {
            let schedule: RetrySchedule = text.parse().unwrap();
            assert_eq!(schedule.to_string(), text);
            let json = serde_json::to_string(&schedule).unwrap();
            assert_eq!(serde_json::from_str::<RetrySchedule>(&json).unwrap(), schedule, "{json}");
        }
        assert_eq!("5s , 5m".parse::<RetrySchedule>().unwrap().waits(), [secs(5), secs(300)]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let many = vec!["5s"; 51].join(",");
        let table = [
            ("5s,,5m", "retry[1]: is empty; write a number and a unit, such as \"30s\""),
            ("5s,x", "retry[1]: needs a whole number before each unit"),
            ("5", "retry[0]: needs a unit; write \"5s\" for 5 seconds"),
            ("0s", "retry[0]: must be from 10ms to 30d, but is 0s"),
            ("5s,31d", "retry[1]: must be from 10ms to 30d, but is 31d"),
            (&many, "retry: must have at most 50 waits, but has 51"),
        ];
        for (text, start) in table {
            let error = text.parse::<RetrySchedule>().unwrap_err().to_string();
            assert!(error.starts_with(start), "{text}: {error}");
        }
        assert!(serde_json::from_str::<RetrySchedule>("[5]").is_err());
    }
}
