//! The stored form of a resend job's filter.

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{DeliveryFilter, StateName};
use serde::{Deserialize, Serialize};

use super::{Unreadable, parsed};

/// The content of the column `wanted` of a resend job.
#[derive(Serialize, Deserialize)]
pub struct StoredFilter {
    tenant: Option<String>,
    endpoint: Option<String>,
    event: Option<String>,
    kind: Option<String>,
    state: String,
    from_us: Option<u64>,
    until_us: u64,
}

impl StoredFilter {
    /// Encodes a filter, with the state and the upper time bound that the job uses.
    #[must_use]
    pub fn of(filter: &DeliveryFilter, state: StateName, until: Timestamp) -> Self {
        Self {
            tenant: filter.tenant.as_ref().map(ToString::to_string),
            endpoint: filter.endpoint.as_ref().map(ToString::to_string),
            event: filter.event.as_ref().map(ToString::to_string),
            kind: filter.kind.as_ref().map(ToString::to_string),
            state: state.name().to_owned(),
            from_us: filter.from.map(Timestamp::as_micros),
            until_us: until.as_micros(),
        }
    }

    /// Returns the JSON for the column.
    #[must_use]
    pub fn write(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers have a JSON")
    }

    /// Reads a filter from the JSON of the column.
    ///
    /// # Errors
    /// Returns an error if a newer version wrote a filter that this version can't read.
    pub fn read(text: &str) -> Result<DeliveryFilter, Unreadable> {
        let stored: Self = serde_json::from_str(text).map_err(Unreadable::new)?;
        Ok(DeliveryFilter {
            tenant: stored.tenant.as_deref().map(parsed).transpose()?,
            endpoint: stored.endpoint.as_deref().map(parsed).transpose()?,
            event: stored.event.as_deref().map(parsed).transpose()?,
            kind: stored.kind.as_deref().map(parsed).transpose()?,
            state: Some(parsed(&stored.state)?),
            from: stored.from_us.map(Timestamp::from_micros),
            until: Some(Timestamp::from_micros(stored.until_us)),
        })
    }
}
