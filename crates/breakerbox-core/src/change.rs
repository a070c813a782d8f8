//! Changes: the values that observers of a circuit receive.

use alloc::sync::Arc;

pub use crate::record::{Cause, OverrideCommand};
use crate::record::{Mode, Record, Status};
use crate::time::Timestamp;
use crate::token::{Epoch, RandomBits};
use crate::window::Totals;

/// One transition of one circuit. Each change begins one new epoch, and each new epoch begins with one change.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// The state before.
    pub from: Status,
    /// The state now.
    pub to: Status,
    /// The time of the transition.
    pub at: Timestamp,
    /// The epoch that began with this change.
    pub epoch: Epoch,
    /// The reason for the transition.
    pub cause: Cause,
    /// While open: the time from which an acquire may probe.
    pub retry_at: Option<Timestamp>,
    /// The number of trips so far.
    pub trips: u32,
    /// The latest success; `None` before the first.
    pub last_success: Option<Timestamp>,
    /// The first counted failure after the latest success; `None` if there is none.
    pub failing_since: Option<Timestamp>,
    /// The counts of the window when a rule tripped the circuit; `None` if no rule did since the circuit last closed.
    pub evidence: Option<Arc<Totals>>,
    /// The mode now, with the operator who set it and the reason.
    pub mode: Mode,
}

impl Change {
    /// Returns the change that led from the state `from` to this record; `None` if the record is the first of its
    /// circuit. A caller that does not know the previous state can take it from the record's cause
    /// ([`Cause::leaves`]).
    #[must_use]
    pub fn to(record: &Record, from: Status) -> Option<Self> {
        Some(Self {
            from,
            to: record.status(),
            at: record.changed_at,
            epoch: record.epoch,
            cause: record.cause.clone()?,
            retry_at: record.retry_at,
            trips: record.trips,
            last_success: record.last_success,
            failing_since: record.failing_since,
            evidence: record.evidence.clone(),
            mode: record.mode.clone(),
        })
    }
}

/// A record to write to the store by compare-and-swap, and the change to publish if the swap succeeds.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// The next record.
    pub record: Record,
    /// The change to publish to observers. `None` for a write within an epoch: a lease taken or released, a probe
    /// counted.
    pub change: Option<Change>,
}

impl Step {
    /// Creates a step to a new epoch: `next`, with its epoch, version, time and change filled in.
    pub(crate) fn transition(
        from: &Record,
        mut next: Record,
        cause: Cause,
        draw: RandomBits,
        now: Timestamp,
    ) -> Self {
        next.epoch = from.epoch.next(now);
        next.version = draw.version();
        next.changed_at = now;
        next.cause = Some(cause);
        let change = Change::to(&next, from.status());
        Self { record: next, change }
    }

    /// Shortens the cool-off by the time since `since`, from which on calls were refused already.
    pub(crate) fn refused_since(mut self, since: Timestamp, now: Timestamp) -> Self {
        let times =
            [Some(&mut self.record.retry_at), self.change.as_mut().map(|change| &mut change.retry_at)];
        for retry_at in times.into_iter().flatten().flatten() {
            *retry_at = retry_at.back_by(now.since(since)).max(now);
        }
        self
    }

    /// Creates a step within the same epoch.
    pub(crate) fn within_epoch(mut record: Record, draw: RandomBits) -> Self {
        record.version = draw.version();
        Self { record, change: None }
    }
}
