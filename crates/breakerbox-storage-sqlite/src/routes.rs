//! The writer's view of tenants and endpoints while it accepts events. The directory implements it in memory.
//!
//! The results may change only in [`WriteTransaction::after_commit`](super::WriteTransaction::after_commit). So an
//! event accepted after an endpoint was deleted is never sent to it, and an event accepted after the endpoint was
//! created always is.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::CircuitBy;
use breakerbox_model::notifications::Notification;
use breakerbox_model::objects::{Backlog, EventType, LaneId, TenantId};

/// Looks up tenants and notification targets. The writer calls these methods, so they must not block.
pub trait Routes: Send + Sync + 'static {
    /// Returns the tenant with this name, if it exists.
    fn tenant(&self, tenant: &TenantId) -> Option<Arc<dyn TenantRoutes>>;

    /// Returns the targets that a notification is sent to. The default implementation returns none.
    fn audience(&self, notification: &Notification) -> Audience {
        let _ = notification;
        Audience::default()
    }
}

/// The targets of a notification.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Audience {
    /// The number of the tenant that the notification concerns. `None`: it concerns only the operator.
    pub tenant: Option<i64>,
    /// The targets' names, each with its tenant's number, or with `None` if the target is the operator's.
    pub targets: Vec<(Arc<str>, Option<i64>)>,
}

/// The parts of a tenant's settings that the writer needs.
pub trait TenantRoutes: Send + Sync {
    /// Returns the tenant's number in the database.
    fn row(&self) -> i64;

    /// Returns the maximum backlog of waiting deliveries.
    fn backlog(&self) -> Backlog;

    /// Returns which of the tenant's dynamic URLs share a circuit.
    fn circuit_by(&self) -> CircuitBy;

    /// Returns which of the tenant's reminder URLs share a circuit.
    fn reminders_by(&self) -> CircuitBy;

    /// Returns the maximum time that a delivery to a dynamic URL may wait before it expires. `None`: deliveries never
    /// expire.
    fn expires_after(&self) -> Option<Duration>;

    /// Calls `each` for every endpoint that receives events of this type, including disabled ones, whose deliveries
    /// are parked.
    fn endpoints(&self, kind: &EventType, each: &mut dyn FnMut(EndpointRoute));

    /// Computes the endpoints for events of this type in advance, if that is slow. It is called before the
    /// events are passed to the writer.
    fn match_ahead(&self, kind: &EventType) {
        let _ = kind;
    }

    /// Returns the number of endpoints that receive events of this type.
    fn endpoint_count(&self, kind: &EventType) -> usize {
        let mut count = 0;
        self.endpoints(kind, &mut |_| count += 1);
        count
    }

    /// Returns whether the endpoint with this lane exists.
    fn has_endpoint(&self, lane: LaneId) -> bool;
}

/// An endpoint that receives an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndpointRoute {
    /// The endpoint's lane.
    pub lane: LaneId,
    /// The maximum time that the endpoint's deliveries may wait before they expire: its own setting, or else the
    /// tenant's.
    pub expires_after: Option<Duration>,
}
