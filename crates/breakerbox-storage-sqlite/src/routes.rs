//! What the writer asks about tenants and endpoints while it accepts an event. Whoever keeps them in memory answers.
//!
//! The answers may change only in [`Writing::after_commit`](super::Writing::after_commit). Then an event that is accepted
//! after an endpoint was deleted never goes there, and one that is accepted after it was created always does.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::CircuitBy;
use breakerbox_model::notifications::Notice;
use breakerbox_model::objects::{Backlog, EventType, LaneId, TenantId};

/// Finds tenants. Asked by the writer: it must not wait.
pub trait Routes: Send + Sync + 'static {
    /// A tenant, if there is one of this name.
    fn tenant(&self, tenant: &TenantId) -> Option<Arc<dyn TenantRoutes>>;

    /// Who is told of this; nobody, unless somebody says otherwise.
    fn audience(&self, notice: &Notice) -> Audience {
        let _ = notice;
        Audience::default()
    }
}

/// Who is told of a notice.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Audience {
    /// The number of the tenant whom it concerns.
    pub tenant: Option<i64>,
    /// The names of the targets, and the numbers of the tenants whose they are; none: the operator's.
    pub targets: Vec<(Arc<str>, Option<i64>)>,
}

/// What the writer needs to know of a tenant.
pub trait TenantRoutes: Send + Sync {
    /// Its number in the database.
    fn row(&self) -> i64;

    /// How much may wait.
    fn backlog(&self) -> Backlog;

    /// Who shares a circuit, for dynamic URLs.
    fn circuit_by(&self) -> CircuitBy;

    /// Who shares a circuit, for reminders.
    fn reminders_by(&self) -> CircuitBy;

    /// After how long work for a dynamic URL is given up.
    fn expires_after(&self) -> Option<Duration>;

    /// Tells each endpoint that gets events of this type, disabled ones too: their work is parked.
    fn endpoints(&self, kind: &EventType, each: &mut dyn FnMut(EndpointRoute));

    /// Prepares the answer for events of this type, if that takes long. Asked before the writer is.
    fn match_ahead(&self, kind: &EventType) {
        let _ = kind;
    }

    /// How many those are.
    fn endpoint_count(&self, kind: &EventType) -> usize {
        let mut count = 0;
        self.endpoints(kind, &mut |_| count += 1);
        count
    }

    /// Whether an endpoint with this lane is there.
    fn has_endpoint(&self, lane: LaneId) -> bool;
}

/// An endpoint that gets an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndpointRoute {
    /// Its lane.
    pub lane: LaneId,
    /// After how long its work is given up: its own value, else the tenant's.
    pub expires_after: Option<Duration>,
}
