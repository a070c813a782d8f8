//! The rolling window: what happened to a circuit's calls lately.
//!
//! A ring of ten buckets by absolute index (time divided by a tenth of the window): the current one and the nine
//! before. Nothing older than the window is ever in the totals, whether the window is written to or only read. A call
//! costs the same whatever the traffic. It counts and never judges: `rule` does.

use core::time::Duration;

use crate::outcome::{Outcome, OutcomeKind};
use crate::time::{Timestamp, micros};

/// How many buckets a window has.
pub(crate) const BUCKETS: usize = 10;
const SPAN: u64 = BUCKETS as u64;

/// The counts of a window at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Calls that succeeded.
    pub successes: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Calls, whatever their outcome, that took at least `slow_call`.
    pub slow: u64,
    /// The sum of all latencies.
    pub latency_sum: Duration,
    /// How many of the latest outcomes are failures, without a success between them.
    pub failure_run: u64,
}

impl Totals {
    /// All counted calls.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        self.successes.saturating_add(self.failures)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Bucket {
    successes: u64,
    failures: u64,
    slow: u64,
    latency_micros: u64,
    /// Failures since this bucket's last success.
    trailing: u64,
}

impl Bucket {
    fn count(&mut self, failed: bool, slow: bool, latency: Duration) {
        if failed {
            self.failures += 1;
            self.trailing += 1;
        } else {
            self.successes += 1;
            self.trailing = 0;
        }
        self.slow += u64::from(slow);
        self.latency_micros = self.latency_micros.saturating_add(micros(latency));
    }

    /// Adds a bucket that is later than this one.
    fn append(&mut self, later: &Self) {
        self.trailing = if later.successes > 0 { later.trailing } else { self.trailing + later.trailing };
        self.successes += later.successes;
        self.failures += later.failures;
        self.slow += later.slow;
        self.latency_micros = self.latency_micros.saturating_add(later.latency_micros);
    }
}

/// A sliding window over the outcomes of one circuit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    length: Duration,
    /// A bucket's width in microseconds: a tenth of the length, rounded down, so that ten never exceed it.
    width: u64,
    /// The absolute index of the newest bucket.
    head: u64,
    /// The bucket with absolute index `i` is at `i % 10`.
    ring: [Bucket; BUCKETS],
}

impl Window {
    /// An empty window of this length. A policy has checked that it is long enough to be divided by ten.
    pub(crate) fn new(length: Duration) -> Self {
        let width = micros(length) / SPAN;
        Self { length, width, head: 0, ring: [Bucket::default(); BUCKETS] }
    }

    /// Counts a call that settled at `now`. Ignored outcomes count nowhere.
    pub(crate) fn record(&mut self, outcome: &Outcome, slow_call: Option<Duration>, now: Timestamp) {
        let failed = match outcome.kind {
            OutcomeKind::Success => false,
            OutcomeKind::Failure => true,
            OutcomeKind::Ignored => return,
        };
        let slow = slow_call.is_some_and(|limit| outcome.latency >= limit);
        self.slide_to(now);
        self.ring[slot(self.head)].count(failed, slow, outcome.latency);
    }

    /// What the window holds at `now`.
    pub(crate) fn totals(&self, now: Timestamp) -> Totals {
        let mut sum = Bucket::default();
        for index in self.oldest(self.index(now))..=self.head {
            sum.append(&self.ring[slot(index)]);
        }
        Totals {
            successes: sum.successes,
            failures: sum.failures,
            slow: sum.slow,
            latency_sum: Duration::from_micros(sum.latency_micros),
            failure_run: sum.trailing,
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.ring = [Bucket::default(); BUCKETS];
    }

    /// Changes the length and keeps the counts. Each old bucket goes where its beginning lies, so that nothing stays
    /// longer than the new window; what is already too old for it goes at once.
    pub(crate) fn fit(&mut self, length: Duration, now: Timestamp) {
        if length == self.length {
            return;
        }
        let mut fitted = Self::new(length);
        fitted.head = fitted.index(now).max(self.head.saturating_mul(self.width) / fitted.width);
        let first = fitted.oldest(fitted.head);
        for index in self.oldest(self.index(now))..=self.head {
            let target = index.saturating_mul(self.width) / fitted.width;
            if target >= first {
                fitted.ring[slot(target)].append(&self.ring[slot(index)]);
            }
        }
        *self = fitted;
    }

    fn index(&self, now: Timestamp) -> u64 {
        now.as_micros() / self.width
    }

    /// The oldest bucket that still counts when the newest is `newest` (or the head, if that is newer).
    fn oldest(&self, newest: u64) -> u64 {
        newest.max(self.head).saturating_sub(SPAN - 1)
    }

    /// Makes `now` the current bucket and empties those that it takes over.
    ///
    /// Times a little before the head count as the head: threads settle in any order. A clock that stepped back by
    /// more than a window would freeze the counts until it has caught up, so they start anew.
    fn slide_to(&mut self, now: Timestamp) {
        let index = self.index(now);
        if index > self.head {
            for stale in (self.head + 1..=index).take(BUCKETS) {
                self.ring[slot(stale)] = Bucket::default();
            }
            self.head = index;
        } else if self.head - index >= SPAN {
            self.clear();
            self.head = index;
        }
    }
}

fn slot(index: u64) -> usize {
    usize::try_from(index % SPAN).expect("less than ten")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(10);

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn ok() -> Outcome {
        Outcome::success(Duration::from_millis(10))
    }

    fn bad() -> Outcome {
        Outcome::failure(Duration::from_millis(30))
    }

    fn filled(outcomes: &[(u64, Outcome)]) -> Window {
        let mut window = Window::new(LENGTH);
        for (ms, outcome) in outcomes {
            window.record(outcome, Some(Duration::from_millis(30)), at(*ms));
        }
        window
    }

    #[test]
    fn counts_everything_but_ignored_outcomes() {
        let totals = filled(&[(0, ok()), (1, bad()), (2, Outcome::ignored())]).totals(at(3));
        let expected = Totals {
            successes: 1,
            failures: 1,
            slow: 1,
            latency_sum: Duration::from_millis(40),
            failure_run: 1,
        };
        assert_eq!(totals, expected);
        assert_eq!(totals.calls(), 2);
    }

    #[test]
    fn expires_on_read_without_a_write() {
        let window = filled(&[(500, bad()), (9_999, bad())]);
        for (read_at, failures) in [(9_999, 2), (10_000, 1), (18_999, 1), (19_000, 0), (1_000_000, 0)] {
            assert_eq!(window.totals(at(read_at)).failures, failures, "at {read_at} ms");
        }
    }

    #[test]
    fn a_reused_bucket_is_emptied_first() {
        let window = filled(&[(0, bad()), (10_000, ok())]);
        assert_eq!(window.totals(at(10_000)).calls(), 1);
        let window = filled(&[(0, bad()), (500_000, ok())]);
        assert_eq!(window.totals(at(500_000)).calls(), 1);
    }

    #[test]
    fn the_run_of_failures_ends_at_a_success_and_at_the_windows_edge() {
        let window = filled(&[(0, bad()), (1_000, ok()), (1_001, bad()), (2_000, bad())]);
        assert_eq!(window.totals(at(2_000)).failure_run, 2);
        assert_eq!(window.totals(at(11_000)).failure_run, 1, "the bucket of 1,000 to 1,999 ms has left");
        let window = filled(&[(0, bad()), (5_000, bad()), (9_000, bad())]);
        assert_eq!(window.totals(at(9_000)).failure_run, 3);
        assert_eq!(window.totals(at(10_000)).failure_run, 2, "all of the run must be inside the window");
    }

    #[test]
    fn a_time_just_before_the_head_counts_as_the_head() {
        let window = filled(&[(5_000, bad()), (4_999, bad())]);
        assert_eq!(window.totals(at(4_999)).failures, 2);
        assert_eq!(window.totals(at(14_000)).failures, 2);
        assert_eq!(window.totals(at(15_000)).failures, 0);
    }

    #[test]
    fn a_clock_that_stepped_back_by_a_window_starts_anew() {
        let mut window = filled(&[(100_000, bad())]);
        window.record(&bad(), None, at(91_000));
        assert_eq!(window.totals(at(91_000)).failures, 2, "9 buckets back: still the head");
        window.record(&bad(), None, at(90_999));
        assert_eq!(window.totals(at(90_999)).failures, 1);
        assert_eq!(window.totals(at(100_000)).failures, 0, "and slides from there");
    }

    #[test]
    fn another_length_keeps_the_counts_that_fit() {
        let outcomes = [(1_000, ok()), (4_000, bad()), (9_000, bad())];
        let mut longer = filled(&outcomes);
        longer.fit(LENGTH * 6, at(9_000));
        assert_eq!(longer.totals(at(9_000)), filled(&outcomes).totals(at(9_000)));
        let mut shorter = filled(&outcomes);
        shorter.fit(LENGTH / 2, at(9_000));
        assert_eq!(shorter.totals(at(9_000)).calls(), 1, "only what began within the new length stays");
        assert_eq!(shorter.totals(at(9_000)).failure_run, 1);
    }
}
