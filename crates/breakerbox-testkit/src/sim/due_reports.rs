//! The failures that a worker has to report to the store by the documented rules, and no more.
//!
//! The simulator derives them from the outcomes alone, independently of what the library decides to report. Where this
//! can't be known from outside, because the limit of a rate may or may not have been reached, no report is owed. A run
//! that a success ends before it was due in a batch is not owed either: it is no longer a part of the fleet's run.

use std::time::Duration;

use breakerbox::Policy;

/// How long a failure may wait for a success.
const OPEN_FOR: Duration = Duration::from_secs(1);

/// The failures of one worker, for one circuit, in one epoch.
#[derive(Clone, Debug, Default)]
pub(super) struct DueReports {
    /// Failures that have to be reported for certain: those of ended runs, and those that are due whatever follows.
    settled: u64,
    successes: u64,
    /// The times of the failures since the latest success, if a rule counts runs and they are not due whatever
    /// follows.
    run: Vec<Duration>,
}

impl DueReports {
    pub(super) fn count(&mut self, failed: bool, policy: &Policy, flush_every: Duration, at: Duration) {
        if !failed {
            self.settled = self.failures(flush_every, at);
            self.run.clear();
            self.successes += 1;
        } else if is_owed_at_once(policy, self.successes) {
            self.settled += 1;
        } else if policy.consecutive_failures().is_some() {
            self.run.push(at);
        }
    }

    /// The worker has reported, and the store has no run: others succeeded since, so the worker's next failure begins
    /// a new run. Whether a failure that was counted while the report was `in_flight` belongs to it can't be known.
    pub(super) fn run_was_broken(&mut self, in_flight: Duration, at: Duration) {
        self.settled += due_by(&self.run, at.saturating_sub(in_flight));
        self.run.clear();
    }

    /// Returns how many failures have to be reported by now.
    pub(super) fn failures(&self, flush_every: Duration, at: Duration) -> u64 {
        self.settled + due_by(&self.run, at.saturating_sub(2 * flush_every))
    }
}

/// Returns how many failures of a run were due by then: two in a row with the second, a single one after a while.
fn due_by(run: &[Duration], by: Duration) -> u64 {
    let is_due = match *run {
        [] => false,
        [only] => only + OPEN_FOR <= by,
        [first, second, ..] => second <= by || first + OPEN_FOR <= by,
    };
    if is_due { run.iter().filter(|failed| **failed <= by).count() as u64 } else { 0 }
}

/// Returns whether every failure has to be reported: the rule counts them all, or there were only failures.
fn is_owed_at_once(policy: &Policy, successes: u64) -> bool {
    policy.failures().is_some() || policy.failure_rate().is_some() && successes == 0
}
