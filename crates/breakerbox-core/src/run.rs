//! The run of failures: the failures since the latest success, however far apart they are.
//!
//! A run is kept beside the window of counts, not in it, so that a destination that is called once in two hours also
//! trips. A success or a new epoch ends the run. A run is forgotten [a week](FailureRun::KEPT_FOR) after its last
//! failure. This module only counts; `rule` evaluates the count.

use core::time::Duration;

use crate::time::Timestamp;

/// The failures since the latest success. The default is no run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FailureRun {
    /// The number of failures; zero if there is no run.
    pub count: u64,
    /// The time of the first failure.
    pub began: Timestamp,
    /// The time of the last failure.
    pub last: Timestamp,
}

/// One process's run of failures, as reported to a store. It has ages instead of times, because clocks differ between
/// processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunDelta {
    /// The number of failures.
    pub count: u64,
    /// The age of the first failure.
    pub began: Duration,
    /// The age of the last failure.
    pub last: Duration,
}

impl RunDelta {
    /// Returns the run with times by the clock that shows `now`.
    #[must_use]
    pub fn at(self, now: Timestamp) -> FailureRun {
        FailureRun { count: self.count, began: now.back_by(self.began), last: now.back_by(self.last) }
    }
}

impl FailureRun {
    /// How long a run is kept after its last failure.
    pub const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3_600);

    /// Whether there is no run.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns this run; an empty one if it is too old to be kept.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        if now.since(self.last) < Self::KEPT_FOR { self } else { Self::default() }
    }

    /// Returns the time at which the run is forgotten; `None` if there is no run.
    #[must_use]
    pub fn forgotten_at(&self) -> Option<Timestamp> {
        (!self.is_empty()).then(|| self.last + Self::KEPT_FOR)
    }

    /// Returns the run with the ages of its times, for a report to a store; `None` if there is no run.
    #[must_use]
    pub fn delta(self, now: Timestamp) -> Option<RunDelta> {
        let Self { count, began, last } = self.at(now);
        (count > 0).then(|| RunDelta { count, began: now.since(began), last: now.since(last) })
    }

    /// Counts a failure.
    pub(crate) fn failed(&mut self, now: Timestamp) {
        *self = self.at(now).with(Self { count: 1, began: now, last: now });
    }

    /// Returns this run with the failures of another process's run.
    pub(crate) fn with(self, more: Self) -> Self {
        match (self.is_empty(), more.is_empty()) {
            (true, _) => more,
            (_, true) => self,
            _ => Self {
                count: self.count.saturating_add(more.count),
                began: self.began.min(more.began),
                last: self.last.max(more.last),
            },
        }
    }

    /// Converts the times from a clock that shows `before` to one that shows `after` at the same moment.
    pub(crate) fn moved(self, before: Timestamp, after: Timestamp) -> Self {
        Self {
            count: self.count,
            began: self.began.moved(before, after),
            last: self.last.moved(before, after),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn hour(hours: u32) -> Timestamp {
        Timestamp::ZERO + HOUR * hours
    }

    #[test]
    fn failures_add_up_however_far_apart() {
        let mut run = FailureRun::default();
        for hours in [1, 3, 100] {
            run.failed(hour(hours));
        }
        assert_eq!(run, FailureRun { count: 3, began: hour(1), last: hour(100) });
        assert_eq!(run.delta(hour(101)), Some(RunDelta { count: 3, began: HOUR * 100, last: HOUR }));
        assert_eq!(run.delta(hour(101)).unwrap().at(hour(101)), run);
    }

    #[test]
    fn a_run_is_forgotten_a_week_after_its_last_failure() {
        let mut run = FailureRun::default();
        run.failed(hour(1));
        run.failed(hour(100));
        assert_eq!(run.forgotten_at(), Some(hour(100 + 7 * 24)));
        assert_eq!(run.at(hour(99 + 7 * 24)).count, 2);
        assert!(run.at(hour(100 + 7 * 24)).is_empty());
        assert_eq!(run.delta(hour(100 + 7 * 24)), None);
        run.failed(hour(100 + 7 * 24));
        assert_eq!(run.count, 1, "and a new one begins");
        assert_eq!(FailureRun::default().forgotten_at(), None);
    }

    #[test]
    fn runs_of_processes_make_one() {
        let run = |count, began, last| FailureRun { count, began: hour(began), last: hour(last) };
        assert_eq!(run(2, 3, 5).with(run(1, 2, 4)), run(3, 2, 5));
        assert_eq!(run(2, 3, 5).with(FailureRun::default()), run(2, 3, 5));
        assert_eq!(FailureRun::default().with(run(2, 3, 5)), run(2, 3, 5));
        assert_eq!(run(2, 3, 5).moved(hour(5), hour(9)), run(2, 7, 9));
    }
}
