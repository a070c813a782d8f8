//! Permits and refusals: the two possible results of acquiring.

use core::time::Duration;

use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::time::Timestamp;
use crate::token::{Epoch, Nonce};

/// The right to make one call. A permit is settled once, either by reporting an outcome or by being dropped. Settling
/// consumes the permit.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a permit must be settled"]
pub struct Permit {
    pub(crate) epoch: Epoch,
    pub(crate) kind: PermitKind,
    started_at: Timestamp,
    /// The process-local circuit's probe, if this call is that probe.
    pub(crate) local_probe: Option<LocalProbe>,
}

/// Identifies a process-local circuit's probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LocalProbe {
    /// The process-local circuit's epoch.
    pub(crate) epoch: Epoch,
    pub(crate) nonce: Nonce,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PermitKind {
    /// An ordinary call.
    Call,
    /// An ordinary call that occupies a slot in this process's ramp.
    Ramped { generation: u32 },
    /// An ordinary call that occupies a slot in the fleet's ramp.
    OnRamp { slot: Nonce },
    /// The only call allowed while the circuit is half-open.
    Probe { nonce: Nonce, deadline: Timestamp },
    /// A call that is not counted, because the circuit refused it and dry-run admitted it.
    Uncounted,
}

impl Permit {
    pub(crate) const fn new(epoch: Epoch, kind: PermitKind, started_at: Timestamp) -> Self {
        Self { epoch, kind, started_at, local_probe: None }
    }

    /// Creates a permit for an ordinary call. The caller must know that the circuit [allows the fast
    /// path](crate::Circuit::allows_fast_path) in this epoch.
    pub const fn fast_path(epoch: Epoch, started_at: Timestamp) -> Self {
        Self::new(epoch, PermitKind::Call, started_at)
    }

    /// Creates a permit for an ordinary call that occupies a slot in the [fleet's ramp](crate::fleet::RampRequest).
    pub const fn on_ramp(epoch: Epoch, slot: Nonce, started_at: Timestamp) -> Self {
        Self::new(epoch, PermitKind::OnRamp { slot }, started_at)
    }

    /// Returns the slot in the fleet's ramp that this permit occupies, and the slot's epoch; `None` if there is none.
    #[must_use]
    pub const fn slot(&self) -> Option<(Epoch, Nonce)> {
        match self.kind {
            PermitKind::OnRamp { slot } => Some((self.epoch, slot)),
            _ => None,
        }
    }

    /// Creates a permit for a call that is not counted.
    pub const fn uncounted(started_at: Timestamp) -> Self {
        Self::new(Epoch(0), PermitKind::Uncounted, started_at)
    }

    /// Whether this call probes a half-open circuit.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        matches!(self.kind, PermitKind::Probe { .. })
    }

    /// Returns the time at which the permit was acquired.
    #[must_use]
    pub const fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// Returns a probe's deadline; `None` for other calls. A probe that is still in flight at its deadline has
    /// failed.
    #[must_use]
    pub const fn deadline(&self) -> Option<Timestamp> {
        match self.kind {
            PermitKind::Probe { deadline, .. } => Some(deadline),
            _ => None,
        }
    }

    /// Returns the same permit with its times converted to the caller's own clock. `started_at` is the permit's start
    /// by that clock, which must be monotonic, because latencies are measured by it.
    pub fn by_own_clock(self, started_at: Timestamp) -> Self {
        let kind = match self.kind {
            PermitKind::Probe { nonce, deadline } => {
                PermitKind::Probe { nonce, deadline: started_at + deadline.since(self.started_at) }
            }
            kind => kind,
        };
        Self { kind, started_at, ..self }
    }

    /// Whether the deadline has passed, so that it is too late to start the call.
    #[must_use]
    pub fn is_past_deadline(&self, now: Timestamp) -> bool {
        self.deadline().is_some_and(|deadline| now >= deadline)
    }

    /// Returns the outcome for a permit that was dropped at `now` without an outcome.
    ///
    /// A drop within `cancel_grace` of the permit's start is a cancellation by the caller, and is not counted. A
    /// later drop is a failure, because callers put timeouts around calls, and a hanging destination would otherwise
    /// never trip the circuit.
    #[must_use]
    pub fn outcome_of_drop(&self, policy: &Policy, now: Timestamp) -> Outcome {
        let age = now.since(self.started_at);
        if age < policy.cancel_grace() { Outcome::ignored() } else { Outcome::failure(age) }
    }
}

/// The response to a caller that gets no permit. It states the reason, and when to acquire again.
///
/// A refusal is a decision, not a fault. It implements `Error` so that it can be the source of another error, and code
/// that inspects an error chain can distinguish a call that was not made from a call that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The circuit is open, and its cool-off is not over.
    #[error("the circuit is open for another {} ms", .retry_in.as_millis())]
    Open {
        /// The earliest time at which a caller may probe.
        retry_at: Timestamp,
        /// The time until `retry_at`.
        retry_in: Duration,
    },
    /// The circuit is open in this process only, because this process's calls fail and those of the other processes do
    /// not.
    #[error("the circuit is open in this process only, for another {} ms", .retry_in.as_millis())]
    OpenLocally {
        /// The earliest time at which a caller may probe. While this process is probing, this is the probe's deadline.
        retry_at: Timestamp,
        /// The time until `retry_at`.
        retry_in: Duration,
    },
    /// Another caller is probing. A permit may become available before `retry_at`, if the probe ends early.
    #[error("the circuit is half-open and another call is probing")]
    Probing {
        /// The time at which the probe's lease expires.
        retry_at: Timestamp,
        /// The time until `retry_at`.
        retry_in: Duration,
    },
    /// The ramp's limit on calls in flight is reached. The time to retry is unknown, because a slot becomes free only
    /// when another call settles.
    #[error("the circuit has just closed and admits {limit} calls at a time; {in_flight} are in flight")]
    Ramping {
        /// The number of calls in flight.
        in_flight: u32,
        /// The maximum number of calls in flight.
        limit: u32,
    },
    /// The counts that this process knows meet a trip rule. The process refuses calls while it waits for the other
    /// processes' reports.
    #[error("the circuit is about to open, if the fleet's counts agree")]
    TripPending,
    /// Every permit requires the store, and this caller cannot wait for the store's response.
    #[error("circuits are shared strictly, so the store must be read: use acquire")]
    StoreRequired,
    /// The store is unavailable, and the configuration requires calls to be refused without it.
    #[error("the store does not respond, and on_store_loss is set to refuse")]
    StoreLost,
    /// An operator forced the circuit open.
    #[error("an operator forced the circuit open")]
    ForcedOpen,
    /// The circuit is disabled until an operator enables it.
    #[error("the circuit is disabled until it is enabled")]
    Disabled,
}

impl Refusal {
    pub(crate) fn open(retry_at: Timestamp, now: Timestamp) -> Self {
        Self::Open { retry_at, retry_in: retry_at.since(now) }
    }

    pub(crate) fn open_here(retry_at: Timestamp, now: Timestamp) -> Self {
        Self::OpenLocally { retry_at, retry_in: retry_at.since(now) }
    }

    pub(crate) fn probing(retry_at: Timestamp, now: Timestamp) -> Self {
        Self::Probing { retry_at, retry_in: retry_at.since(now) }
    }

    /// Returns the time at which to acquire again; `None` if that time is not known.
    #[must_use]
    pub const fn retry_at(&self) -> Option<Timestamp> {
        match self {
            Self::Open { retry_at, .. }
            | Self::OpenLocally { retry_at, .. }
            | Self::Probing { retry_at, .. } => Some(*retry_at),
            Self::Ramping { .. }
            | Self::TripPending
            | Self::StoreRequired
            | Self::StoreLost
            | Self::ForcedOpen
            | Self::Disabled => None,
        }
    }

    /// Returns the time from the refusal until [`retry_at`](Self::retry_at); `None` if that time is not known.
    #[must_use]
    pub const fn retry_in(&self) -> Option<Duration> {
        match self {
            Self::Open { retry_in, .. }
            | Self::OpenLocally { retry_in, .. }
            | Self::Probing { retry_in, .. } => Some(*retry_in),
            // `retry_at` lists the other variants.
            _ => None,
        }
    }

    /// Returns the name that reports and APIs use.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::OpenLocally { .. } => "open_locally",
            Self::Probing { .. } => "probing",
            Self::Ramping { .. } => "ramping",
            Self::TripPending => "trip_pending",
            Self::StoreRequired => "store_required",
            Self::StoreLost => "store_lost",
            Self::ForcedOpen => "forced_open",
            Self::Disabled => "disabled",
        }
    }
}

/// The result of acquiring a permit.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a permit must be settled"]
pub enum Decision {
    /// Make the call, and settle the permit.
    Admitted(Permit),
    /// Do not make the call.
    Refused(Refusal),
}

impl Decision {
    /// Applies dry-run mode, in which every call is admitted. A call that would have been refused gets a permit that is
    /// not counted, and its refusal is returned for reporting.
    pub fn observe_only(self, now: Timestamp) -> (Permit, Option<Refusal>) {
        match self {
            Self::Admitted(permit) => (permit, None),
            Self::Refused(refusal) => (Permit::uncounted(now), Some(refusal)),
        }
    }
}
