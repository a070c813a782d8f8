//! A backend's view of tenants and endpoints while it accepts events. The directory implements it in memory.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::CircuitBy;
use breakerbox_model::notifications::Notification;
use breakerbox_model::objects::{Backlog, EndpointId, EventType, LaneId, TenantId};

use crate::directory::{Directory, TenantEndpoints};

/// Looks up tenants and notification targets. Backends call these methods, so they must not block.
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

/// The parts of a tenant's settings that a backend needs.
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
    /// events are written.
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

impl Routes for Directory {
    fn tenant(&self, tenant: &TenantId) -> Option<Arc<dyn TenantRoutes>> {
        let tenant_endpoints: Arc<TenantEndpoints> = self.tenant_endpoints(tenant)?;
        Some(tenant_endpoints)
    }

    fn audience(&self, notification: &Notification) -> Audience {
        let entry = notification.tenant.as_ref().and_then(|id| Self::tenant(self, id));
        let row = entry.as_ref().map(|entry| entry.row);
        let kind = notification.kind();
        let own = entry.as_ref().filter(|_| !kind.is_operators());
        let own = own
            .into_iter()
            .flat_map(|entry| entry.source.settings.notification_targets.iter().map(|one| (one, row)));
        let all = self.defaults().notification_targets.iter().map(|one| (one, None)).chain(own);
        let told = all.filter(|(target, _)| target.on.has(kind));
        Audience { tenant: row, targets: told.map(|(target, row)| (Arc::clone(&target.name), row)).collect() }
    }
}

impl TenantRoutes for TenantEndpoints {
    fn row(&self) -> i64 {
        self.tenant().row
    }

    fn backlog(&self) -> Backlog {
        self.tenant().backlog
    }

    fn circuit_by(&self) -> CircuitBy {
        self.tenant().circuit_by
    }

    fn reminders_by(&self) -> CircuitBy {
        self.tenant().reminders.circuit_by
    }

    fn expires_after(&self) -> Option<Duration> {
        self.tenant().expires_after
    }

    fn endpoints(&self, kind: &EventType, each: &mut dyn FnMut(EndpointRoute)) {
        for endpoint in self.for_type(kind).iter() {
            each(EndpointRoute { lane: endpoint.lane(), expires_after: endpoint.expires_after });
        }
    }

    fn match_ahead(&self, kind: &EventType) {
        Self::match_ahead(self, kind);
    }

    fn endpoint_count(&self, kind: &EventType) -> usize {
        self.for_type(kind).len()
    }

    fn has_endpoint(&self, lane: LaneId) -> bool {
        self.has(EndpointId(lane.0))
    }
}
