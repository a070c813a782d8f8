//! The stored form of a reminder's settings and state.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_model::objects::{ReminderSettings, ReminderState, ReminderStateName};
use breakerbox_model::reminder::{CatchUp, Schedule, StopReason};
use serde::{Deserialize, Serialize};

use super::codes::JSON;
use super::{Unreadable, parsed};

/// The `state` of a reminder that fires runs.
pub const ACTIVE: i64 = 0;
/// The `state` of a paused reminder.
pub const PAUSED: i64 = 1;
/// The `state` of a reminder that was stopped because of a run's result.
pub const STOPPED: i64 = 2;
/// The `state` of a reminder that has fired its last run.
pub const FINISHED: i64 = 3;
/// The `state` of a cancelled reminder.
pub const CANCELLED: i64 = 4;

/// The column `asked` if no client has requested anything.
pub const NO_REQUEST: i64 = 0;
/// The column `asked` if a client has resumed the reminder.
pub const TO_RESUME: i64 = 1;
/// The column `asked` if a client has requested a run now.
pub const TO_RUN_NOW: i64 = 2;

/// The content of the column `settings`. The reference has a column of its own.
#[derive(Serialize, Deserialize)]
pub struct StoredReminder {
    /// The URL that runs are sent to.
    pub url: String,
    content_type: Option<String>,
    priority: String,
    /// When runs are fired.
    pub schedule: Schedule,
    /// Which missed occurrences are fired. `None`: as the tenant's settings say.
    pub catch_up: Option<CatchUp>,
    expires_after_us: Option<u64>,
}

impl StoredReminder {
    /// Encodes a reminder's settings.
    #[must_use]
    pub fn of(settings: &ReminderSettings) -> Self {
        let expires_after = settings.expires_after.map(|after| u64::try_from(after.as_micros()));
        Self {
            url: settings.url.to_string(),
            content_type: Some(&*settings.content_type).filter(|text| *text != JSON).map(str::to_owned),
            priority: settings.priority.name().to_owned(),
            schedule: settings.schedule.clone(),
            catch_up: settings.catch_up,
            expires_after_us: expires_after.map(|micros| micros.unwrap_or(u64::MAX)),
        }
    }

    /// Reads the JSON of the column.
    ///
    /// # Errors
    /// Returns an error if it is not the JSON of a reminder that this version knows.
    pub fn read(text: &str) -> Result<Self, Unreadable> {
        serde_json::from_str(text).map_err(Unreadable::new)
    }

    /// Returns the JSON for the column.
    #[must_use]
    pub fn write(&self) -> String {
        serde_json::to_string(self).expect("plain structures with texts as keys have a JSON")
    }

    /// Decodes a reminder's settings.
    ///
    /// # Errors
    /// Returns an error if a value is not valid.
    pub fn settings(self, reference: Option<String>) -> Result<ReminderSettings, Unreadable> {
        Ok(ReminderSettings {
            reference,
            url: parsed(&self.url)?,
            content_type: self.content_type.map_or_else(|| Arc::from(JSON), Arc::from),
            priority: parsed(&self.priority)?,
            schedule: self.schedule,
            catch_up: self.catch_up,
            expires_after: self.expires_after_us.map(Duration::from_micros),
        })
    }
}

/// Encodes a state for the column `state`.
#[must_use]
pub const fn state_number(state: ReminderStateName) -> i64 {
    match state {
        ReminderStateName::Active => ACTIVE,
        ReminderStateName::Paused => PAUSED,
        ReminderStateName::Stopped => STOPPED,
        ReminderStateName::Finished => FINISHED,
        ReminderStateName::Cancelled => CANCELLED,
    }
}

/// Encodes a stop reason for the column `reason`.
#[must_use]
pub const fn reason(reason: StopReason) -> i64 {
    match reason {
        StopReason::Rejected => 0,
        StopReason::Gone => 1,
        StopReason::Failed => 2,
        StopReason::Unreadable => 3,
    }
}

/// Decodes a reminder's state from the columns `state` and `reason`.
#[must_use]
pub const fn state(state: i64, reason: Option<i64>) -> ReminderState {
    match state {
        ACTIVE => ReminderState::Active,
        PAUSED => ReminderState::Paused,
        STOPPED => ReminderState::Stopped(match reason {
            Some(0) => StopReason::Rejected,
            Some(1) => StopReason::Gone,
            Some(3) => StopReason::Unreadable,
            _ => StopReason::Failed,
        }),
        FINISHED => ReminderState::Finished,
        _ => ReminderState::Cancelled,
    }
}
