//! Tables of changes, the notifications that they cause, and the notifications' texts.

mod decisions;
mod texts;

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::{Cause, Change, Epoch, Mode, Status, Timestamp, Totals};

/// 2026-01-31T12:00:00Z, in seconds since 1970.
const NOON: u64 = 1_769_860_800;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis((NOON + seconds) * 1_000)
}

/// Returns a change to this state at [`NOON`].
fn change(cause: Cause, to: Status) -> Change {
    Change {
        from: Status::Closed,
        to,
        at: at(0),
        epoch: Epoch(7),
        cause,
        retry_at: (to == Status::Open).then(|| at(30)),
        trips: 2,
        last_success: Some(at(0).before(Duration::from_secs(60))),
        failing_since: None,
        evidence: Some(Arc::new(Totals {
            successes: 5,
            failures: 7,
            slow: 6,
            latency_sum: Duration::from_secs(60),
            failure_run: 4,
        })),
        mode: Mode::Automatic,
    }
}
