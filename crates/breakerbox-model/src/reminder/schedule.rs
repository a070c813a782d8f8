//! When a reminder is due.
//!
//! A schedule is a row of occurrences. It answers which is the first, which comes after a time, and which was the latest
//! until a time. It does not know which of them have run.

use std::time::Duration;

use breakerbox_core::Timestamp;
use jiff::Zoned;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::cron::Cron;
use super::error::ScheduleError;
use super::kept::Kept;

/// The shortest time between two runs.
pub const MIN_EVERY: Duration = Duration::from_secs(1);
/// The longest time between two runs: five years of 365 days.
pub const MAX_EVERY: Duration = Duration::from_secs(5 * 365 * 86_400);
/// So many skipped runs are counted; more are as many.
pub const MAX_SKIPPED: u32 = 10_000;
/// The beginning of the year 9999: calendars end with it.
const END_OF_TIME: Timestamp = Timestamp::from_millis(253_370_764_800_000);

/// When a reminder is due.
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
#[serde(try_from = "Kept", into = "Kept")]
pub struct Schedule {
    /// The first run; with a cron expression, no run is before it.
    pub first_at: Timestamp,
    /// How it goes on.
    pub repeat: Repeat,
    /// The last moment at which a run may be due.
    pub ends_at: Option<Timestamp>,
    /// How many runs there are at the most.
    pub max_runs: Option<u32>,
}

/// How a reminder goes on after its first run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Repeat {
    /// Not at all.
    Once,
    /// So long after the run before it, counted from the first one in elapsed time. A day is 24 hours, also where clocks
    /// change; local days take a cron expression.
    Every(Duration),
    /// At local times.
    Cron(Cron),
}

/// The latest occurrence in a span of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missed {
    /// When it was.
    pub latest: Timestamp,
    /// How many there were before it in that span; [`MAX_SKIPPED`] means so many or more.
    pub skipped: u32,
}

/// What another schedule means for a reminder that has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TakingOver {
    /// It has the same times, and only ends otherwise: the reminder goes on where it was.
    GoesOn,
    /// It begins anew, and a run that waits is withdrawn.
    Anew {
        /// This occurrence and all before it are done with.
        last: Option<Timestamp>,
    },
}

impl Schedule {
    /// A schedule, checked. Without a first time, what repeats begins now.
    ///
    /// A first time in the past is fine. Of the runs from before now only the latest is owed: nobody was reminded of
    /// the earlier ones when there was no reminder.
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
    /// If a field is wrong, or it would never run.
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

    /// What it means for a reminder that it takes the place of another schedule. It counts from now on: nothing of before is
    /// made up for, except that a one-off whose time has passed is due at once.
    #[must_use]
    pub fn taking_over(&self, before: &Self, now: Timestamp) -> TakingOver {
        if self.continues(before) {
            return TakingOver::GoesOn;
        }
        let last = match self.repeat {
            Repeat::Once => None,
            Repeat::Every(_) | Repeat::Cron(_) => {
                // What is due at this very moment is not too late.
                let before = Timestamp::from_micros(now.as_micros().saturating_sub(1));
                self.latest(None, before).map(|missed| missed.latest)
            }
        };
        TakingOver::Anew { last }
    }

    /// Whether it goes on where another one was: the same times, though it may begin at a later one of them and end otherwise.
    fn continues(&self, before: &Self) -> bool {
        let begins_there = || {
            let missed = before.latest(None, self.first_at);
            missed.is_some_and(|missed| missed.latest == self.first_at)
        };
        self.repeat == before.repeat && (self.first_at == before.first_at || begins_there())
    }

    /// What holds at any time, whatever time it is.
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

    /// The first occurrence; none if it ends before.
    #[must_use]
    pub fn first(&self) -> Option<Timestamp> {
        let first = match &self.repeat {
            Repeat::Once | Repeat::Every(_) => Some(self.first_at),
            Repeat::Cron(cron) => cron.from(self.first_at),
        };
        first.filter(|at| !self.is_over(*at))
    }

    /// The first occurrence after this time; none if it has ended. An occurrence at `ends_at` is one.
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

    /// The latest occurrence after one time and not after another, and how many there were before it in that span.
    /// Without `after`, the span begins with the first one.
    ///
    /// It costs about the same for an hour as for a year.
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
        let until = self.ends_at.map_or(until, |end| until.min(end)).min(END_OF_TIME);
        // Nothing is before the first time, so the span begins there at the earliest.
        let from = after.map_or(self.first_at, |after| self.first_at.max(after + Duration::from_micros(1)));
        if from > until {
            return None;
        }
        match &self.repeat {
            Repeat::Once => (from == self.first_at).then_some(Missed { latest: from, skipped: 0 }),
            Repeat::Every(every) => {
                let (first, every) = (self.first_at.as_micros(), micros(*every));
                // The places of the first and the last one in the span.
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

    /// This moment on the clock that the schedule goes by: that of its time zone, or else UTC.
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

/// As it is kept, so that what is read back is the same.
fn whole_milliseconds(repeat: Repeat) -> Repeat {
    match repeat {
        Repeat::Every(every) => {
            Repeat::Every(Duration::from_millis(u64::try_from(every.as_millis()).unwrap_or(u64::MAX)))
        }
        Repeat::Once | Repeat::Cron(_) => repeat,
    }
}

/// At least one, whatever was put into a public field.
fn micros(every: Duration) -> u64 {
    u64::try_from(every.as_micros()).unwrap_or(u64::MAX).max(1)
}
