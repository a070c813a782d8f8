//! Records: everything that the gateway stores besides the hot queue, as the API shows and changes it.
//!
//! | part | operations |
//! | --- | --- |
//! | [`Tenants`], [`Endpoints`] | create, show, list, change, delete; secrets and their rotation |
//! | [`ApiKeys`] | create, list, revoke |
//! | [`Deliveries`] | events, deliveries and attempts: show, list by filter, cancel, resend one |
//! | [`Reminders`] | create, show, list, change, pause, resume, cancel, run now; their runs |
//! | [`Resends`] | resend by filter, as a background job |
//! | [`Requests`] | everything that creates something, at most once for an idempotency key |
//! | [`History`] | the history of circuits |
//! | [`Notifications`] | notifications and their results |
//! | [`SettledPermits`] | the settled permits of the decision API; not part of `Records`, since the API does not list them |
//! | [`Records`] | all of the above but the settled permits |
//! | [`Page`], [`PageOf`], [`Cursor`] | pagination |
//!
//! **Durability.** As in the queue: when a method returns `Ok`, its effect survives a power cut.
//!
//! **Visibility.** A listing reads committed data. The [`Directory`](super::Directory), which deliveries are made by,
//! changes right after the commit and before the method returns. So after the response to a creation, change or
//! deletion of an endpoint, every event that is accepted and every attempt that begins takes it into account.
//!
//! **Cost.** A page costs the same however much is stored. Where a filter matches little among much, a page may be
//! short, or empty, and not the last: it has read its share, and its cursor continues there.
//!
//! Nothing here decides the disposition of a delivery, and nothing here checks permissions: the API does.

mod api_keys;
mod deliveries;
mod edit;
mod endpoints;
mod history;
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

/// All records: everything that the gateway stores besides the hot queue.
pub trait Records:
    Tenants + Endpoints + ApiKeys + Deliveries + Reminders + Resends + Requests + History + Notifications
{
}

impl<R: Tenants + Endpoints + ApiKeys + Deliveries + Reminders + Resends + Requests + History + Notifications>
    Records for R
{
}

/// Why an operation was refused or failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The object does not exist.
    #[error("there is no {what} {name}")]
    Missing {
        /// The kind of object, in a word.
        what: &'static str,
        /// The id or name of the object.
        name: String,
    },
    /// The object exists already.
    #[error("the {what} {name} already exists")]
    Exists {
        /// The kind of object, in a word.
        what: &'static str,
        /// The id or name of the object.
        name: String,
    },
    /// The stored object can't be read.
    #[error("the stored {what} {name} can't be read: a newer version wrote it, or the file is damaged")]
    Unreadable {
        /// The kind of object, in a word.
        what: &'static str,
        /// The id or name of the object.
        name: String,
    },
    /// Another client changed the object first: the revision does not match.
    #[error("another client changed the {what} {name}; read it again")]
    Changed {
        /// The kind of object, in a word.
        what: &'static str,
        /// The id or name of the object.
        name: String,
    },
    /// The idempotency key was used with a different request.
    #[error("this idempotency key was used for another request within the last 24 hours")]
    KeyReused,
    /// The request was carried out before, and its response held a secret, which is not stored.
    #[error(
        "an earlier request with this key created {id}; its response contained a secret and was not stored"
    )]
    AlreadyCreated {
        /// The id of the created object.
        id: String,
    },
    /// An [`Edit`] refused the stored value.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The tenant still has endpoints, or work that is not finished.
    #[error(
        "the tenant {0} still has endpoints, reminders or waiting deliveries; delete the endpoints, cancel the reminders and \
         wait or cancel first"
    )]
    InUse(TenantId),
    /// The delivery is in a state in which the operation is not possible.
    #[error("the delivery {id} is {state}; it can't be {verb}")]
    State {
        /// The id of the delivery.
        id: DeliveryId,
        /// The state of the delivery.
        state: StateName,
        /// The operation: `cancelled` or `resent`.
        verb: &'static str,
    },
    /// The reminder is in a state in which the operation is not possible.
    #[error("the reminder {id} is {state}; it can't be {verb}")]
    ReminderState {
        /// The id of the reminder.
        id: ReminderId,
        /// The state of the reminder.
        state: ReminderStateName,
        /// The operation, such as `paused`.
        verb: &'static str,
    },
    /// The tenant has reached its limit of endpoints.
    #[error("{tenant} has reached the limit of {limit} endpoints; delete some, or raise limits.endpoints")]
    EndpointsFull {
        /// The tenant.
        tenant: TenantId,
        /// The maximum number of endpoints.
        limit: u32,
    },
    /// The tenant has reached its limit of reminders.
    #[error(
        "{tenant} has reached its limit with {count} reminders and {bytes} bytes of payload; cancel some, or raise the limit"
    )]
    RemindersFull {
        /// The tenant.
        tenant: TenantId,
        /// The number of reminders that have not ended.
        count: u64,
        /// The bytes of their payloads.
        bytes: u64,
    },
    /// One of several items was refused, and so none of them was accepted.
    #[error("number {place}: {error}")]
    OneOf {
        /// The index of the item, from 0 on.
        place: usize,
        /// The error of the item.
        error: Box<RecordsError>,
    },
    /// The disk is nearly full. The rest is reserved for settlements.
    #[error("the disk is nearly full: {free} bytes are free, {reserve} are reserved")]
    DiskReserve {
        /// The number of free bytes.
        free: u64,
        /// The number of reserved bytes.
        reserve: u64,
    },
    /// The tenant has reached its backlog limit.
    #[error("the backlog of {tenant} is full: {waiting} deliveries of {bytes} bytes wait")]
    BacklogFull {
        /// The tenant.
        tenant: TenantId,
        /// The number of waiting deliveries.
        waiting: u64,
        /// The bytes of their payloads.
        bytes: u64,
    },
    /// The cursor is invalid.
    #[error("cursor: must be the `next` of an earlier page of this listing")]
    Cursor,
    /// The policy is invalid, together with the layers that it is applied over.
    #[error("policy: {0}")]
    Policy(String),
    /// The tenant's policy is valid, but not together with that of one of its endpoints.
    #[error("policy: {why}; together with the policy of the endpoint {endpoint}: change that policy first")]
    EndpointPolicy {
        /// The endpoint whose policy does not fit.
        endpoint: EndpointId,
        /// The reason, which names the field.
        why: String,
    },
    /// The policy of the tenant's reminders is invalid, together with the layers that it is applied over.
    #[error("reminders.policy: {0}")]
    ReminderPolicy(String),
    /// The URL is invalid.
    #[error(transparent)]
    Url(#[from] breakerbox_core::KeyError),
    /// The database failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl RecordsError {
    /// Returns [`Missing`](Self::Missing), for a backend that found no row. `what` is one word, such as `tenant`.
    pub fn missing(what: &'static str, name: impl ToString) -> Self {
        Self::Missing { what, name: name.to_string() }
    }
}
