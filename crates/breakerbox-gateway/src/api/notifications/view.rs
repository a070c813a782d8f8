//! The JSON representation of notifications.

use breakerbox_model::notifications::{Kind, Message, NotificationTarget, OPERATOR};
use breakerbox_storage::records::{PastNotification, PastSend, SendState};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::reading::fields::Moment;

/// A notification type.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = NotificationType)]
pub(in crate::api) enum KindName {
    Trip,
    Recovery,
    Disabled,
    DisableWarning,
    StoreLost,
    StoreBack,
    DatabaseLost,
    DatabaseBack,
    NetworkLost,
    NetworkBack,
    DeadLetters,
    ReminderStopped,
}

impl From<KindName> for Kind {
    fn from(kind: KindName) -> Self {
        match kind {
            KindName::Trip => Self::Trip,
            KindName::Recovery => Self::Recovery,
            KindName::Disabled => Self::Disabled,
            KindName::DisableWarning => Self::DisableWarning,
            KindName::StoreLost => Self::StoreLost,
            KindName::StoreBack => Self::StoreBack,
            KindName::DatabaseLost => Self::DatabaseLost,
            KindName::DatabaseBack => Self::DatabaseBack,
            KindName::NetworkLost => Self::NetworkLost,
            KindName::NetworkBack => Self::NetworkBack,
            KindName::DeadLetters => Self::DeadLetters,
            KindName::ReminderStopped => Self::ReminderStopped,
        }
    }
}

impl From<Kind> for KindName {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Recovery => Self::Recovery,
            Kind::Disabled => Self::Disabled,
            Kind::DisableWarning => Self::DisableWarning,
            Kind::StoreLost => Self::StoreLost,
            Kind::StoreBack => Self::StoreBack,
            Kind::DatabaseLost => Self::DatabaseLost,
            Kind::DatabaseBack => Self::DatabaseBack,
            Kind::NetworkLost => Self::NetworkLost,
            Kind::NetworkBack => Self::NetworkBack,
            Kind::DeadLetters => Self::DeadLetters,
            Kind::ReminderStopped => Self::ReminderStopped,
            // Tests are never stored, so this value is never shown.
            Kind::Trip | Kind::Test => Self::Trip,
        }
    }
}

/// The state of a notification at one target.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = NotificationState)]
pub(in crate::api) enum SendStateName {
    Waiting,
    Sent,
    GivenUp,
    Dropped,
}

impl From<SendState> for SendStateName {
    fn from(state: SendState) -> Self {
        match state {
            SendState::Waiting => Self::Waiting,
            SendState::Sent => Self::Sent,
            SendState::GivenUp => Self::GivenUp,
            SendState::Dropped => Self::Dropped,
        }
    }
}

impl From<SendStateName> for SendState {
    fn from(state: SendStateName) -> Self {
        match state {
            SendStateName::Waiting => Self::Waiting,
            SendStateName::Sent => Self::Sent,
            SendStateName::GivenUp => Self::GivenUp,
            SendStateName::Dropped => Self::Dropped,
        }
    }
}

/// A notification and its results at each target.
#[derive(Serialize, ToSchema)]
#[schema(as = Notification)]
pub(super) struct NotificationView {
    /// Notification ID; also the `webhook-id` of its message.
    #[schema(example = "ntf_01h5k2m8w4c7e")]
    id: String,
    /// The notification type.
    kind: KindName,
    /// The time of the change that the notification reports.
    #[schema(value_type = String, format = "date-time")]
    at: Moment,
    /// The affected tenant; null if only the operator is concerned.
    tenant: Option<String>,
    /// The notification's title, in one line.
    title: String,
    /// The message: what is affected, since when, the reason, what happens next, and what to do.
    text: String,
    /// The JSON message sent to webhooks.
    #[schema(value_type = Object)]
    message: Value,
    /// The result at each target.
    results: Vec<SendView>,
}

/// The result of sending a notification to one target.
#[derive(Serialize, ToSchema)]
#[schema(as = NotificationResult)]
struct SendView {
    /// Target ID: `tgt_...`, or `operator/...`.
    target: String,
    /// The kind of target and its address, without secrets; null if the target was removed.
    to: Option<String>,
    /// The state of the notification at this target.
    state: SendStateName,
    /// The number of attempts to send the notification to this target.
    attempts: u32,
    /// While the notification is waiting, the time of the next attempt.
    #[schema(value_type = Option<String>, format = "date-time")]
    next_attempt_at: Option<Moment>,
    /// The time of the last attempt.
    #[schema(value_type = Option<String>, format = "date-time")]
    last_attempt_at: Option<Moment>,
    /// The HTTP status of the last response, or the error.
    response: Option<String>,
    /// The ID of the message that contained the notification: the notification's own ID, or the ID of a digest.
    message: Option<String>,
}

impl NotificationView {
    /// Builds the view of a notification, with the results at the targets that the caller may see.
    pub(super) fn new(past: PastNotification, known: &[NotificationTarget], shows_operators: bool) -> Self {
        let message = Message::of(past.id, &past.notification);
        let is_shown = |send: &PastSend| shows_operators || !send.target.starts_with(OPERATOR);
        let results = past.sends.into_iter().filter(is_shown).map(|send| SendView {
            to: known
                .iter()
                .find(|target| target.name == send.target)
                .map(|target| format!("{} {}", target.way.name(), target.way.shown())),
            target: send.target.to_string(),
            state: send.state.into(),
            attempts: send.tries,
            next_attempt_at: send.due_at.map(Moment),
            last_attempt_at: send.tried_at.map(Moment),
            response: send.answer,
            message: send.message.filter(|message| !message.is_empty()),
        });
        Self {
            id: past.id.to_string(),
            kind: past.notification.kind().into(),
            at: Moment(past.notification.at),
            tenant: past.notification.tenant.as_ref().map(ToString::to_string),
            title: message.text.title,
            text: message.text.body,
            message: message.json,
            results: results.collect(),
        }
    }
}
