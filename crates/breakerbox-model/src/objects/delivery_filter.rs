//! A filter for deliveries, for listings and resends.

use breakerbox_core::Timestamp;

use super::{EndpointId, EventId, EventType, StateName, TenantId};

/// A filter for deliveries. A delivery must match all fields that are set.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DeliveryFilter {
    /// Deliveries of this tenant.
    pub tenant: Option<TenantId>,
    /// Deliveries to this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Deliveries of this event.
    pub event: Option<EventId>,
    /// Deliveries of events of this type.
    pub kind: Option<EventType>,
    /// Deliveries in this state.
    pub state: Option<StateName>,
    /// Deliveries created at this time or later.
    pub from: Option<Timestamp>,
    /// Deliveries created before this time.
    pub until: Option<Timestamp>,
}
