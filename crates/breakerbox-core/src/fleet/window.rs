//! One circuit's shared window: the counts of all processes, in buckets by the store's time.
//!
//! Buckets are identified by the time at which they begin. So windows with different lengths can be added to the same
//! counts, and a change of policy loses none. The window only adds, with one exception: the run of consecutive
//! failures, because sums do not show the order of outcomes. The window keeps the time of the latest success, and
//! failures extend the run only if the first of them is later.

use alloc::collections::BTreeMap;
use core::time::Duration;

use super::delta::{BucketDelta, Delta};
use crate::record::LatestOutcomes;
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
    /// The time of the first failure in the run of consecutive failures.
    run_began: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Counts {
    successes: u64,
    failures: u64,
    slow: u64,
    latency_sum: Duration,
    run: u64,
}

impl SharedWindow {
    /// Adds one process's counts.
    pub fn add(&mut self, delta: &Delta, now: Timestamp) {
        let width = width(delta.window);
        self.note_success(delta.last_success.map(|age| now.back_by(age)));
        let run_began = delta.run_began.map(|age| now.back_by(age));
        let extends = run_began > self.last_success;
        if extends {
            self.run_began = match (self.run_began, run_began) {
                (Some(known), Some(new)) => Some(known.min(new)),
                (known, new) => known.or(new),
            };
        }
        for bucket in &delta.buckets {
            let begins = now.back_by(bucket.age).as_micros() / width * width;
            self.buckets.entry(begins).or_default().add(bucket, extends);
        }
        self.buckets = self.buckets.split_off(&oldest(width, now));
    }

    /// Records a success. The success ends the run of consecutive failures, unless all of those failures are later.
    fn note_success(&mut self, at: Option<Timestamp>) {
        if at <= self.last_success {
            return;
        }
        self.last_success = at;
        if self.run_began <= at {
            self.run_began = None;
            self.buckets.values_mut().for_each(|counts| counts.run = 0);
        }
    }

    /// Returns the totals over a window of this length.
    #[must_use]
    pub fn totals(&self, window: Duration, now: Timestamp) -> Totals {
        let mut totals = Totals::default();
        for (_, counts) in self.buckets.range(oldest(width(window), now)..) {
            totals.successes = totals.successes.saturating_add(counts.successes);
            totals.failures = totals.failures.saturating_add(counts.failures);
            totals.slow = totals.slow.saturating_add(counts.slow);
            totals.latency_sum = totals.latency_sum.saturating_add(counts.latency_sum);
            totals.failure_run = totals.failure_run.saturating_add(counts.run);
        }
        totals
    }

    /// Returns the latest success in this window, and the first of the consecutive failures after it.
    #[must_use]
    pub const fn latest_outcomes(&self) -> LatestOutcomes {
        LatestOutcomes { last_success: self.last_success, failing_since: self.run_began }
    }
}

impl Counts {
    fn add(&mut self, more: &BucketDelta, extends_run: bool) {
        self.successes = self.successes.saturating_add(more.successes);
        self.failures = self.failures.saturating_add(more.failures);
        self.slow = self.slow.saturating_add(more.slow);
        self.latency_sum = self.latency_sum.saturating_add(more.latency_sum);
        if extends_run {
            self.run = self.run.saturating_add(more.run);
        }
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
