//! The errors in a schedule. Each names the field and the remedy.

use std::time::Duration;

use breakerbox_core::{Timestamp, format_duration};

use super::cron::CronError;
use super::schedule::{MAX_EVERY, MIN_EVERY};

/// Why a schedule is rejected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A reminder that runs once has no time.
    #[error("at: is missing; send the time of the run, or every or cron to repeat")]
    NoTime,
    /// A time is beyond the end of the calendar.
    #[error("{field}: must be before the year 9999")]
    TooLate {
        /// The invalid field: `at` or `ends_at`.
        field: &'static str,
    },
    /// The interval is too short or too long.
    #[error(
        "every: must be from {} to {}, but is {}",
        format_duration(MIN_EVERY),
        format_duration(MAX_EVERY),
        format_duration(*.found)
    )]
    Every {
        /// The interval as given.
        found: Duration,
    },
    /// Both `every` and `cron` are set.
    #[error("every: can't be combined with cron; omit one of them")]
    TwoWays,
    /// The cron expression is invalid.
    #[error("cron: {problem}")]
    Cron {
        /// Why the expression is invalid.
        problem: CronError,
    },
    /// The time zone is unknown.
    #[error(
        "time_zone: {found:?} is unknown{}; write a name such as \"Europe/Berlin\" or \"UTC\"",
        did_you_mean(.near.as_deref())
    )]
    UnknownZone {
        /// The name as given, truncated for the error message.
        found: String,
        /// A similar name that is known, if any.
        near: Option<String>,
    },
    /// The schedule ends in the past.
    #[error("ends_at: {} is in the past; omit it, or use a later time", written(*.ends_at))]
    Ended {
        /// The end of the schedule that the client specified.
        ends_at: Timestamp,
    },
    /// The schedule ends before its first occurrence.
    #[error("ends_at: must not be before the first run, {}", written(*.first))]
    EndsBeforeFirst {
        /// The schedule's first occurrence.
        first: Timestamp,
    },
    /// The cron expression has no occurrence between the start of the schedule and the end of the calendar.
    #[error("at: the cron expression has no time after it; use an earlier one")]
    NothingAfter,
    /// The maximum number of runs is 0.
    #[error("max_runs: must be at least 1; omit it for no limit")]
    NoRuns,
}

impl ScheduleError {
    /// Returns the name of the invalid field.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::NoTime | Self::NothingAfter => "at",
            Self::TooLate { field } => field,
            Self::Every { .. } | Self::TwoWays => "every",
            Self::Cron { .. } => "cron",
            Self::UnknownZone { .. } => "time_zone",
            Self::Ended { .. } | Self::EndsBeforeFirst { .. } => "ends_at",
            Self::NoRuns => "max_runs",
        }
    }
}

impl From<CronError> for ScheduleError {
    fn from(problem: CronError) -> Self {
        Self::Cron { problem }
    }
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!(" (did you mean {near:?}?)"))
}

fn written(at: Timestamp) -> String {
    let micros = i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX).to_string()
}
