//! The filter that listings and resends select deliveries with.

use breakerbox_core::Timestamp;

use super::{EndpointId, EventId, EventType, StateName, TenantId};

/// A filter for deliveries. A delivery must match all fields that are set.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DeliveryFilter {
    /// Only deliveries of this tenant.
    pub tenant: Option<TenantId>,
    /// Only deliveries to this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Only deliveries of this event.
    pub event: Option<EventId>,
    /// Only deliveries of events with this type.
    pub kind: Option<EventType>,
    /// Only deliveries in this state.
    pub state: Option<StateName>,
    /// Only deliveries created at this time or later.
    pub from: Option<Timestamp>,
    /// Only deliveries created before this time.
    pub until: Option<Timestamp>,
}
