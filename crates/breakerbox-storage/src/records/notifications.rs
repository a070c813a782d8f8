//! Stored notifications, their delivery to targets, and the results.

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
    /// Matches only notifications that concern this tenant.
    pub tenant: Option<TenantId>,
    /// Matches only notifications of this kind.
    pub kind: Option<Kind>,
    /// Matches only notifications that are in this state at any target. If `tenant` is set, only this
    /// tenant's targets count.
    pub state: Option<SendState>,
}

/// A stored notification, with its results at each target.
#[derive(Clone, PartialEq, Debug)]
pub struct PastNotification {
    /// The notification's id, which is also the `webhook-id` of its message.
    pub id: NotificationId,
    /// The content of the notification.
    pub notification: Notification,
    /// The targets of the notification, with the results.
    pub sends: Vec<PastSend>,
}

/// A notification's progress at one target.
#[derive(Clone, PartialEq, Debug)]
pub struct PastSend {
    /// The name of the target: `tgt_...` or `operator/...`.
    pub target: Arc<str>,
    /// The notification's current state at the target.
    pub state: SendState,
    /// How often the gateway has tried to send the notification to the target.
    pub tries: u32,
    /// When the next try is due. `None`: the notification no longer waits.
    pub due_at: Option<Timestamp>,
    /// When the gateway last tried to send the notification. `None`: it has not tried yet.
    pub tried_at: Option<Timestamp>,
    /// The result of the latest try, in a few words. `None`: there was no try yet.
    pub answer: Option<String>,
    /// The id of the latest message that contained the notification, if any.
    pub message: Option<String>,
}

/// The state of a notification at one target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendState {
    /// The notification waits to be sent or retried.
    Waiting,
    /// The target accepted the notification.
    Sent,
    /// All tries failed.
    GivenUp,
    /// The target was removed before the notification was sent.
    Dropped,
}

impl SendState {
    /// All states, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Waiting, Self::Sent, Self::GivenUp, Self::Dropped];

    /// Returns the state's name in the API.
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

/// A target that has waiting notifications.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitingTarget {
    /// The target's name: `tgt_...` or `operator/...`.
    pub name: Arc<str>,
    /// The tenant that the target belongs to. `None`: the target is the operator's.
    pub tenant: Option<TenantId>,
    /// The number of due notifications, counted up to a maximum.
    pub due: u64,
    /// The number of waiting notifications, due or not.
    pub waiting: u64,
    /// The number of notifications that were dropped because too many were waiting, and that no digest has mentioned
    /// yet.
    pub not_kept: u64,
}

/// A notification that is due at a target.
#[derive(Clone, PartialEq, Debug)]
pub struct WaitingNotification {
    /// The parts of the notification that a digest needs.
    pub headline: Headline,
    /// How often the gateway has tried to send the notification to the target.
    pub tries: u32,
}

/// The result of sending a message.
#[derive(Clone, PartialEq, Debug)]
pub struct SendResult {
    /// The name of the target that the message was for.
    pub target: Arc<str>,
    /// The id of the message: a notification's or a digest's.
    pub message: String,
    /// The target's response or the error, in a few words.
    pub answer: String,
    /// Each notification in the message, with its new state and, if it waits, the time at which it is due.
    pub notifications: Vec<(NotificationId, SendState, Timestamp)>,
    /// The number of dropped notifications that the message mentioned.
    pub said_not_kept: u64,
    /// Whether the gateway tried to send the message, successfully or not. `false`: the message was dropped.
    pub tried: bool,
}

/// The deliveries that failed for good in a period, which ends at `until`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failed {
    /// The end of the period, exclusive.
    pub until: Timestamp,
    /// The number of failed deliveries for each tenant and each minute, which is identified by its start.
    pub of: Vec<(TenantId, Timestamp, u64)>,
}

/// Operations on notifications.
#[async_trait]
pub trait Notifications: Send + Sync + 'static {
    /// Stores a notification, which then waits to be sent to each of its targets. Returns whether it is new: kind,
    /// subject and epoch together are unique.
    ///
    /// # Errors
    /// Returns an error if the database fails. In that case, nothing was stored.
    async fn notify(&self, notification: Notification) -> Result<bool, QueueError>;

    /// Returns up to `limit` trips whose delay has passed, longest due first.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn due_trips(&self, limit: usize) -> Result<Vec<Notification>, QueueError>;

    /// Ends the delay of a trip: stores it as a notification, or drops it if the outage is over. Returns whether it was
    /// stored. A trip whose outage has ended or was notified in the meantime is not stored.
    ///
    /// # Errors
    /// Returns an error if the database fails. In that case, nothing was stored.
    async fn settle_trip(&self, trip: Notification, is_over: bool) -> Result<bool, QueueError>;

    /// Lists the notifications that match a filter, newest first.
    ///
    /// # Errors
    /// Returns an error if the cursor is invalid or the database fails.
    async fn notifications(
        &self,
        filter: &NotificationFilter,
        page: &PageOf,
    ) -> Result<Page<PastNotification>, RecordsError>;

    /// Returns the notification with this id.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn notification(&self, id: NotificationId) -> Result<PastNotification, RecordsError>;

    /// Returns the targets that have waiting notifications. The cost depends only on the number of such targets.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn waiting_targets(&self) -> Result<Vec<WaitingTarget>, QueueError>;

    /// Returns up to `limit` due notifications of a target, oldest first.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn due_notifications(
        &self,
        target: &str,
        limit: usize,
    ) -> Result<Vec<WaitingNotification>, QueueError>;

    /// Stores the result of sending a message.
    ///
    /// # Errors
    /// Returns an error if the database fails. In that case, nothing was written.
    async fn settle_message(&self, result: SendResult) -> Result<(), QueueError>;

    /// Deletes up to `limit` notifications from before this time that no longer wait for any target. Returns the
    /// number deleted.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn prune_notifications(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError>;

    /// Returns the deliveries that failed for good from this time until now. If the next call begins at
    /// [`Failed::until`], each failed delivery is in exactly one result.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    async fn failed_since(&self, from: Timestamp) -> Result<Failed, QueueError>;
}
