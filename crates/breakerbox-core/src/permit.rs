//! Permits and refusals: the two answers to an ask.

use core::time::Duration;

use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::time::Timestamp;
use crate::token::{Epoch, Nonce};

/// The right to make one call. It is settled once, with an outcome or by being dropped: settling takes it.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a permit must be settled"]
pub struct Permit {
    pub(crate) epoch: Epoch,
    pub(crate) kind: PermitKind,
    started_at: Timestamp,
    /// Set if the call also probes this process's own circuit.
    pub(crate) local_probe: Option<LocalProbe>,
}

/// Names the one probe of a process-local circuit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LocalProbe {
    /// The local circuit's own epoch.
    pub(crate) epoch: Epoch,
    pub(crate) nonce: Nonce,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PermitKind {
    /// An ordinary call.
    Call,
    /// An ordinary call that holds a place in the ramp.
    Ramped { generation: u32 },
    /// An ordinary call that holds a place in the fleet's ramp.
    Placed { place: Nonce },
    /// The one call allowed while the circuit is half-open.
    Probe { nonce: Nonce, deadline: Timestamp },
    /// A call that counts nowhere: dry-run admitted what the circuit refused.
    Uncounted,
}

impl Permit {
    pub(crate) const fn new(epoch: Epoch, kind: PermitKind, started_at: Timestamp) -> Self {
        Self { epoch, kind, started_at, local_probe: None }
    }

    /// A permit for an ordinary call, from a caller who knew by itself that the circuit [is at
    /// ease](crate::Circuit::is_at_ease) in this epoch.
    pub const fn at_ease(epoch: Epoch, started_at: Timestamp) -> Self {
        Self::new(epoch, PermitKind::Call, started_at)
    }

    /// A permit for an ordinary call that holds a place in the [fleet's ramp](crate::fleet::RampRequest).
    pub const fn on_ramp(epoch: Epoch, place: Nonce, started_at: Timestamp) -> Self {
        Self::new(epoch, PermitKind::Placed { place }, started_at)
    }

    /// The place in the fleet's ramp that this permit holds, and the epoch it belongs to.
    #[must_use]
    pub const fn place(&self) -> Option<(Epoch, Nonce)> {
        match self.kind {
            PermitKind::Placed { place } => Some((self.epoch, place)),
            _ => None,
        }
    }

    /// A permit for a call that counts nowhere.
    pub const fn uncounted(started_at: Timestamp) -> Self {
        Self::new(Epoch(0), PermitKind::Uncounted, started_at)
    }

    /// Whether this call probes a half-open circuit.
    #[must_use]
    pub const fn is_probe(&self) -> bool {
        matches!(self.kind, PermitKind::Probe { .. })
    }

    /// When the permit was asked for.
    #[must_use]
    pub const fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// A probe's deadline. A probe still running then has failed.
    #[must_use]
    pub const fn deadline(&self) -> Option<Timestamp> {
        match self.kind {
            PermitKind::Probe { deadline, .. } => Some(deadline),
            _ => None,
        }
    }

    /// The same permit by the caller's own clock, on which it was asked for at `started_at`. How long a call takes is told
    /// by that clock, and not by one that somebody may set.
    pub fn by_own_clock(self, started_at: Timestamp) -> Self {
        let kind = match self.kind {
            PermitKind::Probe { nonce, deadline } => {
                PermitKind::Probe { nonce, deadline: started_at + deadline.since(self.started_at) }
            }
            kind => kind,
        };
        Self { kind, started_at, ..self }
    }

    /// Whether it is too late to start the call.
    #[must_use]
    pub fn is_past_deadline(&self, now: Timestamp) -> bool {
        self.deadline().is_some_and(|deadline| now >= deadline)
    }

    /// What it means that this permit was dropped at `now` without an outcome.
    ///
    /// Within `cancel_grace` of its start the caller changed its mind: nothing counts. Later it is a failure, since
    /// callers put time limits around calls, and a hanging destination would otherwise never trip.
    #[must_use]
    pub fn outcome_of_drop(&self, policy: &Policy, now: Timestamp) -> Outcome {
        let age = now.since(self.started_at);
        if age < policy.cancel_grace() { Outcome::ignored() } else { Outcome::failure(age) }
    }
}

/// No permit. It says why, and when to ask again.
///
/// It is an answer, not a mistake; it can be an error's source all the same, so that whoever finds an error at the end of
/// a chain can tell a call that was not made from one that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The circuit is open and cools off.
    #[error("the circuit is open for another {} ms", .retry_in.as_millis())]
    Open {
        /// From when on an ask may probe.
        retry_at: Timestamp,
        /// How long that is from now.
        retry_in: Duration,
    },
    /// The circuit is open in this process only: its own calls fail, and those of the other processes do not.
    #[error("the circuit is open in this process only, for another {} ms", .retry_in.as_millis())]
    OpenLocally {
        /// From when on an ask may probe. While a probe of this process is under way: when it is given up at the latest.
        retry_at: Timestamp,
        /// How long that is from now.
        retry_in: Duration,
    },
    /// Somebody else is probing. A transition, or the lease's release, may come earlier.
    #[error("the circuit is half-open and somebody else is probing")]
    Probing {
        /// When the lease ends at the latest.
        retry_at: Timestamp,
        /// How long that is from now.
        retry_in: Duration,
    },
    /// As many calls are in flight as the ramp allows. It knows no time: another call must settle first.
    #[error(
        "the circuit has just closed and lets {limit} calls at a time through, of which {in_flight} are in flight"
    )]
    Ramping {
        /// How many are in flight.
        in_flight: u32,
        /// How many may be.
        limit: u32,
    },
    /// A rule holds over what this process knows, and the fleet is being asked whether it holds over all.
    #[error("the circuit is about to open, if the fleet's counts agree")]
    TripPending,
    /// Every ask goes to the store, and whoever asked can't wait for it.
    #[error("circuits are shared strictly, and the store has to be asked: use acquire")]
    StoreRequired,
    /// The store that shares the circuit is away, and nothing is to be admitted meanwhile.
    #[error("the store is away, and on_store_loss says to refuse")]
    StoreLost,
    /// An operator forced the circuit open.
    #[error("an operator forced the circuit open")]
    ForcedOpen,
    /// The circuit is disabled until somebody enables it.
    #[error("the circuit is disabled until somebody enables it")]
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

    /// When to ask again, where that is known.
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

    /// How long that is from now.
    #[must_use]
    pub const fn retry_in(&self) -> Option<Duration> {
        match self {
            Self::Open { retry_in, .. }
            | Self::OpenLocally { retry_in, .. }
            | Self::Probing { retry_in, .. } => Some(*retry_in),
            // As `retry_at`, which names them all.
            _ => None,
        }
    }

    /// The name that reports and APIs use.
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

/// The answer to an ask.
#[derive(PartialEq, Eq, Debug)]
#[must_use = "a permit must be settled"]
pub enum Decision {
    /// Make the call, and settle the permit.
    Admitted(Permit),
    /// Do not make the call.
    Refused(Refusal),
}

impl Decision {
    /// Dry-run: every call is admitted. One that would have been refused gets a permit that counts nowhere, and the
    /// refusal is handed out to be reported.
    pub fn observe_only(self, now: Timestamp) -> (Permit, Option<Refusal>) {
        match self {
            Self::Admitted(permit) => (permit, None),
            Self::Refused(refusal) => (Permit::uncounted(now), Some(refusal)),
        }
    }
}
