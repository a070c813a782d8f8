//! The writer's view of tenants and endpoints while it accepts an event. The directory implements it from memory.
//!
//! The results may change only in [`WriteTransaction::after_commit`](super::WriteTransaction::after_commit). Then an event that is
//! accepted after an endpoint was deleted is never sent there, and one that is accepted after it was created always is.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::CircuitBy;
use breakerbox_model::notifications::Notification;
use breakerbox_model::objects::{Backlog, EventType, LaneId, TenantId};

/// Finds tenants. The writer calls it: it must not block.
pub trait Routes: Send + Sync + 'static {
    /// Returns the tenant of this name, if it exists.
    fn tenant(&self, tenant: &TenantId) -> Option<Arc<dyn TenantRoutes>>;

    /// Returns the targets of a notification. The default is none.
    fn audience(&self, notification: &Notification) -> Audience {
        let _ = notification;
        Audience::default()
    }
}

/// The targets of a notification.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Audience {
    /// The number of the tenant that it concerns. `None`: only the operator.
    pub tenant: Option<i64>,
    /// The names of the targets, and the numbers of their tenants; `None`: the operator's.
    pub targets: Vec<(Arc<str>, Option<i64>)>,
}

/// The settings of a tenant that the writer needs.
pub trait TenantRoutes: Send + Sync {
    /// Returns the number of the tenant in the database.
    fn row(&self) -> i64;

    /// Returns the maximum backlog.
    fn backlog(&self) -> Backlog;

    /// Returns which destinations share a circuit, for dynamic URLs.
    fn circuit_by(&self) -> CircuitBy;

    /// Returns which URLs share a circuit, for reminders.
    fn reminders_by(&self) -> CircuitBy;

    /// Returns how long a delivery to a dynamic URL may wait before it expires. `None`: it never expires.
    fn expires_after(&self) -> Option<Duration>;

    /// Calls `each` for every endpoint that receives events of this type, including disabled ones: their deliveries are
    /// parked.
    fn endpoints(&self, kind: &EventType, each: &mut dyn FnMut(EndpointRoute));

    /// Computes the match for events of this type ahead, if that takes long. Called before the writer runs.
    fn match_ahead(&self, kind: &EventType) {
        let _ = kind;
    }

    /// Returns the number of those endpoints.
    fn endpoint_count(&self, kind: &EventType) -> usize {
        let mut count = 0;
        self.endpoints(kind, &mut |_| count += 1);
        count
    }

    /// Returns whether an endpoint with this lane exists.
    fn has_endpoint(&self, lane: LaneId) -> bool;
}

/// An endpoint that receives an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndpointRoute {
    /// The lane of the endpoint.
    pub lane: LaneId,
    /// How long its deliveries may wait before they expire: its own value, else the tenant's.
    pub expires_after: Option<Duration>,
}
