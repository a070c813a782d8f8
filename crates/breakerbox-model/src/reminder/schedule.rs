//! The schedule of a reminder.
//!
//! A schedule is a sequence of occurrences. It can return the first one, the first one after a time, and the latest
//! one up to a time. It does not track which of them were fired.

use std::time::Duration;

use breakerbox_core::Timestamp;
use jiff::Zoned;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::cron::Cron;
use super::error::ScheduleError;
use super::stored_schedule::StoredSchedule;

/// The minimum interval between two runs.
pub const MIN_EVERY: Duration = Duration::from_secs(1);
/// The maximum interval between two runs: five years of 365 days.
pub const MAX_EVERY: Duration = Duration::from_secs(5 * 365 * 86_400);
/// The maximum number of skipped occurrences that are counted. If more are skipped, this number is reported.
pub const MAX_SKIPPED: u32 = 10_000;
/// The end of the calendar: the beginning of the year 9999.
const END_OF_TIME: Timestamp = Timestamp::from_millis(253_370_764_800_000);
/// The latest time at which an occurrence can be: just before [`END_OF_TIME`].
const LAST_TIME: Timestamp = Timestamp::from_micros(END_OF_TIME.as_micros() - 1);

/// The times at which a reminder is due.
///
/// ```
/// use breakerbox_core::Timestamp;
/// use breakerbox_model::reminder::{Cron, Repeat, Schedule};
///
/// let at = |text: &str| {
///     let moment: jiff::Timestamp = text.parse().unwrap();
///     Timestamp::from_micros(moment.as_microsecond() as u64)
/// };
/// let now = at("2026-03-27T12:00:00Z");
/// let nightly = Repeat::Cron(Cron::new("30 2 * * *", "Europe/Berlin")?);
/// let schedule = Schedule::new(None, nightly, None, None, now)?;
/// assert_eq!(schedule.first(), Some(at("2026-03-28T01:30:00Z")));
/// // On the 29th there is no half past two: clocks go from two to three.
/// assert_eq!(schedule.after(at("2026-03-28T01:30:00Z")), Some(at("2026-03-29T01:00:00Z")));
/// assert_eq!(schedule.after(at("2026-03-29T01:00:00Z")), Some(at("2026-03-30T00:30:00Z")));
/// # Ok::<(), breakerbox_model::reminder::ScheduleError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "StoredSchedule", into = "StoredSchedule")]
pub struct Schedule {
    /// The time of the first run; with a cron expression, the earliest possible time.
    pub first_at: Timestamp,
    /// How the schedule repeats after the first run.
    pub repeat: Repeat,
    /// The latest time at which a run may be due. `None`: no end.
    pub ends_at: Option<Timestamp>,
    /// The maximum number of runs. `None`: no limit.
    pub max_runs: Option<u32>,
}

/// How a reminder repeats after its first run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Repeat {
    /// The reminder does not repeat.
    Once,
    /// At a fixed interval of elapsed time, counted from the first run. A day is always 24 hours, even when the
    /// clocks change; for local days use a cron expression.
    Every(Duration),
    /// At the local times that a cron expression matches.
    Cron(Cron),
}

/// The latest occurrence in a time span, and the number of earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missed {
    /// The time of the latest occurrence.
    pub latest: Timestamp,
    /// The number of earlier occurrences in the span; [`MAX_SKIPPED`] means that many or more.
    pub skipped: u32,
}

/// The effect of replacing a reminder's schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScheduleChange {
    /// The new schedule has the same times and differs only in its end, so the reminder continues where it was.
    Continues,
    /// The reminder starts over, and a waiting run is cancelled.
    Restarts {
        /// The latest occurrence of the new schedule that counts as done, together with all earlier ones. `None`:
        /// none of its occurrences is done.
        last: Option<Timestamp>,
    },
}

impl Schedule {
    /// Creates a validated schedule. Without `first_at`, a repeating schedule begins now.
    ///
    /// `first_at` may be in the past. Of the occurrences before now only the latest is fired, because the reminder
    /// did not exist yet when the earlier ones were due.
    ///
    /// ```
    /// use breakerbox_core::Timestamp;
    /// use breakerbox_model::reminder::{Repeat, Schedule};
    /// use std::time::Duration;
    ///
    /// let now = Timestamp::from_millis(1_767_225_600_000);
    /// let wrong = Schedule::new(None, Repeat::Every(Duration::from_millis(10)), None, None, now).unwrap_err();
    /// assert_eq!(wrong.field(), "every");
    /// assert_eq!(wrong.to_string(), "every: must be from 1s to 1825d, but is 10ms");
    /// ```
    ///
    /// # Errors
    /// Returns an error if a field is invalid, or the schedule has no occurrence.
    pub fn new(
        first_at: Option<Timestamp>,
        repeat: Repeat,
        ends_at: Option<Timestamp>,
        max_runs: Option<u32>,
        now: Timestamp,
    ) -> Result<Self, ScheduleError> {
        let first_at = match (first_at, &repeat) {
            (Some(at), _) => at,
            (None, Repeat::Once) => return Err(ScheduleError::NoTime),
            (None, Repeat::Every(_) | Repeat::Cron(_)) => now,
        };
        let mut schedule = Self { first_at, repeat: whole_milliseconds(repeat), ends_at, max_runs };
        schedule.check()?;
        if let Some(ends_at) = ends_at.filter(|end| *end < now) {
            return Err(ScheduleError::Ended { ends_at });
        }
        let endless = Self { ends_at: None, ..schedule.clone() };
        let first = endless.first().ok_or(ScheduleError::NothingAfter)?;
        if schedule.is_over(first) {
            return Err(ScheduleError::EndsBeforeFirst { first });
        }
        if let Some(missed) = schedule.latest(None, now) {
            schedule.first_at = missed.latest;
        }
        Ok(schedule)
    }

    /// Returns the effect of replacing the schedule `before` with this one. Occurrences before now are not caught up,
    /// except that a reminder that runs once and whose time has passed is due at once.
    #[must_use]
    pub fn change_from(&self, before: &Self, now: Timestamp) -> ScheduleChange {
        if self.continues(before) {
            return ScheduleChange::Continues;
        }
        let last = match self.repeat {
            Repeat::Once => None,
            Repeat::Every(_) | Repeat::Cron(_) => {
                // An occurrence at exactly this time is not skipped.
                let before = Timestamp::from_micros(now.as_micros().saturating_sub(1));
                self.latest(None, before).map(|missed| missed.latest)
            }
        };
        ScheduleChange::Restarts { last }
    }

    /// Returns whether this schedule continues the schedule `before`: it repeats in the same way, and it
    /// begins with one of the occurrences of `before`. Their ends may differ.
    fn continues(&self, before: &Self) -> bool {
        let begins_there = || {
            let missed = before.latest(None, self.first_at);
            missed.is_some_and(|missed| missed.latest == self.first_at)
        };
        self.repeat == before.repeat && (self.first_at == before.first_at || begins_there())
    }

    /// Checks the fields, except for conditions that depend on the current time.
    pub(super) fn check(&self) -> Result<(), ScheduleError> {
        if self.first_at >= END_OF_TIME {
            return Err(ScheduleError::TooLate { field: "at" });
        }
        if self.ends_at.is_some_and(|end| end >= END_OF_TIME) {
            return Err(ScheduleError::TooLate { field: "ends_at" });
        }
        if let Repeat::Every(found) = self.repeat
            && !(MIN_EVERY..=MAX_EVERY).contains(&found)
        {
            return Err(ScheduleError::Every { found });
        }
        if self.max_runs == Some(0) {
            return Err(ScheduleError::NoRuns);
        }
        Ok(())
    }

    /// Returns the first occurrence, or `None` if the schedule ends before it.
    #[must_use]
    pub fn first(&self) -> Option<Timestamp> {
        let first = match &self.repeat {
            Repeat::Once | Repeat::Every(_) => Some(self.first_at),
            Repeat::Cron(cron) => cron.from(self.first_at),
        };
        first.filter(|at| !self.is_over(*at))
    }

    /// Returns the first occurrence after this time, or `None` if the schedule has ended. `ends_at` is inclusive.
    #[must_use]
    pub fn after(&self, at: Timestamp) -> Option<Timestamp> {
        if at < self.first_at {
            return self.first();
        }
        let next = match &self.repeat {
            Repeat::Once => None,
            Repeat::Every(every) => {
                let every = micros(*every);
                let turns = (at.as_micros() - self.first_at.as_micros()) / every + 1;
                let since = turns.checked_mul(every)?;
                self.first_at.as_micros().checked_add(since).map(Timestamp::from_micros)
            }
            Repeat::Cron(cron) => cron.after(at),
        };
        next.filter(|next| !self.is_over(*next))
    }

    /// Returns the latest occurrence after `after` and up to `until`, and the number of earlier ones in that span.
    /// Without `after`, the span begins with the first occurrence.
    ///
    /// The cost hardly depends on the length of the span.
    ///
    /// ```
    /// use breakerbox_core::Timestamp;
    /// use breakerbox_model::reminder::{Missed, Repeat, Schedule};
    /// use std::time::Duration;
    ///
    /// let minute = |minute: u64| Timestamp::from_millis(minute * 60_000);
    /// let every = Repeat::Every(Duration::from_secs(60));
    /// let schedule = Schedule { first_at: minute(10), repeat: every, ends_at: None, max_runs: None };
    /// let missed = schedule.latest(Some(minute(20)), minute(24)).unwrap();
    /// assert_eq!(missed, Missed { latest: minute(24), skipped: 3 }, "21, 22 and 23");
    /// ```
    #[must_use]
    pub fn latest(&self, after: Option<Timestamp>, until: Timestamp) -> Option<Missed> {
        let until = self.ends_at.map_or(until, |end| until.min(end)).min(LAST_TIME);
        // No occurrence is before `first_at`, so the span begins there at the earliest.
        let from = after.map_or(self.first_at, |after| self.first_at.max(after + Duration::from_micros(1)));
        if from > until {
            return None;
        }
        match &self.repeat {
            Repeat::Once => (from == self.first_at).then_some(Missed { latest: from, skipped: 0 }),
            Repeat::Every(every) => {
                let (first, every) = (self.first_at.as_micros(), micros(*every));
                // The indexes of the first and the last occurrence in the span.
                let place = (from.as_micros() - first).div_ceil(every);
                let latest = (until.as_micros() - first) / every;
                let skipped = latest.checked_sub(place)?;
                Some(Missed {
                    latest: Timestamp::from_micros(first + latest * every),
                    skipped: u32::try_from(skipped).unwrap_or(u32::MAX).min(MAX_SKIPPED),
                })
            }
            Repeat::Cron(cron) => {
                let latest = cron.until(until).filter(|latest| *latest >= from)?;
                Some(Missed { latest, skipped: cron.count(from, latest, MAX_SKIPPED) })
            }
        }
    }

    /// Returns this time in the schedule's time zone, or in UTC if the schedule has none.
    #[must_use]
    pub fn local(&self, at: Timestamp) -> Zoned {
        let micros = i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
        let moment = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
        match &self.repeat {
            Repeat::Once | Repeat::Every(_) => moment.to_zoned(TimeZone::UTC),
            Repeat::Cron(cron) => moment.to_zoned(cron.time_zone().clone()),
        }
    }

    fn is_over(&self, at: Timestamp) -> bool {
        at >= END_OF_TIME || self.ends_at.is_some_and(|end| at > end)
    }
}

/// Rounds an interval to milliseconds, the precision of the stored form, so that a schedule does not change when it
/// is stored and read back.
fn whole_milliseconds(repeat: Repeat) -> Repeat {
    match repeat {
        Repeat::Every(every) => {
            Repeat::Every(Duration::from_millis(u64::try_from(every.as_millis()).unwrap_or(u64::MAX)))
        }
        Repeat::Once | Repeat::Cron(_) => repeat,
    }
}

/// Returns the interval in microseconds. The result is at least 1, because the public field may contain zero.
fn micros(every: Duration) -> u64 {
    u64::try_from(every.as_micros()).unwrap_or(u64::MAX).max(1)
}
