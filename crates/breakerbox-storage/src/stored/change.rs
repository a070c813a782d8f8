//! The stored form of a circuit's change, without the values that have their own columns.

use std::sync::Arc;

use breakerbox_core::{Cause, Change, CircuitStatus, Epoch, Mode, Timestamp, Totals};
use serde::{Deserialize, Serialize};

use super::Unreadable;

/// The content of the column `change`.
#[derive(Serialize, Deserialize)]
struct StoredChange {
    from: String,
    to: String,
    cause: Cause,
    retry_at: Option<Timestamp>,
    trips: u32,
    #[serde(default)]
    last_success: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failing_since: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    evidence: Option<Arc<Totals>>,
    mode: Mode,
}

/// Returns the JSON for the column.
///
/// # Errors
/// Returns an error if a value has no JSON.
pub fn write(change: &Change) -> Result<String, serde_json::Error> {
    serde_json::to_string(&StoredChange {
        from: change.from.name().to_owned(),
        to: change.to.name().to_owned(),
        cause: change.cause.clone(),
        retry_at: change.retry_at,
        trips: change.trips,
        last_success: change.last_success,
        failing_since: change.failing_since,
        evidence: change.evidence.clone(),
        mode: change.mode.clone(),
    })
}

/// Reads a change from the JSON of the column, and its time and epoch from their columns.
///
/// # Errors
/// Returns an error if a newer version wrote a change that this version can't read.
pub fn read(text: &str, at: Timestamp, epoch: Epoch) -> Result<Change, Unreadable> {
    let stored: StoredChange = serde_json::from_str(text).map_err(Unreadable::new)?;
    let mut change = Change::new(status(&stored.from), status(&stored.to), at, epoch, stored.cause);
    change.retry_at = stored.retry_at;
    change.trips = stored.trips;
    change.last_success = stored.last_success;
    change.failing_since = stored.failing_since;
    change.evidence = stored.evidence;
    change.mode = stored.mode;
    Ok(change)
}

fn status(name: &str) -> CircuitStatus {
    let known =
        [CircuitStatus::Closed, CircuitStatus::Open, CircuitStatus::HalfOpen, CircuitStatus::Disabled];
    known.into_iter().find(|status| status.name() == name).unwrap_or(CircuitStatus::Closed)
}
