//! Changes: what observers of a circuit receive, as values.

use alloc::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::record::{Attribution, Mode, Record, Status};
use crate::rule::TripRule;
use crate::time::Timestamp;
use crate::token::{Epoch, RandomBits};
use crate::window::Totals;

/// One transition of one circuit. Each new epoch is one change, and each change one new epoch.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// The state before.
    pub from: Status,
    /// The state now.
    pub to: Status,
    /// When.
    pub at: Timestamp,
    /// The epoch that began.
    pub epoch: Epoch,
    /// Why.
    pub cause: Cause,
    /// While open: from when on an ask may probe.
    pub retry_at: Option<Timestamp>,
    /// Trips so far.
    pub trips: u32,
    /// The latest success; none until there was one.
    pub last_success: Option<Timestamp>,
    /// The first counted failure after it.
    pub failing_since: Option<Timestamp>,
    /// What the window held when a rule tripped the circuit; none if none did since it last closed.
    pub evidence: Option<Arc<Totals>>,
    /// The mode now, with who set it and why.
    pub mode: Mode,
}

impl Change {
    /// The change that led to this record from this state; none if it is the first of its circuit. Whoever has the record
    /// and not the state before it asks the record's cause ([`Cause::leaves`]).
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

/// Why a circuit changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// A trip rule held.
    Rule(TripRule),
    /// A probe failed.
    ProbeFailed,
    /// The cool-off was over and somebody asked.
    CoolOffOver,
    /// Enough probes succeeded.
    ProbesSucceeded,
    /// In sampling mode: the successes since half-open reached `recovery_rate`.
    RecoveryRateMet,
    /// In sampling mode: they did not.
    RecoveryRateMissed,
    /// The process held a state that the fleet gave up long ago: the store no longer has a record, and a closed one is not
    /// kept for ever. Only observers hear this; no record has it.
    Expired,
    /// An operator said so.
    Command {
        /// What was said.
        command: Command,
        /// By whom, and why.
        by: Attribution,
    },
}

impl Cause {
    /// The state that a circuit leaves for this cause; none for a command, which is obeyed in any state, and for a record that
    /// expired.
    #[must_use]
    pub const fn leaves(&self) -> Option<Status> {
        match self {
            Self::Rule(_) => Some(Status::Closed),
            Self::CoolOffOver => Some(Status::Open),
            Self::ProbeFailed | Self::ProbesSucceeded | Self::RecoveryRateMet | Self::RecoveryRateMissed => {
                Some(Status::HalfOpen)
            }
            Self::Command { .. } | Self::Expired => None,
        }
    }
}

/// What an operator can say to a circuit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Command {
    /// Refuse every call.
    ForceOpen,
    /// Admit every call.
    ForceClosed,
    /// Switch off until somebody enables it.
    Disable,
    /// End an override and probe; trips are remembered.
    Release,
    /// End an override and probe; trips are forgotten.
    Enable,
    /// Start anew: closed, without trips.
    Reset,
}

/// A record to swap in, and the change that observers hear if the swap wins.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// The next record.
    pub record: Record,
    /// What observers hear. None for a write within an epoch: a lease taken or given back, a probe counted.
    pub change: Option<Change>,
}

impl Step {
    /// A step to a new epoch: `next` with its epoch, version, time and change filled in.
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

    /// The same step where calls were refused since `since` already: that time is part of the cool-off.
    pub(crate) fn refused_since(mut self, since: Timestamp, now: Timestamp) -> Self {
        let times =
            [Some(&mut self.record.retry_at), self.change.as_mut().map(|change| &mut change.retry_at)];
        for retry_at in times.into_iter().flatten().flatten() {
            *retry_at = retry_at.back_by(now.since(since)).max(now);
        }
        self
    }

    /// A step within the same epoch.
    pub(crate) fn within_epoch(mut record: Record, draw: RandomBits) -> Self {
        record.version = draw.version();
        Self { record, change: None }
    }
}
