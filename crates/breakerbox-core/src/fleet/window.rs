//! The shared window of one circuit: what all processes counted, in buckets by the store's time.
//!
//! Buckets are named by the time at which they begin. So windows of different lengths can be added to the same counts, and a
//! policy that changes loses none. Adding is all that is done here, with one exception, the run of failures: adding can't
//! tell what came first. The window keeps the time of the latest success, and failures extend the run only if the first of
//! them is later.

use alloc::collections::BTreeMap;
use core::time::Duration;

use super::delta::{BucketDelta, Delta};
use crate::record::LatestOutcomes;
use crate::time::{Timestamp, micros};
use crate::window::Totals;

/// How many buckets make a window: the current one and those before.
const BUCKETS: u64 = 10;

/// What all processes counted for one circuit. A store that keeps its counts in memory keeps one of these; others do the
/// same in their own way.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SharedWindow {
    /// By the time, in microseconds, at which they begin.
    buckets: BTreeMap<u64, Counts>,
    last_success: Option<Timestamp>,
    /// When the first failure of the run was.
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
    /// Adds what one process counted.
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

    /// A success ends the run, unless all of the run is later.
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

    /// What a window of this length holds.
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

    /// The latest success in this window, and the first failure of the run after it.
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

/// A bucket's width in microseconds.
fn width(window: Duration) -> u64 {
    (micros(window) / BUCKETS).max(1)
}

/// When the oldest bucket that still counts begins.
fn oldest(width: u64, now: Timestamp) -> u64 {
    (now.as_micros() / width).saturating_sub(BUCKETS - 1) * width
}
