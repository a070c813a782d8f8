//! The failures that a worker has to report to the store by the documented rules, and no more.
//!
//! The simulator derives them from the outcomes alone, independently of what the library decides to report. Where this
//! can't be known from outside, because the limit of a rate may or may not have been reached, no report is due. A run
//! that a success of the same worker ends before its batch was due need not be reported either (3-stores.md, Optional
//! reports: a process whose latest outcome is a success need not report): it is no longer a part of the fleet's run.
//!
//! A report carries everything that the worker counted before it was sent. So every report is checked when it arrives,
//! and failures that no report carried are checked in the end.

use std::time::Duration;

use breakerbox::Policy;

use super::bounds::Settings;
use super::scenario::Scenario;

/// How long a failure may wait for a success.
const OPEN_FOR: Duration = Duration::from_secs(1);

/// The failures of one worker, for one circuit, in one epoch, that it has not reported.
#[derive(Clone, Debug, Default)]
pub(super) struct DueReports {
    failures: Vec<Failure>,
    successes: u64,
    succeeded_at: Option<Duration>,
    /// Until when the worker takes its next failure for one more of the fleet's run, by the answer to its latest
    /// report.
    continues_run_until: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Failure {
    at: Duration,
    due: Due,
}

/// Whether a failure must be reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    /// Whatever follows.
    Surely,
    /// If no success follows before the next batch.
    WithBatch,
    /// If no success follows before the run that it belongs to is due.
    WithRun,
    /// Perhaps, or not at all.
    Perhaps,
}

impl Failure {
    /// Returns whether it has to be in a batch by then.
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

    /// A report that was sent at `sent_at` reached the store. Returns how many failures it lacks. Outcomes of the very
    /// moment at which it was sent may be in it or not.
    pub(super) fn reported(&mut self, failures: u64, sent_at: Duration, policy: &Policy) -> u64 {
        // The oldest of ten buckets may have left the worker's window.
        let oldest = sent_at.saturating_sub(policy.window().mul_f64(0.9));
        let must_be_in = |failure: &&Failure| failure.at < sent_at && failure.at > oldest;
        let lacks = (self.failures.iter().filter(must_be_in).count() as u64).saturating_sub(failures);
        self.failures.retain(|failure| failure.at > sent_at);
        lacks
    }

    /// The answer to a report of this worker says how long the fleet's run is. A success since then has ended it.
    pub(super) fn run_is(&mut self, fleet_run: u64, sent_at: Duration, policy: &Policy) {
        let lasts = fleet_run > 0 && self.succeeded_at.is_none_or(|at| at < sent_at);
        self.continues_run_until = lasts.then(|| sent_at + policy.window().mul_f64(0.9));
    }

    /// Returns how many failures should have been reported by now, and were not.
    pub(super) fn overdue(&self, settings: &Settings, at: Duration) -> u64 {
        let by = batched_by(settings, at);
        let is_run_due = self.is_run_due(by);
        self.failures.iter().filter(|failure| failure.is_due(is_run_due, by)).count() as u64
    }

    /// Returns whether the failures since the latest success were due by then: two in a row with the second, a single
    /// one after a while.
    fn is_run_due(&self, by: Duration) -> bool {
        let is_of_run = |failure: &&Failure| matches!(failure.due, Due::WithBatch | Due::WithRun);
        let mut run = self.failures.iter().filter(is_of_run).map(|failure| failure.at);
        let Some(first) = run.next() else { return false };
        let continues = self.continues_run_until.is_some_and(|until| first < until);
        first + OPEN_FOR <= by || continues && first <= by || run.next().is_some_and(|second| second <= by)
    }
}

/// Returns the time before which failures are in a batch by now. A failure may have to wait for the answer to the
/// report before, and then for the next batch.
fn batched_by(settings: &Settings, at: Duration) -> Duration {
    at.saturating_sub(settings.flush_every + 2 * settings.latency)
}
