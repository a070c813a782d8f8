//! Tenants: whose endpoints they are, and what holds for all of them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::{CircuitBy, Timestamp};
use serde::{Deserialize, Serialize};

use super::{ReminderRules, Revision, SigningSecrets};
use crate::delivery::{RetrySchedule, Rulings};
use crate::notifications::NoticeTarget;

/// The longest name of a tenant, in bytes.
const MAX_LENGTH: usize = 64;

/// Names a tenant. The gateway's owner chooses it; it begins the key of each of the tenant's circuits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TenantId(Arc<str>);

impl TenantId {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks the name of a tenant that is created. A name of dots alone can't be written in a path: `/v1/tenants/..` is
    /// `/v1`, so such a tenant could never be changed or deleted.
    ///
    /// # Errors
    /// If it consists of dots. A tenant that has such a name already is still read.
    pub fn check_new(&self) -> Result<(), DotsOnly> {
        if self.0.bytes().all(|byte| byte == b'.') { Err(DotsOnly) } else { Ok(()) }
    }
}

/// The number of a tenant. Unlike its name, it is never used again: what a deleted tenant leaves is bound to its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TenantNumber(pub i64);

/// Why a tenant of this name can't be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must not consist of dots: such a name can't be written in a path; add a letter or a digit")]
pub struct DotsOnly;

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why something can't name a tenant.
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

/// A client of the gateway's owner.
#[derive(Clone, PartialEq, Debug)]
pub struct Tenant {
    /// Its name in keys, paths and answers.
    pub id: TenantId,
    /// What can be changed.
    pub settings: TenantSettings,
    /// With which deliveries to dynamic URLs are signed.
    pub secrets: SigningSecrets,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub changed_at: Timestamp,
    /// Which change that was.
    pub revision: Revision,
}

/// What can be changed of a tenant. What is not set has the gateway's default.
#[derive(Clone, PartialEq, Debug)]
pub struct TenantSettings {
    /// For people.
    pub name: String,
    /// Whether anything is sent; off parks.
    pub enabled: bool,
    /// The policy of its circuits, as JSON with the names of the policy file.
    pub policy: Option<serde_json::Value>,
    /// Who shares a circuit.
    pub circuit_by: CircuitBy,
    /// When failed attempts are tried again.
    pub retry: Option<RetrySchedule>,
    /// How answers are read where this tenant differs.
    pub rulings: Rulings,
    /// How much may wait.
    pub backlog: Option<Backlog>,
    /// How many events it may submit.
    pub ingest_rate: Option<RateLimit>,
    /// After how long waiting work is given up, unless endpoint or event say otherwise.
    pub expires_after: Option<Duration>,
    /// What holds for its reminders.
    pub reminders: ReminderRules,
    /// Where its notices go.
    pub notices: Vec<NoticeTarget>,
}

impl TenantSettings {
    /// Those of a tenant of whom nothing is known but its name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            enabled: true,
            policy: None,
            circuit_by: CircuitBy::default(),
            retry: None,
            rulings: Rulings::default(),
            backlog: None,
            ingest_rate: None,
            expires_after: None,
            reminders: ReminderRules::default(),
            notices: Vec::new(),
        }
    }
}

/// How much of a tenant's work may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Backlog {
    /// Deliveries.
    pub count: u64,
    /// Bytes of their payloads, each delivery counted.
    pub bytes: u64,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { count: 1_000_000, bytes: 4 << 30 }
    }
}

/// So many in a second, and so many at once.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RateLimit {
    /// In a second, on the average; at least one in a day.
    pub per_second: f64,
    /// At once, after a pause; at least one.
    pub burst: u32,
}

/// Why a rate limit is refused.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RateLimitError {
    /// Too slow, too fast, or no number.
    #[error("rate.per_second: must be from one in a day (0.0000116) to 1000000, but is {0}")]
    PerSecond(f64),
    /// Nothing could ever be sent.
    #[error("rate.burst: must be at least 1")]
    Burst,
}

impl RateLimit {
    /// One in a day.
    pub const MIN_PER_SECOND: f64 = 1.0 / 86_400.0;
    /// A million in a second.
    pub const MAX_PER_SECOND: f64 = 1_000_000.0;

    /// Whether it makes sense.
    ///
    /// # Errors
    /// Names the field that does not.
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
