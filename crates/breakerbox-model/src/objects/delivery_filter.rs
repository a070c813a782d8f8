//! The filter that listings and resends select deliveries with.

use breakerbox_core::Timestamp;

use super::{EndpointId, EventId, EventType, StateName, TenantId};

/// A filter for deliveries. A delivery must match all fields that are set.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DeliveryFilter {
    /// Matches only deliveries of this tenant.
    pub tenant: Option<TenantId>,
    /// Matches only deliveries to this endpoint.
    pub endpoint: Option<EndpointId>,
    /// Matches only deliveries of this event.
    pub event: Option<EventId>,
    /// Matches only deliveries of events with this type.
    pub kind: Option<EventType>,
    /// Matches only deliveries in this state.
    pub state: Option<StateName>,
    /// Matches only deliveries created at this time or later.
    pub from: Option<Timestamp>,
    /// Matches only deliveries created before this time.
    pub until: Option<Timestamp>,
}
