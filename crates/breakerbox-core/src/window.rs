//! The rolling window: the counts of a circuit's recent calls.
//!
//! A ring of ten buckets by absolute index (time divided by a tenth of the window): the current one and the nine
//! before. The totals never contain anything older than the window, whether it is written to or only read, except the
//! run of failures, which is kept beside the ring and outlives it. The cost of a call does not depend on the traffic.
//! The window only counts; `rule` evaluates the counts.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::outcome::{Outcome, OutcomeKind};
use crate::policy::Policy;
use crate::run::FailureRun;
use crate::time::{Timestamp, micros};

/// The number of buckets in a window.
pub(crate) const BUCKETS: usize = 10;
const SPAN: u64 = BUCKETS as u64;

/// A window's counts at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Totals {
    /// The number of calls that succeeded.
    pub successes: u64,
    /// The number of calls that failed.
    pub failures: u64,
    /// The number of calls, successful or failed, that took at least `slow_call`; zero if the policy does not set it.
    pub slow: u64,
    /// The sum of all latencies; zero if no trip rule needs it.
    pub latency_sum: Duration,
    /// The number of failures since the latest success, including those that are older than the window.
    pub failure_run: u64,
}

impl Totals {
    /// Returns the sum of these totals and later ones.
    pub(crate) fn then(self, later: &Self) -> Self {
        let run_before = if later.successes > 0 { 0 } else { self.failure_run };
        Self {
            successes: self.successes.saturating_add(later.successes),
            failures: self.failures.saturating_add(later.failures),
            slow: self.slow.saturating_add(later.slow),
            latency_sum: self.latency_sum.saturating_add(later.latency_sum),
            failure_run: run_before.saturating_add(later.failure_run),
        }
    }

    /// The number of failures plus the number of slow calls.
    pub(crate) const fn bad(&self) -> u64 {
        self.failures.saturating_add(self.slow)
    }

    /// The number of counted calls.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        self.successes.saturating_add(self.failures)
    }
}

/// The counts of one bucket, as reported to a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BucketDelta {
    /// The age of the counts when they are reported.
    pub age: Duration,
    /// The number of calls that succeeded.
    pub successes: u64,
    /// The number of calls that failed.
    pub failures: u64,
    /// The number of calls that took at least `slow_call`.
    pub slow: u64,
    /// The sum of all latencies.
    pub latency_sum: Duration,
}

/// The outcomes in a tenth of the window. The type is kept small, because each circuit has ten buckets, and there may
/// be a million circuits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Bucket {
    successes: u32,
    failures: u32,
}

/// The slow calls and the sum of latencies in a tenth of the window, kept only if the policy needs them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Latencies {
    slow: u32,
    sum_micros: u64,
}

impl Bucket {
    fn append(&mut self, later: &Self) {
        self.successes = self.successes.saturating_add(later.successes);
        self.failures = self.failures.saturating_add(later.failures);
    }
}

impl Latencies {
    fn append(&mut self, later: &Self) {
        self.slow = self.slow.saturating_add(later.slow);
        self.sum_micros = self.sum_micros.saturating_add(later.sum_micros);
    }
}

/// A sliding window over one circuit's outcomes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    /// A bucket's width in microseconds: a tenth of the window, rounded down, so that ten buckets never exceed the
    /// window.
    width: u64,
    /// The absolute index of the newest bucket, counted in bucket widths from the clock's origin.
    head: u64,
    /// The buckets. The bucket with absolute index `i` is at position `i % 10`.
    ring: [Bucket; BUCKETS],
    /// The latencies of each bucket, at the bucket's position; `None` if the policy does not need them.
    latencies: Option<Box<[Latencies; BUCKETS]>>,
    /// The failures since the latest success, in the ring or before it.
    run: FailureRun,
}

impl Window {
    /// Creates an empty window with the policy's length.
    pub(crate) fn new(policy: &Policy) -> Self {
        let latencies = policy.looks_at_latency().then(Box::default);
        let ring = [Bucket::default(); BUCKETS];
        Self { width: width(policy), head: 0, ring, latencies, run: FailureRun::default() }
    }

    /// Counts a call that was settled at `now`. Ignored outcomes are not counted.
    pub(crate) fn record(&mut self, outcome: &Outcome, slow_call: Option<Duration>, now: Timestamp) {
        let counted = match outcome.kind {
            OutcomeKind::Success => Bucket { successes: 1, failures: 0 },
            OutcomeKind::Failure => Bucket { successes: 0, failures: 1 },
            OutcomeKind::Ignored => return,
        };
        if counted.failures > 0 {
            self.run.failed(now);
        } else {
            self.run = FailureRun::default();
        }
        self.slide_to(now);
        self.ring[slot(self.head)].append(&counted);
        let slow = u32::from(slow_call.is_some_and(|limit| outcome.latency >= limit));
        self.add_latencies(Latencies { slow, sum_micros: micros(outcome.latency) });
    }

    /// Counts many successes at once, none of which was slow.
    pub(crate) fn record_successes(&mut self, successes: u32, latency_sum: Duration, now: Timestamp) {
        if successes > 0 {
            self.run = FailureRun::default();
            self.slide_to(now);
            self.ring[slot(self.head)].append(&Bucket { successes, failures: 0 });
            self.add_latencies(Latencies { slow: 0, sum_micros: micros(latency_sum) });
        }
    }

    fn add_latencies(&mut self, more: Latencies) {
        if let Some(latencies) = &mut self.latencies {
            latencies[slot(self.head)].append(&more);
        }
    }

    /// Returns the window's counts at `now`.
    pub(crate) fn totals(&self, now: Timestamp) -> Totals {
        let mut sum = Bucket::default();
        let mut latency = Latencies::default();
        for index in self.oldest(self.index(now))..=self.head {
            sum.append(&self.ring[slot(index)]);
            if let Some(latencies) = &self.latencies {
                latency.append(&latencies[slot(index)]);
            }
        }
        Totals {
            successes: sum.successes.into(),
            failures: sum.failures.into(),
            slow: latency.slow.into(),
            latency_sum: Duration::from_micros(latency.sum_micros),
            failure_run: self.run(now).count,
        }
    }

    /// Returns the run of failures, which may have begun before the window.
    pub(crate) fn run(&self, now: Timestamp) -> FailureRun {
        self.run.at(now)
    }

    /// Removes all counts and the run. Returns the counts with their ages, oldest first, for a report to the store.
    pub(crate) fn drain(&mut self, now: Timestamp) -> Vec<BucketDelta> {
        let mut drained = Vec::new();
        for index in self.oldest(self.index(now))..=self.head {
            let bucket = self.ring[slot(index)];
            if bucket == Bucket::default() {
                continue;
            }
            let latencies = self.latencies.as_ref().map(|all| all[slot(index)]).unwrap_or_default();
            // Uses the age of the bucket's middle, so that processes whose clocks differ slightly use the same
            // bucket.
            let middle = index.saturating_mul(self.width).saturating_add(self.width / 2);
            drained.push(BucketDelta {
                age: now.since(Timestamp::from_micros(middle)),
                successes: bucket.successes.into(),
                failures: bucket.failures.into(),
                slow: latencies.slow.into(),
                latency_sum: Duration::from_micros(latencies.sum_micros),
            });
        }
        self.clear();
        drained
    }

    /// Returns the end of the bucket that `now` belongs to.
    pub(crate) fn bucket_ends_at(&self, now: Timestamp) -> Timestamp {
        let next = self.index(now).max(self.head).saturating_add(1);
        Timestamp::from_micros(next.saturating_mul(self.width))
    }

    /// Removes all counts and the run of failures.
    pub(crate) fn clear(&mut self) {
        self.clear_ring();
        self.run = FailureRun::default();
    }

    fn clear_ring(&mut self) {
        self.ring = [Bucket::default(); BUCKETS];
        if let Some(latencies) = &mut self.latencies {
            **latencies = Default::default();
        }
    }

    /// Adapts the window to a changed policy, and keeps the counts. Each old bucket's counts move to the new bucket
    /// that contains the old bucket's start, so that no count stays longer than the new window. Counts that are too old
    /// for the new window are removed.
    pub(crate) fn fit(&mut self, policy: &Policy, now: Timestamp) {
        if width(policy) == self.width && policy.looks_at_latency() == self.latencies.is_some() {
            return;
        }
        let mut fitted = Self { run: self.run, ..Self::new(policy) };
        fitted.head = fitted.index(now).max(self.head.saturating_mul(self.width) / fitted.width);
        let first = fitted.oldest(fitted.head);
        for index in self.oldest(self.index(now))..=self.head {
            let target = index.saturating_mul(self.width) / fitted.width;
            if target >= first {
                fitted.ring[slot(target)].append(&self.ring[slot(index)]);
                if let (Some(latencies), Some(old)) = (&mut fitted.latencies, &self.latencies) {
                    latencies[slot(target)].append(&old[slot(index)]);
                }
            }
        }
        *self = fitted;
    }

    /// Adjusts the window to a clock that was set from `before` to `after`. Counts keep their age, with the precision
    /// of a bucket.
    pub(crate) fn clock_moved(&mut self, before: Timestamp, after: Timestamp) {
        let (from, to) = (self.index(before).max(self.head), self.index(after));
        let (ring, latencies) = (self.ring, self.latencies.clone());
        let oldest = self.oldest(from);
        let age = from - self.head;
        self.run = self.run.moved(before, after);
        self.clear_ring();
        // Shortly after the clock's origin there is no time that old.
        self.head = to.saturating_sub(age);
        for index in oldest..=(from - age) {
            let target = slot(to.saturating_sub(from - index));
            self.ring[target].append(&ring[slot(index)]);
            if let (Some(new), Some(old)) = (&mut self.latencies, &latencies) {
                new[target].append(&old[slot(index)]);
            }
        }
    }

    fn index(&self, now: Timestamp) -> u64 {
        now.as_micros() / self.width
    }

    /// Returns the index of the oldest bucket in the window that ends with the bucket `newest`, or with the head if the
    /// head is newer.
    fn oldest(&self, newest: u64) -> u64 {
        newest.max(self.head).saturating_sub(SPAN - 1)
    }

    /// Makes the bucket for `now` the current one, and empties the buckets that it reuses.
    ///
    /// Times slightly before the head count as the head, because threads settle in any order. If the clock stepped back
    /// by more than a window, all counts in the ring are removed, because they would otherwise not expire until the
    /// clock has caught up. The run stays.
    fn slide_to(&mut self, now: Timestamp) {
        let index = self.index(now);
        if index > self.head {
            for stale in (self.head + 1..=index).take(BUCKETS) {
                self.ring[slot(stale)] = Bucket::default();
                if let Some(latencies) = &mut self.latencies {
                    latencies[slot(stale)] = Latencies::default();
                }
            }
            self.head = index;
        } else if self.head - index >= SPAN {
            self.clear_ring();
            self.head = index;
        }
    }
}

/// Returns a bucket's width in microseconds.
fn width(policy: &Policy) -> u64 {
    micros(policy.window()) / SPAN
}

fn slot(index: u64) -> usize {
    usize::try_from(index % SPAN).expect("less than ten")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a policy with a window of this many seconds and a rule that needs latencies.
    fn policy(seconds: u64) -> Policy {
        Policy::builder().window(Duration::from_secs(seconds)).slow_call(SLOW).slow_rate(50).build().unwrap()
    }

    const SLOW: Duration = Duration::from_millis(30);

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
        let mut window = Window::new(&policy(10));
        for (ms, outcome) in outcomes {
            window.record(outcome, Some(SLOW), at(*ms));
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
    fn the_run_of_failures_ends_at_a_success_and_outlives_the_window() {
        let window = filled(&[(0, bad()), (1_000, ok()), (1_001, bad()), (2_000, bad())]);
        assert_eq!(window.totals(at(2_000)).failure_run, 2);
        let later = window.totals(at(100_000));
        assert_eq!((later.failures, later.failure_run), (0, 2), "the window is empty, the run is not");
        let window = filled(&[(0, bad()), (7_200_000, bad()), (14_400_000, bad())]);
        assert_eq!(window.totals(at(14_400_000)).failure_run, 3, "one failure in two hours");
        let began_and_last = (window.run(at(14_400_000)).began, window.run(at(14_400_000)).last);
        assert_eq!(began_and_last, (at(0), at(14_400_000)));
        let mut window = window;
        window.record_successes(1, Duration::ZERO, at(14_400_001));
        assert_eq!(window.totals(at(14_400_001)).failure_run, 0);
    }

    #[test]
    fn the_run_of_failures_is_forgotten_after_a_week() {
        let week = 7 * 24 * 3_600_000;
        let window = filled(&[(0, bad()), (1_000, bad())]);
        assert_eq!(window.totals(at(week + 999)).failure_run, 2);
        assert_eq!(window.totals(at(week + 1_000)).failure_run, 0);
        let window = filled(&[(0, bad()), (1_000, bad()), (week + 1_000, bad())]);
        assert_eq!(window.totals(at(week + 1_000)).failure_run, 1);
    }

    #[test]
    fn a_cleared_or_drained_window_has_no_run() {
        let mut window = filled(&[(0, bad())]);
        window.clear();
        assert_eq!(window.totals(at(0)), Totals::default());
        let mut window = filled(&[(0, bad())]);
        assert_eq!(window.drain(at(100_000)), [], "the window has left the failure behind");
        assert_eq!(window.totals(at(100_000)), Totals::default());
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
        assert_eq!(window.totals(at(100_000)).failure_run, 3, "but no success ended the run");
    }

    #[test]
    fn another_length_keeps_the_counts_that_fit() {
        let outcomes = [(1_000, ok()), (4_000, bad()), (9_000, bad())];
        let mut longer = filled(&outcomes);
        longer.fit(&policy(60), at(9_000));
        assert_eq!(longer.totals(at(9_000)), filled(&outcomes).totals(at(9_000)));
        let mut shorter = filled(&outcomes);
        shorter.fit(&policy(5), at(9_000));
        assert_eq!(shorter.totals(at(9_000)).calls(), 1, "only what began within the new length stays");
        assert_eq!(shorter.totals(at(9_000)).failure_run, 2, "the run is not part of the window");
    }

    #[test]
    fn many_successes_at_once_are_as_good_as_one_by_one() {
        let mut one_by_one = filled(&[(0, bad())]);
        let mut at_once = one_by_one.clone();
        for _ in 0..7 {
            one_by_one.record(&ok(), Some(SLOW), at(3_000));
        }
        at_once.record_successes(7, ok().latency * 7, at(3_000));
        assert_eq!(at_once, one_by_one);
        at_once.record_successes(0, Duration::ZERO, at(9_000));
        assert_eq!(at_once, one_by_one, "none is nothing");
    }

    #[test]
    fn what_is_drained_says_how_long_ago_it_was() {
        let mut window = filled(&[(0, bad()), (1_000, ok()), (1_001, bad()), (4_000, bad()), (4_001, bad())]);
        let drained: Vec<_> = window
            .drain(at(4_200))
            .iter()
            .map(|b| (b.age.as_millis(), b.successes, b.failures, b.slow, b.latency_sum.as_millis()))
            .collect();
        assert_eq!(drained, [(3_700, 0, 1, 1, 30), (2_700, 1, 1, 1, 40), (0, 0, 2, 2, 60)]);
        assert_eq!(window.totals(at(4_200)), Totals::default());
        assert_eq!(window.drain(at(4_200)), []);
    }

    #[test]
    fn a_clock_that_moves_takes_the_counts_with_it() {
        let filled = || filled(&[(20_000, bad()), (24_000, ok()), (25_500, bad())]);
        for after in [1_700_000_000_000, 30_000, 12_000] {
            let mut window = filled();
            window.clock_moved(at(27_000), at(after));
            assert_eq!(window.totals(at(after)), filled().totals(at(27_000)), "now {after}");
            assert_eq!(window.totals(at(after + 3_000)), filled().totals(at(30_000)), "now {after}");
            assert_eq!(window.drain(at(after + 3_000)), filled().drain(at(30_000)), "now {after}");
        }
        let mut early = filled();
        early.clock_moved(at(27_000), at(0));
        assert_eq!(
            early.totals(at(0)),
            filled().totals(at(27_000)),
            "nothing is lost where there is no time before"
        );
        let mut old = filled();
        old.clock_moved(at(40_000), at(41_000));
        let totals = Totals { failure_run: 1, ..Totals::default() };
        assert_eq!(old.totals(at(41_000)), totals, "what was too old before stays too old; the run stays");
    }

    #[test]
    fn a_bucket_ends_where_the_next_begins() {
        let window = filled(&[(5_000, bad())]);
        assert_eq!(window.bucket_ends_at(at(5_999)), at(6_000));
        assert_eq!(window.bucket_ends_at(at(6_000)), at(7_000));
        assert_eq!(window.bucket_ends_at(at(4_000)), at(6_000), "the head's, if that is later");
    }

    #[test]
    fn without_a_rule_for_it_latency_costs_nothing_and_can_be_asked_for_later() {
        let plain = Policy::builder().window(Duration::from_secs(10)).build().unwrap();
        let mut window = Window::new(&plain);
        window.record(&bad(), None, at(0));
        assert_eq!(window.totals(at(0)).latency_sum, Duration::ZERO);
        window.fit(&policy(10), at(1));
        window.record(&bad(), Some(SLOW), at(1));
        let totals = window.totals(at(1));
        assert_eq!((totals.failures, totals.slow, totals.latency_sum), (2, 1, Duration::from_millis(30)));
        assert!(core::mem::size_of::<Window>() <= 128);
    }
}
