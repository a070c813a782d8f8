//! Why a schedule is refused. Each error names the field, and says what to do.

use std::time::Duration;

use breakerbox_core::{Timestamp, format_duration};

use super::cron::CronError;
use super::schedule::{MAX_EVERY, MIN_EVERY};

/// Why a schedule is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A one-off has no time.
    #[error("at: is missing; say when it is due, or how it repeats with every or cron")]
    NoTime,
    /// It is too far away for a calendar.
    #[error("{field}: must be before the year 9999")]
    TooLate {
        /// `at` or `ends_at`.
        field: &'static str,
    },
    /// It repeats too fast or too slowly.
    #[error(
        "every: must be from {} to {}, but is {}",
        format_duration(MIN_EVERY),
        format_duration(MAX_EVERY),
        format_duration(*.found)
    )]
    Every {
        /// How long it is.
        found: Duration,
    },
    /// It is said twice how it repeats.
    #[error("every: must not come with cron; leave out one of them")]
    TwoWays,
    /// The expression is not one.
    #[error("cron: {problem}")]
    Cron {
        /// What is wrong with it.
        problem: CronError,
    },
    /// There is no such zone.
    #[error(
        "time_zone: {found:?} is unknown{}; write a name such as \"Europe/Berlin\" or \"UTC\"",
        did_you_mean(.near.as_deref())
    )]
    UnknownZone {
        /// What was asked for, cut short.
        found: String,
        /// What may have been meant.
        near: Option<String>,
    },
    /// It would end before now.
    #[error("ends_at: {} is in the past; leave it out, or name a later time", written(*.ends_at))]
    Ended {
        /// When.
        ends_at: Timestamp,
    },
    /// It would end before it begins.
    #[error("ends_at: must not be before the first run, {}", written(*.first))]
    EndsBeforeFirst {
        /// When that is.
        first: Timestamp,
    },
    /// Its cron expression has no time from its beginning on, as far as calendars go.
    #[error("at: the cron expression has no time after it; name an earlier one")]
    NothingAfter,
    /// It would never run.
    #[error("max_runs: must be at least 1; leave it out for no limit")]
    NoRuns,
}

impl ScheduleError {
    /// The field that is wrong.
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
