//! The failures that a worker must report to the store according to the documented rules.
//!
//! The simulator derives them from the outcomes alone, independently of what the library decides to report.
//! Where this can't be known from outside, because a rate limit may or may not have been reached, no report is
//! due. A run of failures that is ended by a success of the same worker before its batch was due need not be
//! reported either, because it is no longer part of the fleet's run (3-stores.md, Optional reports: a process
//! whose latest outcome is a success need not report).
//!
//! A report contains everything that the worker counted before it was sent. So every report is checked when it
//! arrives, and failures that were in no report are checked at the end.

use std::time::Duration;

use breakerbox::Policy;

use super::bounds::Settings;
use super::scenario::Scenario;

/// The maximum time that a worker may hold back a failure in case a success follows. Then it must report the
/// failure.
const OPEN_FOR: Duration = Duration::from_secs(1);

/// The failures that one worker has counted but not reported yet, for one circuit and epoch.
#[derive(Clone, Debug, Default)]
pub(super) struct DueReports {
    failures: Vec<Failure>,
    successes: u64,
    succeeded_at: Option<Duration>,
    /// Failures before this time continue a run of consecutive failures that the fleet already has. `None` if
    /// the fleet had no such run in the response to the worker's latest report.
    continues_run_until: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Failure {
    at: Duration,
    due: Due,
}

/// The condition under which a failure must be reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    /// The failure must be reported whatever follows.
    Surely,
    /// The failure must be reported if no success follows before the next batch.
    WithBatch,
    /// The failure must be reported if no success follows before its run of consecutive failures is due.
    WithRun,
    /// The failure may or may not be reported.
    Perhaps,
}

impl Failure {
    /// Returns whether this failure must be in the reports sent by now. `by` is the latest time of failures
    /// that are already in a batch.
    fn is_due(&self, is_run_due: bool, by: Duration) -> bool {
        let is_due = match self.due {
            Due::Surely | Due::WithBatch => true,
            Due::WithRun => is_run_due,
            Due::Perhaps => false,
        };
        is_due && self.at <= by
    }
}

impl DueReports {
    pub(super) fn count(&mut self, failed: bool, scenario: &Scenario, at: Duration) {
        let policy = &scenario.policy;
        if failed {
            let due = if policy.failures().is_some() {
                Due::Surely
            } else if policy.failure_rate().is_some() && self.successes == 0 {
                Due::WithBatch
            } else if policy.consecutive_failures().is_some() {
                Due::WithRun
            } else {
                Due::Perhaps
            };
            self.failures.push(Failure { at, due });
            return;
        }
        let by = batched_by(&scenario.settings, at);
        let is_run_due = self.is_run_due(by);
        for failure in self.failures.iter_mut().filter(|failure| failure.due != Due::Surely) {
            failure.due = if failure.is_due(is_run_due, by) { Due::Surely } else { Due::Perhaps };
        }
        self.successes += 1;
        self.succeeded_at = Some(at);
        self.continues_run_until = None;
    }

    /// Records that a report sent at `sent_at` reached the store. Returns the number of failures missing from
    /// the report. Outcomes at exactly `sent_at` may or may not be in the report.
    pub(super) fn reported(&mut self, failures: u64, sent_at: Duration, policy: &Policy) -> u64 {
        // The oldest of ten buckets may have left the worker's window.
        let oldest = sent_at.saturating_sub(policy.window().mul_f64(0.9));
        let must_be_in = |failure: &&Failure| failure.at < sent_at && failure.at > oldest;
        let lacks = (self.failures.iter().filter(must_be_in).count() as u64).saturating_sub(failures);
        self.failures.retain(|failure| failure.at > sent_at);
        lacks
    }

    /// Records whether the fleet has a run of consecutive failures, according to the response to a report
    /// sent at `sent_at`. If the worker had a success at or after `sent_at`, the run has ended.
    pub(super) fn run_is(&mut self, fleet_run: u64, sent_at: Duration, policy: &Policy) {
        let lasts = fleet_run > 0 && self.succeeded_at.is_none_or(|at| at < sent_at);
        self.continues_run_until = lasts.then(|| sent_at + policy.window().mul_f64(0.9));
    }

    /// Returns the number of failures that should have been reported by now, but were not.
    pub(super) fn overdue(&self, settings: &Settings, at: Duration) -> u64 {
        let by = batched_by(settings, at);
        let is_run_due = self.is_run_due(by);
        self.failures.iter().filter(|failure| failure.is_due(is_run_due, by)).count() as u64
    }

    /// Returns whether the run of failures since the latest success was due by this time. A run is due when
    /// its second failure occurs, or [`OPEN_FOR`] after its first. If the first continues the fleet's run, it
    /// is due at once.
    fn is_run_due(&self, by: Duration) -> bool {
        let is_of_run = |failure: &&Failure| matches!(failure.due, Due::WithBatch | Due::WithRun);
        let mut run = self.failures.iter().filter(is_of_run).map(|failure| failure.at);
        let Some(first) = run.next() else { return false };
        let continues = self.continues_run_until.is_some_and(|until| first < until);
        first + OPEN_FOR <= by || continues && first <= by || run.next().is_some_and(|second| second <= by)
    }
}

/// Returns the time before which a failure must have occurred to be in a batch by now. Later failures may
/// still wait for the response to the previous report, and then for the next batch.
fn batched_by(settings: &Settings, at: Duration) -> Duration {
    at.saturating_sub(settings.flush_every + 2 * settings.latency)
}
