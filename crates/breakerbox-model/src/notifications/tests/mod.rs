//! Tables of changes, the notifications that they cause, and the notifications' texts.

mod decisions;
mod texts;

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::{Cause, Change, CircuitStatus, Epoch, Timestamp, Totals};

/// 2026-01-31T12:00:00Z, in seconds since 1970.
const NOON: u64 = 1_769_860_800;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis((NOON + seconds) * 1_000)
}

/// Returns a change to this state at [`NOON`].
fn change(cause: Cause, to: CircuitStatus) -> Change {
    let mut changed = Change::new(CircuitStatus::Closed, to, at(0), Epoch(7), cause);
    changed.retry_at = (to == CircuitStatus::Open).then(|| at(30));
    changed.trips = 2;
    changed.last_success = Some(at(0).before(Duration::from_secs(60)));
    changed.evidence = Some(Arc::new({
        let mut totals = Totals::default();
        totals.successes = 5;
        totals.failures = 7;
        totals.slow = 6;
        totals.latency_sum = Duration::from_secs(60);
        totals.failure_run = 4;
        totals
    }));
    changed
}
