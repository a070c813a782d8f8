//! The directory as the writer sees it while it accepts an event.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::CircuitBy;

use crate::objects::{Backlog, EventType, TenantId};
use crate::queue::sqlite::{EndpointRoute, Routes, TenantRoutes};
use crate::queue::{Directory, Household};

impl Routes for Directory {
    fn tenant(&self, tenant: &TenantId) -> Option<Arc<dyn TenantRoutes>> {
        let household: Arc<Household> = self.household(tenant)?;
        Some(household)
    }
}

impl TenantRoutes for Household {
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
}
