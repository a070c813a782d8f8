//! Tenants: the clients that endpoints belong to, and their settings.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::{CircuitBy, Timestamp};
use serde::{Deserialize, Serialize};

use super::{ReminderRules, Revision, SigningSecrets};
use crate::delivery::{ResponseRules, RetrySchedule};
use crate::notifications::NotificationTarget;

/// The longest name of a tenant, in bytes.
const MAX_LENGTH: usize = 64;

/// The name of a tenant. The operator chooses it; the key of each of the tenant's circuits begins with it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TenantId(Arc<str>);

impl TenantId {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks the name of a tenant that is created. A name of dots alone can't be written in a path: `/v1/tenants/..`
    /// is `/v1`, so such a tenant could never be changed or deleted.
    ///
    /// # Errors
    /// If it consists of dots. An existing tenant with such a name is still read.
    pub fn check_new(&self) -> Result<(), DotsOnly> {
        if self.0.bytes().all(|byte| byte == b'.') { Err(DotsOnly) } else { Ok(()) }
    }
}

/// The number of a tenant. Unlike its name, it is never reused: the remains of a deleted tenant are bound to its
/// number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TenantNumber(pub i64);

/// The name consists of dots, so no tenant of this name can be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must not consist of dots only, because it is part of paths; add a letter or a digit")]
pub struct DotsOnly;

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text can't be the name of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be 1 to {MAX_LENGTH} characters of a-z, A-Z, 0-9, `.`, `_` and `-`")]
pub struct TenantIdError;

impl FromStr for TenantId {
    type Err = TenantIdError;

    fn from_str(text: &str) -> Result<Self, TenantIdError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if text.is_empty() || text.len() > MAX_LENGTH || !text.bytes().all(fits) {
            return Err(TenantIdError);
        }
        Ok(Self(text.into()))
    }
}

/// A client of the gateway's operator.
#[derive(Clone, PartialEq, Debug)]
pub struct Tenant {
    /// The name of the tenant, in keys, paths and responses.
    pub id: TenantId,
    /// The settings that can be changed.
    pub settings: TenantSettings,
    /// The secrets with which deliveries to dynamic URLs are signed.
    pub secrets: SigningSecrets,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub changed_at: Timestamp,
    /// The number of the latest change.
    pub revision: Revision,
}

/// The settings of a tenant that can be changed. Unset fields take the gateway's default.
#[derive(Clone, PartialEq, Debug)]
pub struct TenantSettings {
    /// A description for people.
    pub name: String,
    /// Whether anything is sent. While it is false, deliveries are parked.
    pub enabled: bool,
    /// The policy of its circuits, as JSON with the field names of the policy file.
    pub policy: Option<serde_json::Value>,
    /// Which destinations share a circuit.
    pub circuit_by: CircuitBy,
    /// The waits before failed attempts are retried.
    pub retry: Option<RetrySchedule>,
    /// Response rules where this tenant differs from the default.
    pub response_rules: ResponseRules,
    /// The maximum backlog.
    pub backlog: Option<Backlog>,
    /// The limit on events that it may submit per second.
    pub ingest_rate: Option<RateLimit>,
    /// How long a delivery may wait before it fails as expired, unless the endpoint or the event sets it.
    pub expires_after: Option<Duration>,
    /// The settings for its reminders.
    pub reminders: ReminderRules,
    /// The targets of its notifications.
    pub notification_targets: Vec<NotificationTarget>,
}

impl TenantSettings {
    /// Returns the settings of a tenant with this name. Everything else has its default.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            enabled: true,
            policy: None,
            circuit_by: CircuitBy::default(),
            retry: None,
            response_rules: ResponseRules::default(),
            backlog: None,
            ingest_rate: None,
            expires_after: None,
            reminders: ReminderRules::default(),
            notification_targets: Vec::new(),
        }
    }
}

/// A limit on waiting work of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Backlog {
    /// The number of deliveries.
    pub count: u64,
    /// The number of payload bytes. A payload counts once for each delivery.
    pub bytes: u64,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { count: 1_000_000, bytes: 4 << 30 }
    }
}

/// A rate limit: a number per second and a burst.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RateLimit {
    /// The average number per second; at least one per day.
    pub per_second: f64,
    /// The number that is allowed at once after a pause; at least 1.
    pub burst: u32,
}

/// Why a rate limit is invalid.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RateLimitError {
    /// The rate is out of range or not a number.
    #[error("rate.per_second: must be from one in a day (0.0000116) to 1000000, but is {0}")]
    PerSecond(f64),
    /// The burst is 0, so nothing could ever be sent.
    #[error("rate.burst: must be at least 1")]
    Burst,
}

impl RateLimit {
    /// The lowest rate: one per day.
    pub const MIN_PER_SECOND: f64 = 1.0 / 86_400.0;
    /// The highest rate: a million per second.
    pub const MAX_PER_SECOND: f64 = 1_000_000.0;

    /// Checks that the limit is valid.
    ///
    /// # Errors
    /// Names the field that is not.
    pub fn check(self) -> Result<(), RateLimitError> {
        if !(Self::MIN_PER_SECOND..=Self::MAX_PER_SECOND).contains(&self.per_second) {
            return Err(RateLimitError::PerSecond(self.per_second));
        }
        if self.burst == 0 { Err(RateLimitError::Burst) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_limit_lets_something_through() {
        let table = [
            (1.0, 1, Ok(())),
            (1.0 / 86_400.0, u32::MAX, Ok(())),
            (1e6, 1, Ok(())),
            (1.0, 0, Err(RateLimitError::Burst)),
            (0.0, 1, Err(RateLimitError::PerSecond(0.0))),
            (-1.0, 1, Err(RateLimitError::PerSecond(-1.0))),
            (1e7, 1, Err(RateLimitError::PerSecond(1e7))),
        ];
        for (per_second, burst, expected) in table {
            assert_eq!(RateLimit { per_second, burst }.check(), expected, "{per_second} {burst}");
        }
        assert!(RateLimit { per_second: f64::NAN, burst: 1 }.check().is_err());
    }
}
