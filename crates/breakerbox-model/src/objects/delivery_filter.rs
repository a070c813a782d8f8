//! Which deliveries a listing shows, or a resend is for.

use breakerbox_core::Timestamp;

use super::{EndpointId, EventId, EventType, StateName, TenantId};

/// Which deliveries. All that is said must hold.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DeliveryFilter {
    /// Of this tenant.
    pub tenant: Option<TenantId>,
    /// To this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Of this event.
    pub event: Option<EventId>,
    /// Of this type.
    pub kind: Option<EventType>,
    /// In this state.
    pub state: Option<StateName>,
    /// Created then or later.
    pub from: Option<Timestamp>,
    /// Created before then.
    pub until: Option<Timestamp>,
}
