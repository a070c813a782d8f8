//! Decides the next step for a reminder: fire, wait, stop or finish.
//!
//! Only one run is open at a time, and these functions are called only when no run is open. The next run is
//! calculated from the occurrence that the latest run serves, never from now. So nothing fires twice when the clock
//! is set back, and setting it forward has the same effect as downtime.

use std::fmt;
use std::str::FromStr;

use breakerbox_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::schedule::{Repeat, Schedule};

/// The rule for occurrences that were missed, for example during downtime.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// Every missed occurrence is fired, one after another.
    #[default]
    All,
    /// Only the latest missed occurrence is fired.
    Latest,
}

/// What happens to a reminder when a run has failed for good.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFailed {
    /// The reminder stops.
    #[default]
    Stop,
    /// The reminder continues with the next run.
    NextRun,
}

/// Why a reminder stopped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StopReason {
    /// The receiver rejected a run's payload.
    Rejected,
    /// The receiver responded with status 410 (Gone).
    Gone,
    /// A run expired, or all its attempts failed.
    Failed,
    /// The stored reminder can't be read, so it can't fire.
    Unreadable,
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RunResult {
    /// The receiver accepted the run.
    Delivered,
    /// The receiver rejected the run's payload.
    Rejected,
    /// The receiver responded with status 410 (Gone).
    Gone,
    /// All attempts failed.
    Exhausted,
    /// The run expired while it waited.
    Expired,
    /// A client cancelled the run.
    Cancelled,
}

/// The facts about a reminder that determine its next step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The times at which the reminder is due.
    pub schedule: Schedule,
    /// The rule for occurrences that were missed, for example during downtime.
    pub catch_up: CatchUp,
    /// What happens to the reminder when a run has failed for good.
    pub when_failed: WhenFailed,
    /// The number of runs fired so far, including the open one.
    pub runs: u32,
    /// The scheduled time of the occurrence that the latest run serves. This occurrence and all earlier ones are
    /// done. `None`: no occurrence is done yet.
    pub last: Option<Timestamp>,
}

/// The next step for a reminder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Fire a run now.
    Fire {
        /// The run's number; the first is 1.
        run: u32,
        /// The scheduled time of the occurrence that this run serves.
        scheduled_at: Timestamp,
        /// The number of occurrences before `scheduled_at` that this run skips.
        skipped: u32,
    },
    /// Do nothing until this time.
    Wait(Timestamp),
    /// Stop the reminder for this reason, and notify the tenant.
    Stop(StopReason),
    /// Finish the reminder: no occurrence is left.
    Finish,
}

impl Progress {
    /// Returns the next step for a reminder that is due, or was created or changed. No run may be open.
    ///
    /// ```
    /// use breakerbox_core::Timestamp;
    /// use breakerbox_model::reminder::{CatchUp, Repeat, Schedule, Progress, Step, WhenFailed};
    /// use std::time::Duration;
    ///
    /// let minute = |minute: u64| Timestamp::from_millis(minute * 60_000);
    /// let every = Repeat::Every(Duration::from_secs(60));
    /// let schedule = Schedule { first_at: minute(10), repeat: every, ends_at: None, max_runs: None };
    /// let all = Progress {
    ///     schedule,
    ///     catch_up: CatchUp::All,
    ///     when_failed: WhenFailed::Stop,
    ///     runs: 1,
    ///     last: Some(minute(10)),
    /// };
    /// // Down from 10 to 14.
    /// assert_eq!(all.due(minute(14)), Step::Fire { run: 2, scheduled_at: minute(11), skipped: 0 });
    /// let latest = Progress { catch_up: CatchUp::Latest, ..all };
    /// assert_eq!(latest.due(minute(14)), Step::Fire { run: 2, scheduled_at: minute(14), skipped: 3 });
    /// ```
    #[must_use]
    pub fn due(&self, now: Timestamp) -> Step {
        self.next(self.last, now)
    }

    /// Returns the next step after a run has ended. `first_sent_at` is when the run's first request began, if one was
    /// sent.
    ///
    /// The caller then stores [`last_when_ended`](Self::last_when_ended) with the reminder, as the new
    /// [`last`](Self::last).
    #[must_use]
    pub fn ended(&self, how: RunResult, first_sent_at: Option<Timestamp>, now: Timestamp) -> Step {
        match (how, self.when_failed) {
            (RunResult::Rejected, _) => Step::Stop(StopReason::Rejected),
            (RunResult::Gone, _) => Step::Stop(StopReason::Gone),
            (RunResult::Exhausted | RunResult::Expired, WhenFailed::Stop) => Step::Stop(StopReason::Failed),
            (RunResult::Exhausted | RunResult::Expired, WhenFailed::NextRun)
            | (RunResult::Delivered | RunResult::Cancelled, _) => {
                self.next(self.last_when_ended(first_sent_at), now)
            }
        }
    }

    /// Returns the next step after a pause. Occurrences during the pause are skipped, except that a reminder that
    /// runs once and whose time has passed fires at once.
    ///
    /// The caller then stores [`last_when_resumed`](Self::last_when_resumed) with the reminder, as the new
    /// [`last`](Self::last).
    #[must_use]
    pub fn resumed(&self, now: Timestamp) -> Step {
        self.next(self.last_when_resumed(now), now)
    }

    /// Returns the scheduled time of the occurrence that an ended run served. With [`CatchUp::Latest`], this is the
    /// latest occurrence before the run's first request, because the run replaces occurrences that became due while
    /// it was parked.
    #[must_use]
    pub fn last_when_ended(&self, first_sent_at: Option<Timestamp>) -> Option<Timestamp> {
        match (self.catch_up, first_sent_at) {
            (CatchUp::Latest, Some(sent_at)) => self.latest_or_last(sent_at),
            _ => self.last,
        }
    }

    /// Returns the latest occurrence that is skipped if a pause ends now.
    #[must_use]
    pub fn last_when_resumed(&self, now: Timestamp) -> Option<Timestamp> {
        match (&self.schedule.repeat, now.as_micros().checked_sub(1)) {
            // An occurrence at exactly this time is not skipped.
            (Repeat::Every(_) | Repeat::Cron(_), Some(before)) => {
                self.latest_or_last(Timestamp::from_micros(before))
            }
            _ => self.last,
        }
    }

    /// Returns the next occurrences that will fire if each run succeeds, earliest first, including overdue ones.
    ///
    /// ```
    /// use breakerbox_core::Timestamp;
    /// use breakerbox_model::reminder::{CatchUp, Repeat, Schedule, Progress, WhenFailed};
    /// use std::time::Duration;
    ///
    /// let minute = |minute: u64| Timestamp::from_millis(minute * 60_000);
    /// let every = Repeat::Every(Duration::from_secs(60));
    /// let schedule = Schedule { first_at: minute(10), repeat: every, ends_at: None, max_runs: Some(4) };
    /// let (when_failed, last) = (WhenFailed::Stop, Some(minute(10)));
    /// let all = Progress { schedule, catch_up: CatchUp::All, when_failed, runs: 1, last };
    /// assert_eq!(all.upcoming(minute(12), 5), [minute(11), minute(12), minute(13)], "one has run, of four");
    /// let latest = Progress { catch_up: CatchUp::Latest, ..all };
    /// assert_eq!(latest.upcoming(minute(12), 2), [minute(12), minute(13)]);
    /// ```
    #[must_use]
    pub fn upcoming(&self, now: Timestamp, most: usize) -> Vec<Timestamp> {
        let mut ahead = self.clone();
        let mut times = Vec::new();
        while times.len() < most {
            let at = match ahead.due(now) {
                Step::Fire { scheduled_at, .. } => scheduled_at,
                Step::Wait(at) => at,
                Step::Stop(_) | Step::Finish => break,
            };
            times.push(at);
            ahead.last = Some(at);
            ahead.runs = ahead.runs.saturating_add(1);
        }
        times
    }

    fn latest_or_last(&self, until: Timestamp) -> Option<Timestamp> {
        self.schedule.latest(self.last, until).map(|missed| missed.latest).or(self.last)
    }

    fn next(&self, last: Option<Timestamp>, now: Timestamp) -> Step {
        if self.schedule.max_runs.is_some_and(|most| self.runs >= most) {
            return Step::Finish;
        }
        let next = last.map_or_else(|| self.schedule.first(), |last| self.schedule.after(last));
        let Some(next) = next else { return Step::Finish };
        if next > now {
            return Step::Wait(next);
        }
        let run = self.runs.saturating_add(1);
        match self.catch_up {
            CatchUp::All => Step::Fire { run, scheduled_at: next, skipped: 0 },
            CatchUp::Latest => match self.schedule.latest(last, now) {
                Some(missed) => Step::Fire { run, scheduled_at: missed.latest, skipped: missed.skipped },
                None => Step::Fire { run, scheduled_at: next, skipped: 0 },
            },
        }
    }
}

impl StopReason {
    /// All reasons, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Rejected, Self::Gone, Self::Failed, Self::Unreadable];

    /// Returns the name used in the API, the database and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Gone => "gone",
            Self::Failed => "failed",
            Self::Unreadable => "unreadable",
        }
    }

    /// Returns a human-readable description of the reason.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Rejected => "the receiver rejected the callback",
            Self::Gone => "the receiver responded that it is gone",
            Self::Failed => "a run failed after all of its retries, or expired",
            Self::Unreadable => "the stored reminder can't be read; create it again",
        }
    }
}

impl CatchUp {
    /// All catch-up rules, in the order of their declaration.
    pub const ALL: [Self; 2] = [Self::All, Self::Latest];

    /// Returns the name used in the API and the database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Latest => "latest",
        }
    }
}

impl WhenFailed {
    /// All values, in the order of their declaration.
    pub const ALL: [Self; 2] = [Self::Stop, Self::NextRun];

    /// Returns the name used in the API and the database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::NextRun => "next_run",
        }
    }
}

/// The string is not one of the allowed names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be {allowed}")]
pub struct UnknownName {
    allowed: &'static str,
}

macro_rules! named {
    ($($type:ident: $allowed:literal;)*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                let named = Self::ALL.into_iter().find(|each| each.name() == text);
                named.ok_or(UnknownName { allowed: $allowed })
            }
        }
    )*};
}

named! {
    CatchUp: "all or latest";
    WhenFailed: "stop or next_run";
    StopReason: "rejected, gone, failed or unreadable";
}
