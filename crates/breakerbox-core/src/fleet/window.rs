//! One circuit's shared window: the counts of all processes, in buckets by the store's time.
//!
//! Buckets are identified by the time at which they begin. So windows with different lengths can be added to the same
//! counts, and a change of policy loses none. The window only adds, with one exception: the run of failures, because
//! sums do not show the order of outcomes. It is kept beside the buckets, with the time of the latest success. A newer
//! success clears the run if it began before; a process's run is added only if it began after the latest success.

use alloc::collections::BTreeMap;
use core::time::Duration;

use super::delta::{BucketDelta, Delta};
use crate::record::LatestOutcomes;
use crate::run::FailureRun;
use crate::time::{Timestamp, micros};
use crate::window::Totals;

/// The number of buckets in a window, including the current bucket.
const BUCKETS: u64 = 10;

/// All processes' counts for one circuit. Stores that keep counts in memory use this type; other stores implement the
/// same rules.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SharedWindow {
    /// The buckets, by their start time in microseconds since the origin of the store's clock.
    buckets: BTreeMap<u64, Counts>,
    last_success: Option<Timestamp>,
    /// All processes' failures since the latest success.
    run: FailureRun,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Counts {
    successes: u64,
    failures: u64,
    slow: u64,
    latency_sum: Duration,
}

impl SharedWindow {
    /// Adds one process's counts.
    pub fn add(&mut self, delta: &Delta, now: Timestamp) {
        let width = width(delta.window);
        self.note_success(delta.last_success.map(|age| now.back_by(age)));
        self.run = self.run.at(now);
        if let Some(more) = delta.run.map(|run| run.at(now).at(now))
            && Some(more.began) > self.last_success
        {
            self.run = self.run.with(more);
        }
        for bucket in &delta.buckets {
            let begins = now.back_by(bucket.age).as_micros() / width * width;
            self.buckets.entry(begins).or_default().add(bucket);
        }
        self.buckets = self.buckets.split_off(&oldest(width, now));
    }

    /// Records a success. The success ends the run of failures, unless all of those failures are later.
    fn note_success(&mut self, at: Option<Timestamp>) {
        if at <= self.last_success {
            return;
        }
        self.last_success = at;
        if Some(self.run.began) <= at {
            self.run = FailureRun::default();
        }
    }

    /// Returns the failures since the latest success.
    #[must_use]
    pub fn run(&self, now: Timestamp) -> FailureRun {
        self.run.at(now)
    }

    /// Returns the totals over a window of this length.
    #[must_use]
    pub fn totals(&self, window: Duration, now: Timestamp) -> Totals {
        let mut totals = Totals { failure_run: self.run(now).count, ..Totals::default() };
        for (_, counts) in self.buckets.range(oldest(width(window), now)..) {
            totals.successes = totals.successes.saturating_add(counts.successes);
            totals.failures = totals.failures.saturating_add(counts.failures);
            totals.slow = totals.slow.saturating_add(counts.slow);
            totals.latency_sum = totals.latency_sum.saturating_add(counts.latency_sum);
        }
        totals
    }

    /// Returns the latest success in this window, and the first failure after it.
    #[must_use]
    pub fn latest_outcomes(&self, now: Timestamp) -> LatestOutcomes {
        let run = self.run(now);
        LatestOutcomes {
            last_success: self.last_success,
            failing_since: (!run.is_empty()).then_some(run.began),
        }
    }
}

impl Counts {
    fn add(&mut self, more: &BucketDelta) {
        self.successes = self.successes.saturating_add(more.successes);
        self.failures = self.failures.saturating_add(more.failures);
        self.slow = self.slow.saturating_add(more.slow);
        self.latency_sum = self.latency_sum.saturating_add(more.latency_sum);
    }
}

/// Returns a bucket's width in microseconds.
fn width(window: Duration) -> u64 {
    (micros(window) / BUCKETS).max(1)
}

/// Returns the start of the oldest bucket that is still in the window, in microseconds since the clock's origin.
fn oldest(width: u64, now: Timestamp) -> u64 {
    (now.as_micros() / width).saturating_sub(BUCKETS - 1) * width
}
