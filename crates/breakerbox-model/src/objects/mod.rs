//! The objects that the gateway stores: tenants, endpoints, events, deliveries, attempts, API keys. They are plain
//! values, without a database.
//!
//! | part | content |
//! | --- | --- |
//! | [`Id`] and the typed ids | ids that sort by time; their prefix names the kind of object |
//! | [`Tenant`] | a client of the gateway's operator: its limits, policies and secrets |
//! | [`Endpoint`] | a destination that a tenant registered |
//! | [`NewEvent`], [`Event`] | an event as a customer submits it, and as it is stored |
//! | [`Delivery`] | one event for one endpoint |
//! | [`DeliveryFilter`] | the filter that listings and resends select deliveries with |
//! | [`Attempt`] | one HTTP request made for a delivery |
//! | [`LastAttempt`] | the result of the latest attempt of a delivery, an endpoint or a circuit |
//! | [`Reminder`], [`Run`] | a callback that is scheduled for a time, and one firing of it |
//! | [`ApiKey`] | an API key as it is stored, with its scopes |
//! | [`SigningSecrets`] | the secrets that requests are signed with, with their rotation |
//! | [`Resend`] | a background job that makes finished deliveries pending again |
//! | [`PastChange`] | a stored change of a circuit |
//! | [`PermitTerm`], [`PermitSettled`] | a permit that a worker holds, and how it was settled |
//! | [`CircuitId`] | the id of a circuit in paths: its key, encoded |
//! | [`CircuitOwner`] | the tenant and the purpose of a circuit, read from its key |
//! | [`Moment`] | a time as the API writes it |
//!
//! Times are [`Timestamp`](breakerbox_core::Timestamp)s since the Unix epoch.

mod api_key;
mod delivery;
mod delivery_filter;
mod endpoint;
mod event;
mod event_listing;
mod history;
mod permit;
mod reminder;
mod reminder_rules;
mod resend;
mod revision;
mod tenant;

pub use api_key::{ApiKey, ApiKeyText, ApiKeyTextError, KeyHash, Scope, Scopes};
pub use delivery::{Attempt, Delivery, DeliveryState, StateName};
pub use delivery_filter::DeliveryFilter;
pub use endpoint::{DisabledBecause, Endpoint, EndpointSettings};
pub use event::{Event, EventType, EventTypeError, Filter, IdempotencyKey, NewBatch, NewEvent};
pub use event_listing::{EventFilter, EventSummary};
pub use history::PastChange;
pub use permit::{PermitId, PermitSettled, PermitTerm, SettledAs};
pub use reminder::{
    Reminder, ReminderSettings, ReminderState, ReminderStateError, ReminderStateName, Run, RunId,
};
pub use reminder_rules::ReminderRules;
pub use resend::{Resend, ResendProgress, ResendState};
pub use revision::Revision;
pub use tenant::{Backlog, Tenant, TenantSettings};

pub use crate::delivery::LastAttempt;
pub use crate::values::{
    ApiKeyId, CircuitId, CircuitIdError, CircuitOwner, DeliveryId, DotsOnly, EndpointId, EventId, FailReason,
    Id, IdError, JobId, LaneId, Moment, MomentError, NotificationId, Priority, Purpose, RateLimit,
    RateLimitError, ReminderId, Secret, SecretError, ShownKey, SigningSecret, SigningSecrets, TargetId,
    TenantId, TenantIdError, TenantNumber,
};
