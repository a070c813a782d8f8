//! Reminders: callbacks that are scheduled for a time, once or repeatedly.
//!
//! A reminder **fires** a run when it is due. A run is an event with one delivery, which goes through lanes, gates
//! and attempts like any other; its `webhook-id` consists of the reminder's id and the run's number. Only one run is
//! open at a time: an occurrence that becomes due in the meantime waits until that run ends.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;
use url::Url;

use super::{Delivery, DeliveryId, Priority, ReminderId, Revision, TenantId, TenantNumber};
use crate::reminder::{CatchUp, Schedule, StopReason};

/// A callback that is scheduled for a time, once or repeatedly.
#[derive(Clone, PartialEq, Debug)]
pub struct Reminder {
    /// The reminder's id, `rem_...`.
    pub id: ReminderId,
    /// The name of the tenant that the reminder belongs to.
    pub tenant: TenantId,
    /// The owning tenant's number. A deleted tenant's name may be reused, but its number never is.
    pub owner: TenantNumber,
    /// The settings that the tenant can change.
    pub settings: ReminderSettings,
    /// The size of the payload, in bytes.
    pub payload_size: u64,
    /// The reminder's current state.
    pub state: ReminderState,
    /// The number of runs fired so far.
    pub runs: u32,
    /// The number of occurrences that were not fired, because catch-up fires only the latest one or because the
    /// reminder was paused.
    pub skipped: u64,
    /// The scheduled time of the occurrence for which the latest run was fired. `None`: no run was fired yet.
    pub last_at: Option<Timestamp>,
    /// The latest occurrence that is done. This occurrence and all earlier ones were fired, skipped or cancelled.
    /// `None`: no occurrence is done yet.
    pub done_until: Option<Timestamp>,
    /// When the reminder is due next. `None` while a run is open, or if no occurrence is left.
    pub next_at: Option<Timestamp>,
    /// The delivery of the run in progress. `None`: no run is open.
    pub open_run: Option<DeliveryId>,
    /// When the reminder was created.
    pub created_at: Timestamp,
    /// When a client last changed the reminder.
    pub changed_at: Timestamp,
    /// The revision, which each change increments.
    pub revision: Revision,
}

/// A reminder's changeable settings, without its payload.
#[derive(Clone, PartialEq, Debug)]
pub struct ReminderSettings {
    /// The tenant's own identifier for the reminder, if any. It is unique within the tenant.
    pub reference: Option<String>,
    /// The URL that each run calls.
    pub url: Url,
    /// The media type of the payload, such as `application/json`.
    pub content_type: Arc<str>,
    /// The priority of the reminder's runs.
    pub priority: Priority,
    /// The times at which the reminder is due.
    pub schedule: Schedule,
    /// Which missed occurrences are fired. `None`: as the tenant's settings specify.
    pub catch_up: Option<CatchUp>,
    /// The maximum time that a run may wait before it fails as expired. `None`: runs never expire.
    pub expires_after: Option<Duration>,
}

/// Whether a reminder fires and, if not, why.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReminderState {
    /// The reminder fires when it is due.
    Active,
    /// The tenant paused the reminder. It can be resumed.
    Paused,
    /// A run's result stopped the reminder. It can be resumed.
    Stopped(StopReason),
    /// The schedule has no occurrence left.
    Finished,
    /// The tenant cancelled the reminder.
    Cancelled,
}

impl ReminderState {
    /// Returns the name of the state, without the stop reason.
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

/// A reminder state without its stop reason, as filters use it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReminderStateName {
    /// The reminder fires when it is due.
    Active,
    /// The tenant paused the reminder.
    Paused,
    /// A run's result stopped the reminder.
    Stopped,
    /// The schedule has no occurrence left.
    Finished,
    /// The tenant cancelled the reminder.
    Cancelled,
}

impl ReminderStateName {
    /// All states, the active one first.
    pub const ALL: [Self; 5] = [Self::Active, Self::Paused, Self::Stopped, Self::Finished, Self::Cancelled];

    /// Returns the name used in the API and in metrics.
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

/// The string is not the name of a reminder state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be active, paused, stopped, finished or cancelled")]
pub struct ReminderStateError;

impl FromStr for ReminderStateName {
    type Err = ReminderStateError;

    fn from_str(text: &str) -> Result<Self, ReminderStateError> {
        Self::ALL.into_iter().find(|state| state.name() == text).ok_or(ReminderStateError)
    }
}

/// The id of a run: its reminder and its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RunId {
    /// The reminder that fired the run.
    pub reminder: ReminderId,
    /// The run's number; the first is 1.
    pub number: u32,
}

/// Writes the `webhook-id` of the run's requests.
impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.reminder, self.number)
    }
}

/// One run of a reminder, with its delivery.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The run's id: its reminder and its number.
    pub id: RunId,
    /// The scheduled time of the occurrence for which the run was fired.
    pub scheduled_at: Timestamp,
    /// The number of missed occurrences before `scheduled_at` that were not fired.
    pub skipped: u32,
    /// When the run's first request began. `None`: no request has begun.
    pub sent_at: Option<Timestamp>,
    /// The run's delivery, with its state.
    pub delivery: Delivery,
}
