//! Changes: the values that observers of a circuit receive.

use alloc::sync::Arc;

pub use crate::record::{Cause, OverrideCommand};
use crate::record::{CircuitStatus, Mode, Record};
use crate::time::Timestamp;
use crate::token::{Epoch, RandomBits};
use crate::window::Totals;

/// One transition of one circuit. Each transition begins a new epoch.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Change {
    /// The state before the transition.
    pub from: CircuitStatus,
    /// The state after the transition.
    pub to: CircuitStatus,
    /// The time of the transition.
    pub at: Timestamp,
    /// The epoch that begins with this change.
    pub epoch: Epoch,
    /// The reason for the transition.
    pub cause: Cause,
    /// The earliest time at which a caller may probe; `None` unless the circuit is open.
    pub retry_at: Option<Timestamp>,
    /// The number of trips since the earlier ones were last forgiven.
    pub trips: u32,
    /// The time of the latest success; `None` before the first.
    pub last_success: Option<Timestamp>,
    /// The time of the first counted failure after the latest success; `None` if no failure was counted after it.
    pub failing_since: Option<Timestamp>,
    /// The window's counts when a rule tripped the circuit; `None` if no rule has tripped it since it last closed.
    pub evidence: Option<Arc<Totals>>,
    /// The mode after the transition, with the operator who set it and the reason.
    pub mode: Mode,
}

impl Change {
    /// Creates a transition of a circuit without history or override. Set the other fields as needed, for example when
    /// you read a change that you stored.
    #[must_use]
    pub const fn new(
        from: CircuitStatus,
        to: CircuitStatus,
        at: Timestamp,
        epoch: Epoch,
        cause: Cause,
    ) -> Self {
        Self {
            from,
            to,
            at,
            epoch,
            cause,
            retry_at: None,
            trips: 0,
            last_success: None,
            failing_since: None,
            evidence: None,
            mode: Mode::Automatic,
        }
    }

    /// Returns the transition from the state `from` to the record's state; `None` if `record` is the circuit's first. A
    /// caller that does not know the previous state can derive it from the record's cause ([`Cause::leaves`]).
    #[must_use]
    pub fn to(record: &Record, from: CircuitStatus) -> Option<Self> {
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
    /// The record to write.
    pub record: Record,
    /// The change to publish to observers. `None` for a write within an epoch, such as taking or releasing a lease or
    /// counting a probe.
    pub change: Option<Change>,
}

impl Step {
    /// Creates a step to a new epoch. Fills in the epoch, version, time and cause of `next`, and the change to publish.
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

    /// Brings `retry_at` forward by the time since `since`, but not before `now`. Calls have been refused since
    /// `since`, so that time counts towards the cool-off.
    pub(crate) fn refused_since(mut self, since: Timestamp, now: Timestamp) -> Self {
        let times =
            [Some(&mut self.record.retry_at), self.change.as_mut().map(|change| &mut change.retry_at)];
        for retry_at in times.into_iter().flatten().flatten() {
            *retry_at = retry_at.back_by(now.since(since)).max(now);
        }
        self
    }

    /// Creates a step within the same epoch, with a new version and without a change to publish.
    pub(crate) fn within_epoch(mut record: Record, draw: RandomBits) -> Self {
        record.version = draw.version();
        Self { record, change: None }
    }
}
