//! The writer's view of the directory while it accepts events.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::CircuitBy;
use breakerbox_model::notifications::Notification;
use breakerbox_model::objects::{Backlog, EndpointId, EventType, LaneId, TenantId};
use breakerbox_storage::{Directory, TenantEndpoints};

use crate::{Audience, EndpointRoute, Routes, TenantRoutes};

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
