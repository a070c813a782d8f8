//! Reminders: callbacks that are scheduled for a time, once or repeatedly.
//!
//! A reminder **fires** a run when it is due. A run is an event with one delivery, which goes through lanes, gates and
//! attempts like any other; its `webhook-id` is the reminder's id and the number of the run. Only one run is open at a
//! time: an occurrence that falls due meanwhile waits until that run ends.

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
    /// The id of the reminder.
    pub id: ReminderId,
    /// The name of the tenant that the reminder belongs to.
    pub tenant: TenantId,
    /// The number of that tenant. After a tenant is deleted, another one may have its name, but never its number.
    pub owner: TenantNumber,
    /// The settings that can be changed.
    pub settings: ReminderSettings,
    /// The size of the payload, in bytes.
    pub payload_size: u64,
    /// The present state.
    pub state: ReminderState,
    /// The number of runs that were fired.
    pub runs: u32,
    /// The number of occurrences that were not fired, because catch-up fires only the latest or because the reminder
    /// was paused.
    pub skipped: u64,
    /// The occurrence for which the latest run was fired.
    pub last_at: Option<Timestamp>,
    /// This occurrence and all before it are done: fired, skipped or cancelled.
    pub done_until: Option<Timestamp>,
    /// When the reminder is due next. `None` while a run is open, and if no occurrence is left.
    pub next_at: Option<Timestamp>,
    /// The delivery of the run that is not finished. `None`: no run is open.
    pub open_run: Option<DeliveryId>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When a client last changed it.
    pub changed_at: Timestamp,
    /// The number of the latest change.
    pub revision: Revision,
}

/// The settings of a reminder that can be changed, besides its payload.
#[derive(Clone, PartialEq, Debug)]
pub struct ReminderSettings {
    /// The tenant's own name for the reminder, unique within the tenant.
    pub reference: Option<String>,
    /// The URL that is called.
    pub url: Url,
    /// The media type of the payload.
    pub content_type: Arc<str>,
    /// The priority of its runs.
    pub priority: Priority,
    /// The times at which it is due.
    pub schedule: Schedule,
    /// Which missed occurrences are fired. `None`: the tenant's setting applies.
    pub catch_up: Option<CatchUp>,
    /// How long a run may wait before it fails as expired. `None`: it never expires.
    pub expires_after: Option<Duration>,
}

/// The state of a reminder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReminderState {
    /// It fires when it is due.
    Active,
    /// The tenant paused it. It can be resumed.
    Paused,
    /// A run ended in a way that stops the reminder. It can be resumed.
    Stopped(StopReason),
    /// No occurrence is left.
    Finished,
    /// The tenant cancelled it.
    Cancelled,
}

impl ReminderState {
    /// Returns the name of the state, without the reason.
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

/// The name of a state, without the reason, as filters use it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReminderStateName {
    /// It fires when it is due.
    Active,
    /// The tenant paused it.
    Paused,
    /// A run ended in a way that stops the reminder.
    Stopped,
    /// No occurrence is left.
    Finished,
    /// The tenant cancelled it.
    Cancelled,
}

impl ReminderStateName {
    /// All states.
    pub const ALL: [Self; 5] = [Self::Active, Self::Paused, Self::Stopped, Self::Finished, Self::Cancelled];

    /// Returns the name as it is written in the API and in metrics.
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

/// The text is not the name of a state of a reminder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be active, paused, stopped, finished or cancelled")]
pub struct ReminderStateError;

impl FromStr for ReminderStateName {
    type Err = ReminderStateError;

    fn from_str(text: &str) -> Result<Self, ReminderStateError> {
        Self::ALL.into_iter().find(|state| state.name() == text).ok_or(ReminderStateError)
    }
}

/// The id of a run: a reminder and the number of the run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RunId {
    /// The reminder.
    pub reminder: ReminderId,
    /// The number of the run, from 1 on.
    pub number: u32,
}

/// Writes the `webhook-id` of the run's requests.
impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.reminder, self.number)
    }
}

/// One run of a reminder.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The id of the run.
    pub id: RunId,
    /// The occurrence for which the run was fired.
    pub scheduled_at: Timestamp,
    /// The number of occurrences before this one that were missed and not fired.
    pub skipped: u32,
    /// When its first request began. `None`: none has begun.
    pub sent_at: Option<Timestamp>,
    /// The delivery of the run, with its state.
    pub delivery: Delivery,
}
