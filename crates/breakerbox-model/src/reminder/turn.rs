//! What comes next for a reminder: fire, wait, stop or finish.
//!
//! One run at a time: these are only asked when none is open. The next run is counted from the occurrence that the latest
//! one stands for, never from now. So a clock that is put back fires nothing twice, and one that is put forward is the same
//! as down time.

use std::fmt;
use std::str::FromStr;

use breakerbox_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::schedule::{Repeat, Schedule};

/// What becomes of runs that were due while nothing could run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// Each of them fires, one after the other.
    #[default]
    All,
    /// Only the latest of them fires.
    Latest,
}

/// What becomes of a reminder whose run has failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFailed {
    /// It stops.
    #[default]
    Stop,
    /// It goes on with the next run.
    NextRun,
}

/// Why a reminder has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StopReason {
    /// The receiver refused it.
    Rejected,
    /// The receiver is gone for good.
    Gone,
    /// A run failed, and all its retries, or it came too late.
    Failed,
    /// The stored reminder can't be read, so it can't run.
    Unreadable,
}

/// How a run has ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ended {
    /// The receiver has it.
    Delivered,
    /// The receiver wants no more of it.
    Rejected,
    /// The receiver is gone.
    Gone,
    /// All attempts failed.
    Exhausted,
    /// It waited too long.
    Expired,
    /// Somebody called it off.
    Cancelled,
}

/// A reminder, as far as what comes next depends on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// When it is due.
    pub schedule: Schedule,
    /// What becomes of runs that were due while nothing could run.
    pub catch_up: CatchUp,
    /// What becomes of it when a run has failed.
    pub when_failed: WhenFailed,
    /// Runs that have fired, the open one included.
    pub runs: u32,
    /// The occurrence that the latest run stands for; it and all before it are done with.
    pub last: Option<Timestamp>,
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A run, now.
    Fire {
        /// Its number, from 1.
        run: u32,
        /// The occurrence that it stands for.
        scheduled_at: Timestamp,
        /// How many occurrences before it fall away.
        skipped: u32,
    },
    /// Nothing until then.
    Wait(Timestamp),
    /// Nothing more, because of what happened; its owner is told.
    Stop(StopReason),
    /// Nothing more: all its runs are over.
    Finish,
}

impl Standing {
    /// What comes next when its time has come, or when it was created or changed. No run is open.
    ///
    /// ```
    /// use breakerbox_core::Timestamp;
    /// use breakerbox_model::reminder::{CatchUp, Repeat, Schedule, Standing, Step, WhenFailed};
    /// use std::time::Duration;
    ///
    /// let minute = |minute: u64| Timestamp::from_millis(minute * 60_000);
    /// let every = Repeat::Every(Duration::from_secs(60));
    /// let schedule = Schedule { first_at: minute(10), repeat: every, ends_at: None, max_runs: None };
    /// let all = Standing {
    ///     schedule,
    ///     catch_up: CatchUp::All,
    ///     when_failed: WhenFailed::Stop,
    ///     runs: 1,
    ///     last: Some(minute(10)),
    /// };
    /// // Down from 10 to 14.
    /// assert_eq!(all.due(minute(14)), Step::Fire { run: 2, scheduled_at: minute(11), skipped: 0 });
    /// let latest = Standing { catch_up: CatchUp::Latest, ..all };
    /// assert_eq!(latest.due(minute(14)), Step::Fire { run: 2, scheduled_at: minute(14), skipped: 3 });
    /// ```
    #[must_use]
    pub fn due(&self, now: Timestamp) -> Step {
        self.next(self.last, now)
    }

    /// What comes next when its run has ended. `first_sent_at` is when the run's first request began, if it did.
    ///
    /// From then on [`last`](Self::last) is [`last_when_ended`](Self::last_when_ended): who keeps the reminder keeps
    /// that with it.
    #[must_use]
    pub fn ended(&self, how: Ended, first_sent_at: Option<Timestamp>, now: Timestamp) -> Step {
        match (how, self.when_failed) {
            (Ended::Rejected, _) => Step::Stop(StopReason::Rejected),
            (Ended::Gone, _) => Step::Stop(StopReason::Gone),
            (Ended::Exhausted | Ended::Expired, WhenFailed::Stop) => Step::Stop(StopReason::Failed),
            (Ended::Exhausted | Ended::Expired, WhenFailed::NextRun)
            | (Ended::Delivered | Ended::Cancelled, _) => self.next(self.last_when_ended(first_sent_at), now),
        }
    }

    /// What comes next after a pause. Runs that fell into it are skipped, but a one-off whose time has passed fires at once.
    ///
    /// From then on [`last`](Self::last) is [`last_when_resumed`](Self::last_when_resumed): who keeps the reminder keeps
    /// that with it.
    #[must_use]
    pub fn resumed(&self, now: Timestamp) -> Step {
        self.next(self.last_when_resumed(now), now)
    }

    /// The occurrence that a run which has ended stands for. With [`CatchUp::Latest`] it is the latest until its first
    /// request began: those that came due while it was parked fell away in its favour.
    #[must_use]
    pub fn last_when_ended(&self, first_sent_at: Option<Timestamp>) -> Option<Timestamp> {
        match (self.catch_up, first_sent_at) {
            (CatchUp::Latest, Some(sent_at)) => self.latest_or_last(sent_at),
            _ => self.last,
        }
    }

    /// The latest occurrence that a pause which ends now has done away with.
    #[must_use]
    pub fn last_when_resumed(&self, now: Timestamp) -> Option<Timestamp> {
        match (&self.schedule.repeat, now.as_micros().checked_sub(1)) {
            // What is due at this very moment is not too late.
            (Repeat::Every(_) | Repeat::Cron(_), Some(before)) => {
                self.latest_or_last(Timestamp::from_micros(before))
            }
            _ => self.last,
        }
    }

    /// The next times for which it fires if each run ends well, the earliest first. Those that are owed are among them.
    ///
    /// ```
    /// use breakerbox_core::Timestamp;
    /// use breakerbox_model::reminder::{CatchUp, Repeat, Schedule, Standing, WhenFailed};
    /// use std::time::Duration;
    ///
    /// let minute = |minute: u64| Timestamp::from_millis(minute * 60_000);
    /// let every = Repeat::Every(Duration::from_secs(60));
    /// let schedule = Schedule { first_at: minute(10), repeat: every, ends_at: None, max_runs: Some(4) };
    /// let (when_failed, last) = (WhenFailed::Stop, Some(minute(10)));
    /// let all = Standing { schedule, catch_up: CatchUp::All, when_failed, runs: 1, last };
    /// assert_eq!(all.upcoming(minute(12), 5), [minute(11), minute(12), minute(13)], "one has run, of four");
    /// let latest = Standing { catch_up: CatchUp::Latest, ..all };
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
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Rejected, Self::Gone, Self::Failed, Self::Unreadable];

    /// Its name, in the API, the database and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Gone => "gone",
            Self::Failed => "failed",
            Self::Unreadable => "unreadable",
        }
    }

    /// What happened, for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Rejected => "the receiver refused the callback, so it is not called again",
            Self::Gone => "the receiver said that it is gone for good",
            Self::Failed => "a run failed, and its retries too, or it could not be sent in time",
            Self::Unreadable => "the stored reminder can't be read; create it again",
        }
    }
}

impl CatchUp {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::All, Self::Latest];

    /// Its name, in the API and the database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Latest => "latest",
        }
    }
}

impl WhenFailed {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Stop, Self::NextRun];

    /// Its name, in the API and the database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::NextRun => "next_run",
        }
    }
}

/// It is none of the names.
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
