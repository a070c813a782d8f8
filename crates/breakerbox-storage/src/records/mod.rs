//! Records: everything that the gateway stores and that is not on the queue's hot path, as the API shows and changes
//! it.
//!
//! | part | operations |
//! | --- | --- |
//! | [`Tenants`], [`Endpoints`] | create, show, list, change, delete; secrets and their rotation |
//! | [`ApiKeys`] | create, list, revoke |
//! | [`LaneBacklogs`] | the unfinished deliveries of lanes |
//! | [`Deliveries`] | events, deliveries and attempts: show, list by filter, cancel, resend one |
//! | [`Reminders`] | create, show, list, change, pause, resume, cancel, run now; their runs |
//! | [`Resends`] | resend by filter, as a background job |
//! | [`Requests`] | operations that create objects, at most once for an idempotency key |
//! | [`History`] | the history of circuits |
//! | [`Notifications`] | notifications and their results |
//! | [`SettledPermits`] | the decision API's settled permits; not part of `Records`, since the API does not list them |
//! | [`Records`] | all of the above except the settled permits |
//! | [`Page`], [`PageOf`], [`Cursor`] | pagination |
//! | [`cursors`] | the text of cursors, for backends |
//!
//! **Durability.** The same as for the queue: when a method returns `Ok`, its effect survives a power cut.
//!
//! **Visibility.** A listing reads committed data. The [`Directory`](super::Directory), which deliveries use, changes
//! right after the commit and before the method returns. So after an endpoint was created, changed or deleted, all
//! events that are accepted and all attempts that begin after the method has returned take the endpoint into account.
//!
//! **Cost.** The cost of a page does not depend on the amount of stored data. If a filter matches few of many rows, a
//! page may be short or empty without being the last: it reads a bounded number of rows, and its cursor continues
//! from there.
//!
//! Records neither decide what happens to a delivery nor check permissions; the API does.

mod api_keys;
pub mod cursors;
mod deliveries;
mod edit;
mod endpoints;
mod history;
mod lanes;
mod notifications;
mod page;
mod permits;
mod reminders;
mod requests;
mod resends;
mod tenants;

pub use api_keys::{ApiKeys, NewApiKey};
pub use deliveries::{Deliveries, UnfinishedWork};
pub use edit::{Edit, Refused};
pub use endpoints::{Deleted, Endpoints, NewEndpoint};
pub use history::{ChangeFilter, History, ObservedChange};
pub use lanes::{LaneBacklog, LaneBacklogs, NextDelivery};
pub use notifications::{
    Failed, NotificationFilter, Notifications, PastNotification, PastSend, SendResult, SendState,
    WaitingNotification, WaitingTarget,
};
pub use page::{Cursor, MAX_PAGE, Page, PageOf};
pub use permits::{PermitClaim, SettledPermits};
pub use reminders::{NewReminder, ReminderChange, ReminderFilter, Reminders};
pub use requests::{Request, RequestResponse, RequestResult, Requests};
pub use resends::{NewResend, Resends};
pub use tenants::{NewTenant, TenantBacklog, Tenants};

use breakerbox_model::objects::{DeliveryId, EndpointId, ReminderId, ReminderStateName, StateName, TenantId};

use super::QueueError;

/// All records: everything that the gateway stores, except the queue and the settled permits.
pub trait Records:
    Tenants
    + Endpoints
    + ApiKeys
    + LaneBacklogs
    + Deliveries
    + Reminders
    + Resends
    + Requests
    + History
    + Notifications
{
}

impl<R> Records for R where
    R: Tenants
        + Endpoints
        + ApiKeys
        + LaneBacklogs
        + Deliveries
        + Reminders
        + Resends
        + Requests
        + History
        + Notifications
{
}

/// Why an operation on records was rejected or failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The object does not exist.
    #[error("there is no {what} {name}")]
    Missing {
        /// The kind of object, as one word such as `tenant`.
        what: &'static str,
        /// The id or name of the object.
        name: String,
    },
    /// The object already exists.
    #[error("the {what} {name} already exists")]
    Exists {
        /// The kind of object, as one word such as `tenant`.
        what: &'static str,
        /// The id or name of the object.
        name: String,
    },
    /// The stored object can't be read.
    #[error("the stored {what} {name} can't be read: a newer version wrote it, or the file is damaged")]
    Unreadable {
        /// The kind of object, as one word such as `tenant`.
        what: &'static str,
        /// The id or name of the object.
        name: String,
    },
    /// Another client has changed the object, so its revision does not match.
    #[error("another client changed the {what} {name}; read it again")]
    Changed {
        /// The kind of object, as one word such as `tenant`.
        what: &'static str,
        /// The id or name of the object.
        name: String,
    },
    /// The idempotency key was used with a different request.
    #[error("this idempotency key was used for another request within the last 24 hours")]
    KeyReused,
    /// The request was already carried out, and its response contained a secret, which is not stored.
    #[error(
        "an earlier request with this key created {id}; its response contained a secret and was not stored"
    )]
    AlreadyCreated {
        /// The id of the object that the first request created.
        id: String,
    },
    /// An [`Edit`] rejected the stored value.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The tenant still has endpoints, or unfinished work.
    #[error(
        "the tenant {0} still has endpoints, reminders or waiting deliveries; delete the endpoints, cancel the reminders and \
         wait or cancel first"
    )]
    InUse(TenantId),
    /// The delivery's state does not allow the operation.
    #[error("the delivery {id} is {state}; it can't be {verb}")]
    State {
        /// The id of the delivery in question.
        id: DeliveryId,
        /// The delivery's current state.
        state: StateName,
        /// The operation, as a participle: `cancelled` or `resent`.
        verb: &'static str,
    },
    /// The reminder's state does not allow the operation.
    #[error("the reminder {id} is {state}; it can't be {verb}")]
    ReminderState {
        /// The id of the reminder in question.
        id: ReminderId,
        /// The reminder's current state.
        state: ReminderStateName,
        /// The operation, as a participle, such as `paused`.
        verb: &'static str,
    },
    /// The tenant has the maximum number of endpoints.
    #[error("{tenant} has reached the limit of {limit} endpoints; delete some, or raise limits.endpoints")]
    EndpointsFull {
        /// The name of the tenant at its limit.
        tenant: TenantId,
        /// The maximum number of endpoints.
        limit: u32,
    },
    /// The tenant has reached its limit on reminders or on their payload bytes.
    #[error(
        "{tenant} has reached its limit with {count} reminders and {bytes} bytes of payload; cancel some, or raise the limit"
    )]
    RemindersFull {
        /// The name of the tenant at its limit.
        tenant: TenantId,
        /// The number of unfinished reminders.
        count: u64,
        /// The payload bytes of the unfinished reminders.
        bytes: u64,
    },
    /// One of several items was rejected, so none was accepted.
    #[error("number {index}: {error}")]
    OneOf {
        /// The index of the rejected item; the first is 0.
        index: usize,
        /// Why the item was rejected.
        error: Box<RecordsError>,
    },
    /// The disk is nearly full. The remaining space is reserved for settlements.
    #[error("the disk is nearly full: {free} bytes are free, {reserve} are reserved")]
    DiskReserve {
        /// The number of free bytes on the disk.
        free: u64,
        /// The number of reserved bytes.
        reserve: u64,
    },
    /// The tenant has reached its backlog limit.
    #[error("the backlog of {tenant} is full: {waiting} deliveries of {bytes} bytes wait")]
    BacklogFull {
        /// The name of the tenant at its limit.
        tenant: TenantId,
        /// The number of waiting deliveries.
        waiting: u64,
        /// The payload bytes of the waiting deliveries.
        bytes: u64,
    },
    /// The pagination cursor is invalid.
    #[error("cursor: must be the `next` of an earlier page of this listing")]
    Cursor,
    /// The policy is invalid in combination with the layers below it. The message names the field.
    #[error("policy: {0}")]
    Policy(String),
    /// The tenant's policy is valid by itself, but not in combination with an endpoint's policy.
    #[error("policy: {why}; together with the policy of the endpoint {endpoint}: change that policy first")]
    EndpointPolicy {
        /// The endpoint whose policy conflicts.
        endpoint: EndpointId,
        /// The error message, which names the invalid field.
        why: String,
    },
    /// The tenant's reminder policy is invalid in combination with the layers below it. The message names the field.
    #[error("reminders.policy: {0}")]
    ReminderPolicy(String),
    /// The URL is not a valid destination.
    #[error(transparent)]
    Url(#[from] breakerbox_core::KeyError),
    /// The database failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl RecordsError {
    /// Creates [`Missing`](Self::Missing), for a backend that found no row. `what` is one word, such as `tenant`.
    pub fn missing(what: &'static str, name: impl ToString) -> Self {
        Self::Missing { what, name: name.to_string() }
    }
}
