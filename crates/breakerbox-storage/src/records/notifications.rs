//! Notifications: stored, waiting to be sent, and their results.

use std::sync::Arc;

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::notifications::{Headline, Kind, Notification};
use breakerbox_model::objects::{NotificationId, TenantId};

use super::{Page, PageOf, RecordsError};
use crate::QueueError;

/// A filter for notifications. A notification must match all fields that are set.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NotificationFilter {
    /// Notifications of this tenant.
    pub tenant: Option<TenantId>,
    /// Notifications of this kind.
    pub kind: Option<Kind>,
    /// Notifications that are in this state at one of the tenant's targets; without a tenant, at any target.
    pub state: Option<SendState>,
}

/// A stored notification.
#[derive(Clone, PartialEq, Debug)]
pub struct PastNotification {
    /// The id of the notification.
    pub id: NotificationId,
    /// The content.
    pub notification: Notification,
    /// The targets that it is sent to, with the results.
    pub sends: Vec<PastSend>,
}

/// The state of a notification at one target.
#[derive(Clone, PartialEq, Debug)]
pub struct PastSend {
    /// The name of the target.
    pub target: Arc<str>,
    /// The present state.
    pub state: SendState,
    /// The number of tries.
    pub tries: u32,
    /// While it waits: when it is tried next.
    pub due_at: Option<Timestamp>,
    /// When it was last tried.
    pub tried_at: Option<Timestamp>,
    /// The result of the latest try.
    pub answer: Option<String>,
    /// The id of the latest message that contained it.
    pub message: Option<String>,
}

/// The state of a notification at one target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendState {
    /// It waits to be sent or retried.
    Waiting,
    /// The target accepted it.
    Sent,
    /// All tries failed.
    GivenUp,
    /// The target was removed.
    Dropped,
}

impl SendState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Waiting, Self::Sent, Self::GivenUp, Self::Dropped];

    /// Returns the name of the state.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Sent => "sent",
            Self::GivenUp => "given_up",
            Self::Dropped => "dropped",
        }
    }
}

/// A target for which notifications wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitingTarget {
    /// The name of the target.
    pub name: Arc<str>,
    /// The tenant that the target belongs to. `None`: the operator.
    pub tenant: Option<TenantId>,
    /// The number of due notifications, counted up to a bound.
    pub due: u64,
    /// The number of all waiting notifications.
    pub waiting: u64,
    /// The number of notifications that were dropped because too many waited, and that no digest has mentioned yet.
    pub not_kept: u64,
}

/// A notification that is due at a target.
#[derive(Clone, PartialEq, Debug)]
pub struct WaitingNotification {
    /// The part of it that a digest needs.
    pub headline: Headline,
    /// The number of tries so far.
    pub tries: u32,
}

/// The result of a message.
#[derive(Clone, PartialEq, Debug)]
pub struct SendResult {
    /// The name of the target.
    pub target: Arc<str>,
    /// The id of the message.
    pub message: String,
    /// The result, in a few words.
    pub answer: String,
    /// The new state of each of its notifications, and when it is due if it waits.
    pub notifications: Vec<(NotificationId, SendState, Timestamp)>,
    /// The number of dropped notifications that the message mentioned.
    pub said_not_kept: u64,
    /// Whether the message was tried, and not merely dropped.
    pub tried: bool,
}

/// Deliveries that failed in a period.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failed {
    /// The exclusive end of the period.
    pub until: Timestamp,
    /// The number for each tenant and minute.
    pub of: Vec<(TenantId, Timestamp, u64)>,
}

/// Notifications.
#[async_trait]
pub trait Notifications: Send + Sync + 'static {
    /// Stores a notification, which then waits for each of its targets. Returns whether it is new: there is one for
    /// each kind, subject and epoch.
    ///
    /// # Errors
    /// If the database fails; nothing was stored.
    async fn notify(&self, notification: Notification) -> Result<bool, QueueError>;

    /// Lists notifications, the newest first.
    ///
    /// # Errors
    /// If the cursor is invalid, or the database fails.
    async fn notifications(
        &self,
        filter: &NotificationFilter,
        page: &PageOf,
    ) -> Result<Page<PastNotification>, RecordsError>;

    /// Returns a notification.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn notification(&self, id: NotificationId) -> Result<PastNotification, RecordsError>;

    /// Returns the targets for which notifications wait. The cost grows with the number of such targets only.
    ///
    /// # Errors
    /// If the database fails.
    async fn waiting_targets(&self) -> Result<Vec<WaitingTarget>, QueueError>;

    /// Returns the due notifications of a target, the oldest first.
    ///
    /// # Errors
    /// If the database fails.
    async fn due_notifications(
        &self,
        target: &str,
        limit: usize,
    ) -> Result<Vec<WaitingNotification>, QueueError>;

    /// Stores the result of a message.
    ///
    /// # Errors
    /// If the database fails; nothing was written.
    async fn settle_message(&self, result: SendResult) -> Result<(), QueueError>;

    /// Deletes notifications from before this time that wait for no target, a bounded number. Returns how many.
    ///
    /// # Errors
    /// If the database fails.
    async fn prune_notifications(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError>;

    /// Returns the deliveries that failed for good from this time until now; the result contains its end. Each is in
    /// exactly one result, if the next call begins where this one ends.
    ///
    /// # Errors
    /// If the database fails.
    async fn failed_since(&self, from: Timestamp) -> Result<Failed, QueueError>;
}
