//! What one process has counted since it last told the store, and what the store says to it.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use crate::outcome::{Outcome, OutcomeKind};
use crate::policy::Policy;
use crate::record::{LatestOutcomes, Record};
use crate::token::Epoch;
use crate::window::Totals;

/// One process's counts for one circuit. It holds ages, not times, because clocks differ.
#[derive(Clone, PartialEq, Debug)]
pub struct Delta {
    /// Whose.
    pub key: Arc<str>,
    /// The epoch of the permits; the default one for a circuit without a record.
    pub epoch: Epoch,
    /// The length of the window. A bucket is a tenth of it.
    pub window: Duration,
    /// What was counted, oldest first.
    pub buckets: Vec<BucketDelta>,
    /// How long ago the latest success was, if there was one.
    pub last_success: Option<Duration>,
    /// How long ago the first failure after the latest success was, if there was one.
    pub run_began: Option<Duration>,
    /// How long the counts are worth keeping.
    pub keep_for: Duration,
}

impl Delta {
    /// One outcome, just now.
    #[must_use]
    pub fn of_one(key: Arc<str>, epoch: Epoch, outcome: &Outcome, policy: &Policy) -> Self {
        let is = |kind| outcome.kind == kind;
        let now = Duration::ZERO;
        let bucket = BucketDelta {
            age: now,
            successes: u64::from(is(OutcomeKind::Success)),
            failures: u64::from(is(OutcomeKind::Failure)),
            slow: u64::from(outcome.is_slow(policy)),
            latency_sum: outcome.latency,
            run: u64::from(is(OutcomeKind::Failure)),
        };
        Self {
            key,
            epoch,
            window: policy.window(),
            buckets: if is(OutcomeKind::Ignored) { Vec::new() } else { vec![bucket] },
            last_success: is(OutcomeKind::Success).then_some(now),
            run_began: is(OutcomeKind::Failure).then_some(now),
            keep_for: policy.window(),
        }
    }
}

impl Delta {
    /// How many calls it tells of.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.buckets
            .iter()
            .fold(0, |calls, bucket| calls.saturating_add(bucket.successes).saturating_add(bucket.failures))
    }
}

/// What was counted at about the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BucketDelta {
    /// How long ago.
    pub age: Duration,
    /// Calls that succeeded.
    pub successes: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Calls that took at least `slow_call`.
    pub slow: u64,
    /// The sum of all latencies.
    pub latency_sum: Duration,
    /// Failures after the latest success of the whole delta.
    pub run: u64,
}

/// What a key's shared window and record are after a merge.
#[derive(Clone, PartialEq, Debug)]
pub struct Merged {
    /// Whether the counts belonged to another epoch and were not added.
    pub late: bool,
    /// What the window holds.
    pub totals: Totals,
    /// The latest success that any process counted, and since when the circuit fails.
    pub latest: LatestOutcomes,
    /// The record; none for a circuit that nothing has happened to.
    pub record: Option<Record>,
}

impl Merged {
    /// What a store answers that has this window, with these latest outcomes in it, and this record.
    #[must_use]
    pub fn new(late: bool, totals: Totals, in_window: LatestOutcomes, record: Option<Record>) -> Self {
        let recorded = record.as_ref().map(Record::latest_outcomes).unwrap_or_default();
        Self { late, totals, latest: recorded.merged_with(in_window), record }
    }
}
