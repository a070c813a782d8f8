//! Events in listings: the filter that selects them, and an event without its payload.

use std::sync::Arc;

use breakerbox_core::Timestamp;

use super::{EventId, EventType, Priority, TenantId};

/// A filter for events. An event must match all fields that are set.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EventFilter {
    /// Matches only events of this tenant.
    pub tenant: Option<TenantId>,
    /// Matches only events of this type.
    pub kind: Option<EventType>,
    /// Matches only events accepted at this time or later.
    pub from: Option<Timestamp>,
    /// Matches only events accepted before this time.
    pub until: Option<Timestamp>,
}

/// An event without its payload.
#[derive(Clone, PartialEq, Debug)]
pub struct EventSummary {
    /// The event's id, `evt_...`.
    pub id: EventId,
    /// The name of the tenant that the event belongs to.
    pub tenant: TenantId,
    /// The event's type, such as `invoice.paid`.
    pub kind: EventType,
    /// The media type of the payload, such as `application/json`.
    pub content_type: Arc<str>,
    /// The size of the payload, in bytes.
    pub payload_bytes: u64,
    /// The priority within the tenant.
    pub priority: Priority,
    /// The dynamic URL that the event is sent to. `None`: it is sent to the tenant's endpoints.
    pub url: Option<Arc<str>>,
    /// When the gateway accepted the event.
    pub accepted_at: Timestamp,
    /// The number of deliveries created from the event.
    pub deliveries: u32,
}
