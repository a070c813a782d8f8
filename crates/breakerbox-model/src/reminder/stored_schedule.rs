//! The stored form of a schedule: compact JSON, without a version number.
//!
//! `{"at":1767225600000000}` runs once, `{"at":..,"every_ms":60000}` every minute, and `{"at":..,"cron":"0 9 * *
//! *","zone":"UTC"}` by a cron expression. Times are in microseconds. A stored schedule is validated again when it is
//! read.

use std::time::Duration;

use breakerbox_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::cron::Cron;
use super::error::ScheduleError;
use super::schedule::{Repeat, Schedule};

// A field added by a later version may restrict the runs, so unknown fields are an error.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredSchedule {
    at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    every_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ends_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_runs: Option<u32>,
}

impl From<Schedule> for StoredSchedule {
    fn from(schedule: Schedule) -> Self {
        let (every_ms, cron, zone) = match schedule.repeat {
            Repeat::Once => (None, None, None),
            Repeat::Every(every) => (Some(u64::try_from(every.as_millis()).unwrap_or(u64::MAX)), None, None),
            Repeat::Cron(cron) => (None, Some(cron.to_string()), Some(cron.zone().to_owned())),
        };
        Self {
            at: schedule.first_at.as_micros(),
            every_ms,
            cron,
            zone,
            ends_at: schedule.ends_at.map(Timestamp::as_micros),
            max_runs: schedule.max_runs,
        }
    }
}

impl TryFrom<StoredSchedule> for Schedule {
    type Error = ScheduleError;

    fn try_from(stored: StoredSchedule) -> Result<Self, ScheduleError> {
        let repeat = match (stored.every_ms, stored.cron) {
            (None, None) => Repeat::Once,
            (Some(every), None) => Repeat::Every(Duration::from_millis(every)),
            (None, Some(cron)) => Repeat::Cron(Cron::new(&cron, stored.zone.as_deref().unwrap_or("UTC"))?),
            (Some(_), Some(_)) => return Err(ScheduleError::TwoWays),
        };
        let schedule = Self {
            first_at: Timestamp::from_micros(stored.at),
            repeat,
            ends_at: stored.ends_at.map(Timestamp::from_micros),
            max_runs: stored.max_runs,
        };
        schedule.check()?;
        Ok(schedule)
    }
}
