//! Tests of schedules and next steps, in virtual time.

mod next_steps;
mod schedules;
mod simulation;

use std::time::Duration;

use breakerbox_core::Timestamp;

use super::{CatchUp, Cron, Progress, Repeat, Schedule, WhenFailed};

fn at(text: &str) -> Timestamp {
    let moment: jiff::Timestamp = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    Timestamp::from_micros(u64::try_from(moment.as_microsecond()).unwrap())
}

/// The given minute of a fixed day.
const fn minute(minute: u64) -> Timestamp {
    Timestamp::from_millis(1_767_225_600_000 + minute * 60_000)
}

const fn every(seconds: u64) -> Repeat {
    Repeat::Every(Duration::from_secs(seconds))
}

fn cron(text: &str, zone: &str) -> Repeat {
    Repeat::Cron(Cron::new(text, zone).unwrap())
}

/// A schedule without an end, starting at this time.
const fn from(first_at: Timestamp, repeat: Repeat) -> Schedule {
    Schedule { first_at, repeat, ends_at: None, max_runs: None }
}

/// The progress of a reminder that has not run yet.
const fn fresh(schedule: Schedule, catch_up: CatchUp) -> Progress {
    Progress { schedule, catch_up, when_failed: WhenFailed::Stop, runs: 0, last: None }
}
