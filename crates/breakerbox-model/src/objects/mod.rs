//! What the gateway keeps: tenants, endpoints, events, deliveries, attempts, API keys. Plain values, without a database.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`Id`] and its kin | names that sort by time and say what they name |
//! | [`Tenant`] | a client of the gateway's owner: its limits, policies and secrets |
//! | [`Endpoint`] | a registered destination of a tenant |
//! | [`NewEvent`], [`Event`] | what a customer submits, and what is kept of it |
//! | [`Delivery`] | one event for one endpoint |
//! | [`DeliveryFilter`] | which deliveries a listing shows, or a resend is for |
//! | [`Attempt`] | one request of a delivery |
//! | [`Reminder`], [`Run`] | a callback that is scheduled for a time, and one firing of it |
//! | [`ApiKey`] | who may do what |
//! | [`SigningSecrets`] | what requests are signed with, during a rotation too |
//! | [`Resend`] | a background job that makes finished deliveries wait again |
//! | [`PastChange`] | what happened to a circuit |
//! | [`PermitTerm`], [`PermitSettled`] | a permit that a worker holds, and how it was settled |
//! | [`CircuitId`] | the id of a circuit in paths: its key, encoded |
//! | [`CircuitOwner`] | whose circuit a key names, and for what |
//! | [`Moment`] | a time as people read it |
//!
//! Times are [`Timestamp`](breakerbox_core::Timestamp)s since the Unix epoch.

mod api_key;
mod circuit_id;
mod circuit_owner;
mod delivery;
mod delivery_filter;
mod endpoint;
mod event;
mod history;
mod id;
mod moment;
mod permit;
mod priority;
mod reminder;
mod reminder_rules;
mod resend;
mod revision;
mod secret;
mod shown_key;
mod tenant;

pub use api_key::{ApiKey, ApiKeyText, ApiKeyTextError, KeyHash, Scope, Scopes};
pub use circuit_id::{CircuitId, CircuitIdError};
pub use circuit_owner::{CircuitOwner, Purpose};
pub use delivery::{Attempt, Delivery, DeliveryState, FailReason, StateName};
pub use delivery_filter::DeliveryFilter;
pub use endpoint::{DisabledBecause, Endpoint, EndpointSettings};
pub use event::{Event, EventType, EventTypeError, Filter, IdempotencyKey, NewBatch, NewEvent};
pub use history::PastChange;
pub use id::{
    ApiKeyId, DeliveryId, EndpointId, EventId, Id, IdError, JobId, LaneId, NoticeId, ReminderId, TargetId,
};
pub use moment::{Moment, MomentError};
pub use permit::{PermitId, PermitSettled, PermitTerm, SettledAs};
pub use priority::Priority;
pub use reminder::{
    Reminder, ReminderSettings, ReminderState, ReminderStateError, ReminderStateName, Run, RunId,
};
pub use reminder_rules::ReminderRules;
pub use resend::{Resend, ResendProgress, ResendState};
pub use revision::Revision;
pub use secret::{Secret, SecretError, SigningSecret, SigningSecrets};
pub use shown_key::ShownKey;
pub use tenant::{
    Backlog, DotsOnly, RateLimit, RateLimitError, Tenant, TenantId, TenantIdError, TenantNumber,
    TenantSettings,
};
