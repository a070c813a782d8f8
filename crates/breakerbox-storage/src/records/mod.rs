//! Records: what the gateway keeps besides the hot queue, as people and their tools see and change it.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Tenants`], [`Endpoints`] | create, show, list, change, delete; secrets and their rotation |
//! | [`ApiKeys`] | create, list, revoke |
//! | [`Deliveries`] | events, deliveries and attempts: show, list by filter, cancel, resend one |
//! | [`Reminders`] | create, show, list, change, pause, resume, cancel, run now; their runs |
//! | [`Resends`] | resend by filter, as a background job |
//! | [`Requests`] | everything that creates something, at most once for an idempotency key |
//! | [`History`] | what happened to circuits |
//! | [`Notices`] | what people were told, and what became of it |
//! | [`SettledPermits`] | which permits of the decision API were settled; beside the others, since nobody looks at it |
//! | [`Records`] | all that people look at |
//! | [`Page`], [`PageOf`], [`Cursor`] | a listing, page by page |
//!
//! **Durability.** As in the queue: when a method returns `Ok`, what it did survives a power cut.
//!
//! **Who sees what when.** A listing reads what is committed. The [`Directory`](super::Directory), by which deliveries are
//! made, changes right after the commit and before the method returns. So whoever has heard that an endpoint was created,
//! changed or deleted can rely on every event that is accepted afterwards, and every attempt that begins afterwards, knowing it.
//!
//! **Cost.** A page costs the same however much there is. Where a filter finds little among much, a page may be short, or
//! empty, and not the last: it has looked at its share, and its cursor says where to go on.
//!
//! Nothing here decides what becomes of a delivery, and nothing here asks whether the caller may: that is the API's.

mod api_keys;
mod deliveries;
mod edit;
mod endpoints;
mod history;
mod notices;
mod page;
mod permits;
mod reminders;
mod requests;
mod resends;
mod tenants;

pub use api_keys::{ApiKeys, NewApiKey};
pub use deliveries::{Deliveries, Waiting};
pub use edit::{Edit, Refused};
pub use endpoints::{Deleted, Endpoints, NewEndpoint};
pub use history::{ChangeFilter, Heard, History};
pub use notices::{
    Failed, NoticeFilter, Notices, PastNotice, PastSend, SendResult, SendState, WaitingNotice, WaitingTarget,
};
pub use page::{Cursor, MAX_PAGE, Page, PageOf};
pub use permits::{Claimed, SettledPermits};
pub use reminders::{NewReminder, ReminderChange, ReminderFilter, Reminders};
pub use requests::{Answered, Request, RequestResponse, Requests};
pub use resends::{NewResend, Resends};
pub use tenants::{NewTenant, TenantBacklog, Tenants};

use breakerbox_model::objects::{DeliveryId, EndpointId, ReminderId, ReminderStateName, StateName, TenantId};

use super::QueueError;

/// All that the gateway keeps besides the hot queue.
pub trait Records:
    Tenants + Endpoints + ApiKeys + Deliveries + Reminders + Resends + Requests + History + Notices
{
}

impl<R: Tenants + Endpoints + ApiKeys + Deliveries + Reminders + Resends + Requests + History + Notices>
    Records for R
{
}

/// Why it was not done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// There is none of that name.
    #[error("there is no {what} {name}")]
    Missing {
        /// What was looked for, in a word.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// There is one already.
    #[error("there is a {what} {name} already")]
    Exists {
        /// What, in a word.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// What is stored of it can't be read.
    #[error("the stored {what} {name} can't be read: a newer version wrote it, or the file is damaged")]
    Unreadable {
        /// What, in a word.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Somebody else was faster.
    #[error("the {what} {name} was changed by somebody else; read it again")]
    Changed {
        /// What, in a word.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The idempotency key came with another request.
    #[error("this idempotency key was used for another request within the last 24 hours")]
    KeyReused,
    /// The request was carried out before, and its response held a secret, which is not stored.
    #[error(
        "this request was carried out before: it created {id}; its response held a secret and was not stored"
    )]
    AlreadyCreated {
        /// What it created.
        id: String,
    },
    /// An [`Edit`] refused what it was given.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A tenant that still has endpoints, or work that is not finished.
    #[error(
        "the tenant {0} still has endpoints, reminders or waiting deliveries; delete the endpoints, cancel the reminders and \
         wait or cancel first"
    )]
    InUse(TenantId),
    /// A delivery is not in a state from which that is possible.
    #[error("the delivery {id} is {state}; it can't be {verb}")]
    State {
        /// Which.
        id: DeliveryId,
        /// Its state.
        state: StateName,
        /// What was asked: `cancelled` or `resent`.
        verb: &'static str,
    },
    /// A reminder is not in a state from which that is possible.
    #[error("the reminder {id} is {state}; it can't be {verb}")]
    ReminderState {
        /// Which.
        id: ReminderId,
        /// Its state.
        state: ReminderStateName,
        /// What was asked, such as `paused`.
        verb: &'static str,
    },
    /// The tenant has as many endpoints as it may have.
    #[error("{tenant} has {limit} endpoints, and may not have more; delete some, or raise limits.endpoints")]
    EndpointsFull {
        /// Whose.
        tenant: TenantId,
        /// How many there may be.
        limit: u32,
    },
    /// The tenant has as many reminders as it may have.
    #[error(
        "{tenant} has {count} reminders with {bytes} bytes of payload, and may not have more; cancel some, or raise its limit"
    )]
    RemindersFull {
        /// Whose.
        tenant: TenantId,
        /// How many there are that have not ended.
        count: u64,
        /// Bytes of their payloads.
        bytes: u64,
    },
    /// It lies with one of several, and so none of them was taken.
    #[error("number {place}: {error}")]
    OneOf {
        /// Which, counted from 0.
        place: usize,
        /// What is wrong with it.
        error: Box<RecordsError>,
    },
    /// The disk is nearly full. What is left is for settlements.
    #[error("the disk is nearly full: {free} bytes are free, {reserve} are kept in reserve")]
    DiskReserve {
        /// Free bytes.
        free: u64,
        /// Bytes in reserve.
        reserve: u64,
    },
    /// The tenant's backlog has no room.
    #[error("the backlog of {tenant} is full: {waiting} deliveries of {bytes} bytes wait")]
    BacklogFull {
        /// Whose.
        tenant: TenantId,
        /// How many deliveries wait.
        waiting: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// What was given as a cursor is none.
    #[error("cursor: must be one that this listing gave")]
    Cursor,
    /// A policy that can't be used, with what stands above it.
    #[error("policy: {0}")]
    Policy(String),
    /// A tenant's policy that would do, but not with that of one of its endpoints on top.
    #[error("policy: {why}; with the policy of the endpoint {endpoint} on top: change that one first")]
    EndpointPolicy {
        /// Whose policy does not fit.
        endpoint: EndpointId,
        /// Names the field.
        why: String,
    },
    /// The same for the policy of a tenant's reminders.
    #[error("reminders.policy: {0}")]
    ReminderPolicy(String),
    /// A URL that can't be used.
    #[error(transparent)]
    Url(#[from] breakerbox_core::KeyError),
    /// The queue can't do it.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

impl RecordsError {
    /// [`Missing`](Self::Missing), for a backend that found no row. `what` is one word, such as `tenant`.
    pub fn missing(what: &'static str, name: impl ToString) -> Self {
        Self::Missing { what, name: name.to_string() }
    }
}
