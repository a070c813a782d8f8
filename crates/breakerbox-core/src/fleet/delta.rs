//! One process's counts since its last report to the store, and the store's response.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use crate::outcome::{Outcome, OutcomeKind};
use crate::policy::Policy;
use crate::record::{LatestOutcomes, Record};
pub use crate::run::RunDelta;
use crate::token::Epoch;
pub use crate::window::BucketDelta;
use crate::window::Totals;

/// One process's counts for one circuit. The counts have ages instead of times, because clocks differ between
/// processes.
#[derive(Clone, PartialEq, Debug)]
pub struct Delta {
    /// The key of the circuit.
    pub key: Arc<str>,
    /// The epoch of the counted permits; zero for a circuit without a record.
    pub epoch: Epoch,
    /// The length of the window. Each bucket is a tenth of it.
    pub window: Duration,
    /// The counts of each bucket, oldest first.
    pub buckets: Vec<BucketDelta>,
    /// The age of the latest success; `None` if there was none.
    pub last_success: Option<Duration>,
    /// The failures after the latest success; `None` if there are none. They need not be in any bucket, because a run
    /// outlives the window.
    pub run: Option<RunDelta>,
    /// How long the store must keep the counts. It keeps a run of failures [for longer](crate::FailureRun::KEPT_FOR).
    pub keep_for: Duration,
}

impl Delta {
    /// Creates the delta for a single outcome with age zero.
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
        };
        Self {
            key,
            epoch,
            window: policy.window(),
            buckets: if is(OutcomeKind::Ignored) { Vec::new() } else { vec![bucket] },
            last_success: is(OutcomeKind::Success).then_some(now),
            run: is(OutcomeKind::Failure).then_some(RunDelta { count: 1, began: now, last: now }),
            keep_for: policy.window(),
        }
    }
}

impl Delta {
    /// Returns the number of calls in all buckets.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.buckets
            .iter()
            .fold(0, |calls, bucket| calls.saturating_add(bucket.successes).saturating_add(bucket.failures))
    }
}

/// The store's response to a delta, with the key's shared window and record.
#[derive(Clone, PartialEq, Debug)]
pub struct Merged {
    /// Whether the counts belong to an earlier or later epoch than the record's, so that the store did not add them.
    pub late: bool,
    /// The totals of the shared window.
    pub totals: Totals,
    /// The latest success that any process counted, and the first failure after it.
    pub latest: LatestOutcomes,
    /// The circuit's record; `None` if the circuit never made a transition.
    pub record: Option<Record>,
}

impl Merged {
    /// Creates a store's response. `in_window` contains the latest outcomes in the shared window.
    #[must_use]
    pub fn new(late: bool, totals: Totals, in_window: LatestOutcomes, record: Option<Record>) -> Self {
        let recorded = record.as_ref().map(Record::latest_outcomes).unwrap_or_default();
        Self { late, totals, latest: recorded.merged_with(in_window), record }
    }
}
