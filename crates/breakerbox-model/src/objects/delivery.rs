//! Deliveries and their attempts, as the API shows them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;
use bytes::Bytes;

use super::{
    DeliveryId, EndpointId, EventId, EventType, FailReason, LaneId, Priority, RunId, TenantId, TenantNumber,
};
use crate::delivery::{Fault, LastAttempt};

/// The delivery of one event to one endpoint or dynamic URL.
#[derive(Clone, PartialEq, Debug)]
pub struct Delivery {
    /// The delivery's id, `dlv_...`.
    pub id: DeliveryId,
    /// The name of the tenant that the delivery belongs to.
    pub tenant: TenantId,
    /// The owning tenant's number. A deleted tenant's name may be reused, but its number never is.
    pub owner: TenantNumber,
    /// The event that is delivered.
    pub event: EventId,
    /// The event's type, such as `invoice.paid`.
    pub kind: EventType,
    /// The lane in which the delivery waits.
    pub lane: LaneId,
    /// The endpoint that the delivery goes to. `None` for a dynamic URL.
    pub endpoint: Option<EndpointId>,
    /// The dynamic URL. `None` if the delivery goes to an endpoint.
    pub url: Option<Arc<str>>,
    /// The reminder run that created this delivery. `None` for an event that a customer submitted.
    pub run: Option<RunId>,
    /// The priority within the tenant. Higher priorities are sent first.
    pub priority: Priority,
    /// The delivery's current state.
    pub state: DeliveryState,
    /// The number of attempts used so far.
    pub attempts: u32,
    /// The latest attempt. `None`: no attempt was made yet.
    pub last_attempt: Option<LastAttempt>,
    /// The earliest time of the next attempt, or of the attempt in flight. `None`: the delivery is finished.
    pub due_at: Option<Timestamp>,
    /// The time at which the delivery fails as expired if it still waits. `None`: it is finished, or does not expire.
    pub expires_at: Option<Timestamp>,
    /// When the gateway accepted the event or fired the reminder run.
    pub created_at: Timestamp,
    /// When the delivery was delivered, failed or cancelled. `None`: it is not finished.
    pub finished_at: Option<Timestamp>,
}

/// The state of a delivery. Parked is not a state, because whether a delivery is parked depends on its lane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeliveryState {
    /// No attempt has been made yet.
    Pending,
    /// A request is in flight.
    InFlight,
    /// An attempt failed, and another one will follow.
    Retrying,
    /// The receiver accepted the delivery.
    Delivered,
    /// No attempts follow: the delivery is a dead letter.
    Failed(FailReason),
    /// The endpoint was deleted, or the tenant cancelled the delivery.
    Cancelled,
}

impl DeliveryState {
    /// Returns the name of the state, without the failure reason.
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

    /// Returns whether the state is final. Only a resend changes a final state.
    #[must_use]
    pub const fn is_finished(self) -> bool {
        matches!(self, Self::Delivered | Self::Failed(_) | Self::Cancelled)
    }
}

/// A delivery state without its failure reason, as used in filters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StateName {
    /// No attempt has been made yet.
    Pending,
    /// A request is in flight.
    InFlight,
    /// An attempt failed, and another one will follow.
    Retrying,
    /// The receiver accepted the delivery.
    Delivered,
    /// No attempts follow: the delivery is a dead letter.
    Failed,
    /// The endpoint was deleted, or the tenant cancelled the delivery.
    Cancelled,
}

impl StateName {
    /// All states, in the order of a delivery's life cycle.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::InFlight, Self::Retrying, Self::Delivered, Self::Failed, Self::Cancelled];

    /// Returns the name used in the API, the database and metrics.
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

/// The string is not the name of a delivery state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be pending, in_flight, retrying, delivered, failed or cancelled")]
pub struct UnknownState;

impl FromStr for StateName {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, UnknownState> {
        Self::ALL.into_iter().find(|state| state.name() == text).ok_or(UnknownState)
    }
}

/// One HTTP request made for a delivery.
#[derive(Clone, PartialEq, Debug)]
pub struct Attempt {
    /// When the request began.
    pub started_at: Timestamp,
    /// The time from the start of the request to its end.
    pub latency: Duration,
    /// The response's HTTP status. `None`: there was no response.
    pub status: Option<u16>,
    /// Why there was no response. `None`: there was a response.
    pub fault: Option<Fault>,
    /// Human-readable details of the fault, if any.
    pub detail: Option<String>,
    /// The first bytes of the response body.
    pub response: Bytes,
    /// Whether the attempt probed a half-open circuit.
    pub probe: bool,
}

impl From<&Attempt> for LastAttempt {
    fn from(attempt: &Attempt) -> Self {
        Self {
            started_at: attempt.started_at,
            status: attempt.status,
            fault: attempt.fault,
            detail: attempt.detail.as_deref().map(Arc::from),
        }
    }
}
