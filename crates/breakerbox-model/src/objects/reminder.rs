//! Reminders: callbacks that are scheduled for a time, once or repeatedly.
//!
//! A reminder **fires** a run when it is due. A run is an event with one delivery, which goes through lanes, gates and attempts
//! like any other; its `webhook-id` is the reminder's id and the number of the run. There is one run at a time: what falls due
//! meanwhile waits for its end.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;
use url::Url;

use super::{Delivery, DeliveryId, Priority, ReminderId, Revision, TenantId, TenantNumber};
use crate::reminder::{CatchUp, Schedule, StopReason};

/// A callback that is scheduled for a time.
#[derive(Clone, PartialEq, Debug)]
pub struct Reminder {
    /// Its name.
    pub id: ReminderId,
    /// Whose.
    pub tenant: TenantId,
    /// The same, where another tenant may have taken the name since.
    pub owner: TenantNumber,
    /// What can be changed.
    pub settings: ReminderSettings,
    /// Bytes of its payload.
    pub payload_size: u64,
    /// What has become of it.
    pub state: ReminderState,
    /// Runs that were fired.
    pub runs: u32,
    /// Occurrences for which nothing was fired: only the latest was asked for, or it was paused.
    pub skipped: u64,
    /// The time for which the latest run was fired.
    pub last_at: Option<Timestamp>,
    /// This occurrence and all before it are done with: fired, skipped or called off.
    pub done_until: Option<Timestamp>,
    /// When it is due next; none while a run is open, and if it never is again.
    pub next_at: Option<Timestamp>,
    /// The delivery of the run that is not finished.
    pub open_run: Option<DeliveryId>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When somebody last changed it.
    pub changed_at: Timestamp,
    /// Which change that was.
    pub revision: Revision,
}

/// What can be changed of a reminder, besides its payload.
#[derive(Clone, PartialEq, Debug)]
pub struct ReminderSettings {
    /// The owner's own name for it, unique within the tenant.
    pub reference: Option<String>,
    /// Who is called.
    pub url: Url,
    /// What the payload is.
    pub content_type: Arc<str>,
    /// How important its runs are.
    pub priority: Priority,
    /// When.
    pub schedule: Schedule,
    /// What is fired of that which was missed; none: as the tenant says.
    pub catch_up: Option<CatchUp>,
    /// After how long a run that waits is given up; none: never.
    pub expires_after: Option<Duration>,
}

/// What has become of a reminder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReminderState {
    /// It fires when it is due.
    Active,
    /// Its owner said so; it can go on.
    Paused,
    /// A run ended in a way that stops it; it can go on.
    Stopped(StopReason),
    /// There are no more runs.
    Finished,
    /// Its owner said so.
    Cancelled,
}

impl ReminderState {
    /// Its name, without the reason.
    #[must_use]
    pub const fn name(self) -> ReminderStateName {
        match self {
            Self::Active => ReminderStateName::Active,
            Self::Paused => ReminderStateName::Paused,
            Self::Stopped(_) => ReminderStateName::Stopped,
            Self::Finished => ReminderStateName::Finished,
            Self::Cancelled => ReminderStateName::Cancelled,
        }
    }
}

/// A state without its reason, as people ask for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReminderStateName {
    /// It fires when it is due.
    Active,
    /// Its owner said so.
    Paused,
    /// A run ended in a way that stops it.
    Stopped,
    /// There are no more runs.
    Finished,
    /// Its owner called it off.
    Cancelled,
}

impl ReminderStateName {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Active, Self::Paused, Self::Stopped, Self::Finished, Self::Cancelled];

    /// The text, in the API and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Finished => "finished",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for ReminderStateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// It is no state of a reminder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be active, paused, stopped, finished or cancelled")]
pub struct ReminderStateError;

impl FromStr for ReminderStateName {
    type Err = ReminderStateError;

    fn from_str(text: &str) -> Result<Self, ReminderStateError> {
        Self::ALL.into_iter().find(|state| state.name() == text).ok_or(ReminderStateError)
    }
}

/// Which run of which reminder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RunId {
    /// Which reminder.
    pub reminder: ReminderId,
    /// The first is 1.
    pub number: u32,
}

/// The `webhook-id` of its requests.
impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.reminder, self.number)
    }
}

/// One run of a reminder.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Which.
    pub id: RunId,
    /// The occurrence that it was fired for.
    pub scheduled_at: Timestamp,
    /// How many occurrences before that one were missed and not fired.
    pub skipped: u32,
    /// When its first request began, if it has.
    pub sent_at: Option<Timestamp>,
    /// What became of it.
    pub delivery: Delivery,
}
