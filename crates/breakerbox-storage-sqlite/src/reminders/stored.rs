//! The stored form of a reminder.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_model::objects::{
    DeliveryId, Reminder, ReminderId, ReminderSettings, ReminderState, ReminderStateName, Revision,
    TenantNumber,
};
use breakerbox_model::reminder::{CatchUp, Schedule, StopReason};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row};
use serde::{Deserialize, Serialize};

use crate::columns::{id, parsed, time, whole};

pub(crate) const ACTIVE: i64 = 0;
pub(crate) const PAUSED: i64 = 1;
pub(crate) const STOPPED: i64 = 2;
pub(crate) const FINISHED: i64 = 3;
pub(crate) const CANCELLED: i64 = 4;

pub(crate) const NO_REQUEST: i64 = 0;
pub(crate) const TO_RESUME: i64 = 1;
pub(crate) const TO_RUN_NOW: i64 = 2;

/// The content of the column `settings`. The reference has a column of its own.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredReminder {
    pub(crate) url: String,
    content_type: Option<String>,
    priority: String,
    pub(crate) schedule: Schedule,
    pub(crate) catch_up: Option<CatchUp>,
    expires_after_us: Option<u64>,
}

const JSON: &str = "application/json";

impl StoredReminder {
    pub(crate) fn of(settings: &ReminderSettings) -> Self {
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

    pub(crate) fn read(column: usize, text: &str) -> rusqlite::Result<Self> {
        serde_json::from_str(text)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
    }

    pub(crate) fn write(&self) -> String {
        serde_json::to_string(self).expect("plain structures with texts as keys have a JSON")
    }

    pub(crate) fn settings(
        self,
        column: usize,
        reference: Option<String>,
    ) -> rusqlite::Result<ReminderSettings> {
        Ok(ReminderSettings {
            reference,
            url: parsed(column, &self.url)?,
            content_type: self.content_type.map_or_else(|| Arc::from(JSON), Arc::from),
            priority: parsed(column, &self.priority)?,
            schedule: self.schedule,
            catch_up: self.catch_up,
            expires_after: self.expires_after_us.map(Duration::from_micros),
        })
    }
}

/// Encodes a state for the column `state`.
pub(crate) const fn state_number(state: ReminderStateName) -> i64 {
    match state {
        ReminderStateName::Active => ACTIVE,
        ReminderStateName::Paused => PAUSED,
        ReminderStateName::Stopped => STOPPED,
        ReminderStateName::Finished => FINISHED,
        ReminderStateName::Cancelled => CANCELLED,
    }
}

/// Encodes a stop reason for the column `reason`.
pub(crate) const fn reason(reason: StopReason) -> i64 {
    match reason {
        StopReason::Rejected => 0,
        StopReason::Gone => 1,
        StopReason::Failed => 2,
        StopReason::Unreadable => 3,
    }
}

/// Decodes a reminder's state from the columns `state` and `reason`.
fn state(state: i64, reason: Option<i64>) -> ReminderState {
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

/// All columns that the API needs, from `reminders r JOIN tenants t`.
pub(crate) const COLUMNS: &str = "r.id, t.id, r.settings, r.reference, r.size, r.state, r.reason, r.runs, \
    r.skipped, r.last_at, r.look_at, r.open_run, r.created_at, r.changed_at, r.revision, r.ran_at, r.tenant";

/// Reads a row of [`COLUMNS`].
pub(crate) fn reminder(row: &Row<'_>) -> rusqlite::Result<Reminder> {
    let stored = StoredReminder::read(2, row.get_ref(2)?.as_str()?)?;
    let at = |column: usize| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(time));
    let changed_at = time(row.get(13)?);
    let open_run = row.get::<_, Option<i64>>(11)?.map(|number| DeliveryId(id(number)));
    Ok(Reminder {
        id: ReminderId(id(row.get(0)?)),
        tenant: parsed(1, row.get_ref(1)?.as_str()?)?,
        owner: TenantNumber(row.get(16)?),
        settings: stored.settings(2, row.get(3)?)?,
        payload_size: whole(row.get(4)?),
        state: state(row.get(5)?, row.get(6)?),
        runs: row.get(7)?,
        skipped: whole(row.get(8)?),
        last_at: at(15)?,
        done_until: at(9)?,
        // A reminder that has to be checked at once has been due since it was changed.
        next_at: at(10)?.filter(|_| open_run.is_none()).map(|next| next.max(changed_at)),
        open_run,
        created_at: time(row.get(12)?),
        changed_at,
        revision: Revision(row.get(14)?),
    })
}

/// Returns the reminder with this id, as the API shows it.
pub(crate) fn show(connection: &Connection, wanted: i64) -> rusqlite::Result<Option<Reminder>> {
    connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM reminders r JOIN tenants t ON t.row = r.tenant WHERE r.id = ?1"
        ))?
        .query_row([wanted], reminder)
        .optional()
}
