//! Which failures a worker owes the store: those that it has to report by the rules that users are told, and no more.
//!
//! Derived from the outcomes alone, by the simulator: what the library decides to report has no part in it. Where that can't
//! be told from outside, because the limit of a rate may or may not have been reached, nothing is owed.

use std::time::Duration;

use breakerbox::Policy;

/// For how long a failure may wait for a success.
const OPEN_FOR: Duration = Duration::from_secs(1);

/// The failures of one worker, for one circuit, in one epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Owed {
    /// Those that have to be reported, without an open run of one.
    settled: u64,
    successes: u64,
    /// Failures since the latest success, and when the first of them was.
    run: u64,
    run_began: Duration,
    failed_at: Duration,
}

impl Owed {
    pub(super) fn count(&mut self, failed: bool, policy: &Policy, flush_every: Duration, at: Duration) {
        if !failed {
            self.settled = self.failures(policy, flush_every, at);
            self.run = 0;
            self.successes += 1;
            return;
        }
        if self.run == 0 {
            self.run_began = at;
        }
        self.run += 1;
        self.failed_at = at;
        let in_a_row = policy.consecutive_failures().is_some() && self.run >= 2;
        let is_first_of_row = policy.consecutive_failures().is_some() && self.run == 2;
        if is_owed_at_once(policy, self.successes) {
            self.settled += 1;
        } else if in_a_row {
            self.settled += 1 + u64::from(is_first_of_row);
        }
    }

    /// The worker reported so many failures by now, and the store has no run: others succeeded since, so its next failure
    /// begins one anew. That may be one that was counted while the report was under way.
    pub(super) fn run_was_broken(&mut self, reported: u64, under_way: Duration, at: Duration) {
        let is_next = self.run >= 2 && self.settled == reported + 1 && at <= self.failed_at + under_way;
        self.settled -= u64::from(is_next);
        self.run = u64::from(is_next);
        self.run_began = self.failed_at;
    }

    /// How many failures have to be reported by now.
    pub(super) fn failures(&self, policy: &Policy, flush_every: Duration, at: Duration) -> u64 {
        let is_open = self.run == 1 && at >= self.run_began + OPEN_FOR + 2 * flush_every;
        let is_news = policy.consecutive_failures().is_some() && !is_owed_at_once(policy, self.successes);
        self.settled + u64::from(is_open && is_news)
    }
}

/// Whether every failure has to be reported: the rule is a sum of them, or nothing but failures was seen.
fn is_owed_at_once(policy: &Policy, successes: u64) -> bool {
    policy.failures().is_some() || policy.failure_rate().is_some() && successes == 0
}
