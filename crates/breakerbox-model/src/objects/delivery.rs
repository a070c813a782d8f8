//! Deliveries and their attempts, as they are shown.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;
use bytes::Bytes;

use super::{DeliveryId, EndpointId, EventId, EventType, Priority, RunId, TenantId, TenantNumber};
use crate::delivery::Fault;

/// One event for one endpoint.
#[derive(Clone, PartialEq, Debug)]
pub struct Delivery {
    /// Its name.
    pub id: DeliveryId,
    /// Whose.
    pub tenant: TenantId,
    /// The same, where another tenant may have taken the name since.
    pub owner: TenantNumber,
    /// What.
    pub event: EventId,
    /// What kind.
    pub kind: EventType,
    /// Where to; none for a dynamic URL.
    pub endpoint: Option<EndpointId>,
    /// The dynamic URL.
    pub url: Option<Arc<str>>,
    /// Which run of which reminder it is, if it is one.
    pub run: Option<RunId>,
    /// How important.
    pub priority: Priority,
    /// What has become of it.
    pub state: DeliveryState,
    /// Attempts that were used up.
    pub attempts: u32,
    /// While it waits: not before this.
    pub due_at: Option<Timestamp>,
    /// While it waits: given up then.
    pub expires_at: Option<Timestamp>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it was delivered, failed or cancelled.
    pub finished_at: Option<Timestamp>,
}

/// What has become of a delivery. Parked is none of these: it follows from the lane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeliveryState {
    /// Not tried yet.
    Pending,
    /// A request is on its way.
    InFlight,
    /// Tried, and to be tried again.
    Retrying,
    /// The receiver has it.
    Delivered,
    /// Given up: a dead letter.
    Failed(FailReason),
    /// Its endpoint was deleted, or its owner said so.
    Cancelled,
}

impl DeliveryState {
    /// Its name, without the reason.
    #[must_use]
    pub const fn name(self) -> StateName {
        match self {
            Self::Pending => StateName::Pending,
            Self::InFlight => StateName::InFlight,
            Self::Retrying => StateName::Retrying,
            Self::Delivered => StateName::Delivered,
            Self::Failed(_) => StateName::Failed,
            Self::Cancelled => StateName::Cancelled,
        }
    }

    /// Whether nothing more happens to it unless somebody resends it.
    #[must_use]
    pub const fn is_finished(self) -> bool {
        matches!(self, Self::Delivered | Self::Failed(_) | Self::Cancelled)
    }
}

/// A state without its reason, as people ask for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StateName {
    /// Not tried yet.
    Pending,
    /// A request is on its way.
    InFlight,
    /// Tried, and to be tried again.
    Retrying,
    /// The receiver has it.
    Delivered,
    /// Given up.
    Failed,
    /// Called off.
    Cancelled,
}

impl StateName {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::InFlight, Self::Retrying, Self::Delivered, Self::Failed, Self::Cancelled];

    /// The text, in the API, the database and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InFlight => "in_flight",
            Self::Retrying => "retrying",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// It is none of the states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be pending, in_flight, retrying, delivered, failed or cancelled")]
pub struct UnknownState;

impl FromStr for StateName {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, UnknownState> {
        Self::ALL.into_iter().find(|state| state.name() == text).ok_or(UnknownState)
    }
}

/// Why a delivery was given up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FailReason {
    /// The receiver refuses this payload.
    Rejected,
    /// All attempts were used up.
    Exhausted,
    /// The endpoint said that it is gone.
    Gone,
    /// It waited for too long.
    Expired,
    /// The stored delivery can't be read.
    Unreadable,
}

/// One request of a delivery.
#[derive(Clone, PartialEq, Debug)]
pub struct Attempt {
    /// When it began.
    pub started_at: Timestamp,
    /// How long it took.
    pub latency: Duration,
    /// The status that was answered.
    pub status: Option<u16>,
    /// Why there was no answer.
    pub fault: Option<Fault>,
    /// More about the fault, for people.
    pub detail: Option<String>,
    /// The first bytes of the answer.
    pub response: Bytes,
    /// Whether it probed a circuit.
    pub probe: bool,
}
