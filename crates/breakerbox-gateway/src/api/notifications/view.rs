//! The JSON of notifications.

use breakerbox_model::notifications::{Kind, Message, NoticeTarget, OPERATOR};
use breakerbox_storage::records::{PastNotice, PastSend, SendState};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::reading::fields::Moment;

/// What a notice is about.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::api) enum KindName {
    Trip,
    Recovery,
    Disabled,
    DisableWarning,
    StoreLost,
    StoreBack,
    DatabaseLost,
    DatabaseBack,
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
            Kind::DeadLetters => Self::DeadLetters,
            Kind::ReminderStopped => Self::ReminderStopped,
            // A test is never stored, so it is never shown.
            Kind::Trip | Kind::Test => Self::Trip,
        }
    }
}

/// What became of a notice at one target.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
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

/// A notice: what people were told, and with what result.
#[derive(Serialize, ToSchema)]
#[schema(as = Notice)]
pub(super) struct NoticeView {
    /// Its name: the `webhook-id` of its message.
    #[schema(example = "ntc_01h5k2m8w4c7e")]
    id: String,
    /// What it is about.
    #[schema(inline)]
    kind: KindName,
    /// When it happened.
    #[schema(value_type = String, format = "date-time")]
    at: Moment,
    /// Whom it concerns; null: the operator alone.
    tenant: Option<String>,
    /// On one line.
    title: String,
    /// In a few lines: which, since when, why, what happens next, what to do.
    text: String,
    /// The message to webhooks, as a program reads it.
    #[schema(value_type = Object)]
    message: Value,
    /// To whom, and with what result.
    #[schema(inline)]
    sends: Vec<SendView>,
}

/// What became of a notice at one target.
#[derive(Serialize, ToSchema)]
struct SendView {
    /// The target: `tgt_...`, or `operator/...`.
    target: String,
    /// How and where to, if the target is still there.
    to: Option<String>,
    /// What became of it.
    #[schema(inline)]
    state: SendStateName,
    /// How often it was tried.
    tries: u32,
    /// While it waits: when it is tried.
    #[schema(value_type = Option<String>, format = "date-time")]
    due_at: Option<Moment>,
    /// When it was last tried.
    #[schema(value_type = Option<String>, format = "date-time")]
    tried_at: Option<Moment>,
    /// What came of that: a status, or why there was none.
    answer: Option<String>,
    /// The id of the message that it was in; that of a digest if it went with others.
    message: Option<String>,
}

impl NoticeView {
    /// Builds the view, with the results at the targets that the caller may see.
    pub(super) fn new(past: PastNotice, known: &[NoticeTarget], shows_operators: bool) -> Self {
        let message = Message::of(past.id, &past.notice);
        let is_shown = |send: &PastSend| shows_operators || !send.target.starts_with(OPERATOR);
        let sends = past.sends.into_iter().filter(is_shown).map(|send| SendView {
            to: known
                .iter()
                .find(|target| target.name == send.target)
                .map(|target| format!("{} {}", target.way.name(), target.way.shown())),
            target: send.target.to_string(),
            state: send.state.into(),
            tries: send.tries,
            due_at: send.due_at.map(Moment),
            tried_at: send.tried_at.map(Moment),
            answer: send.answer,
            message: send.message.filter(|message| !message.is_empty()),
        });
        Self {
            id: past.id.to_string(),
            kind: past.notice.kind().into(),
            at: Moment(past.notice.at),
            tenant: past.notice.tenant.as_ref().map(ToString::to_string),
            title: message.text.title,
            text: message.text.body,
            message: message.json,
            sends: sends.collect(),
        }
    }
}
