//! Deliveries and their attempts, as the API shows them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;
use bytes::Bytes;

use super::{
    DeliveryId, EndpointId, EventId, EventType, FailReason, Priority, RunId, TenantId, TenantNumber,
};
use crate::delivery::Fault;

/// One event for one endpoint.
#[derive(Clone, PartialEq, Debug)]
pub struct Delivery {
    /// The id of the delivery.
    pub id: DeliveryId,
    /// The name of the tenant that the delivery belongs to.
    pub tenant: TenantId,
    /// The number of that tenant. After a tenant is deleted, another one may have its name, but never its number.
    pub owner: TenantNumber,
    /// The event that is delivered.
    pub event: EventId,
    /// The type of the event.
    pub kind: EventType,
    /// The destination. `None` for a dynamic URL.
    pub endpoint: Option<EndpointId>,
    /// The dynamic URL. `None` if the delivery goes to an endpoint.
    pub url: Option<Arc<str>>,
    /// The run of a reminder that this delivery stands for. `None` for an event that a customer submitted.
    pub run: Option<RunId>,
    /// The priority within the tenant.
    pub priority: Priority,
    /// The present state.
    pub state: DeliveryState,
    /// The number of attempts that were used up.
    pub attempts: u32,
    /// While the delivery waits: the earliest time of the next attempt.
    pub due_at: Option<Timestamp>,
    /// While the delivery waits: the time at which it fails as expired. `None`: it does not expire.
    pub expires_at: Option<Timestamp>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When the delivery was delivered, failed or cancelled.
    pub finished_at: Option<Timestamp>,
}

/// The state of a delivery. Parked is not a state: it follows from the lane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeliveryState {
    /// Not tried yet.
    Pending,
    /// A request is in flight.
    InFlight,
    /// An attempt failed, and another one follows.
    Retrying,
    /// The receiver accepted the delivery.
    Delivered,
    /// No more attempts: the delivery is a dead letter.
    Failed(FailReason),
    /// The endpoint was deleted, or the tenant cancelled the delivery.
    Cancelled,
}

impl DeliveryState {
    /// Returns the name of the state, without the reason.
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

    /// Returns whether the delivery stays in this state unless it is resent.
    #[must_use]
    pub const fn is_finished(self) -> bool {
        matches!(self, Self::Delivered | Self::Failed(_) | Self::Cancelled)
    }
}

/// The name of a state, without the reason, as filters use it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StateName {
    /// Not tried yet.
    Pending,
    /// A request is in flight.
    InFlight,
    /// An attempt failed, and another one follows.
    Retrying,
    /// The receiver accepted the delivery.
    Delivered,
    /// No more attempts: the delivery is a dead letter.
    Failed,
    /// The endpoint was deleted, or the tenant cancelled the delivery.
    Cancelled,
}

impl StateName {
    /// All states.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::InFlight, Self::Retrying, Self::Delivered, Self::Failed, Self::Cancelled];

    /// Returns the name as it is written in the API, the database and metrics.
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

/// The text is not the name of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be pending, in_flight, retrying, delivered, failed or cancelled")]
pub struct UnknownState;

impl FromStr for StateName {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, UnknownState> {
        Self::ALL.into_iter().find(|state| state.name() == text).ok_or(UnknownState)
    }
}

/// One HTTP request of a delivery.
#[derive(Clone, PartialEq, Debug)]
pub struct Attempt {
    /// When the request began.
    pub started_at: Timestamp,
    /// How long the request took.
    pub latency: Duration,
    /// The status of the response. `None`: there was no response.
    pub status: Option<u16>,
    /// Why there was no response. `None`: there was one.
    pub fault: Option<Fault>,
    /// Details of the fault, for people.
    pub detail: Option<String>,
    /// The first bytes of the response body.
    pub response: Bytes,
    /// Whether the attempt was a probe of a circuit.
    pub probe: bool,
}
