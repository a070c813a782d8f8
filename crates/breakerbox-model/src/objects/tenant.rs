//! Tenants: the clients that endpoints belong to, and their settings.

use std::time::Duration;

use breakerbox_core::{CircuitBy, Timestamp};
use serde::{Deserialize, Serialize};

use super::{RateLimit, ReminderRules, Revision, SigningSecrets, TenantId};
use crate::delivery::{ResponseRules, RetrySchedule};
use crate::notifications::NotificationTarget;

/// A tenant: a customer of the gateway's operator.
#[derive(Clone, PartialEq, Debug)]
pub struct Tenant {
    /// The tenant's name in circuit keys, paths and responses.
    pub id: TenantId,
    /// The settings that an admin can change.
    pub settings: TenantSettings,
    /// The secrets that sign deliveries to dynamic URLs.
    pub secrets: SigningSecrets,
    /// When the tenant was created.
    pub created_at: Timestamp,
    /// When the tenant was last changed.
    pub changed_at: Timestamp,
    /// The revision, which each change increments.
    pub revision: Revision,
}

/// The settings of a tenant that can be changed. Unset fields take the gateway's default.
#[derive(Clone, PartialEq, Debug)]
pub struct TenantSettings {
    /// A human-readable description.
    pub name: String,
    /// Whether the tenant's deliveries are sent. If not, they are parked.
    pub enabled: bool,
    /// The policy for the tenant's circuits, as JSON with the field names of the policy file. `None`: the gateway's
    /// policy.
    pub policy: Option<serde_json::Value>,
    /// Which destinations share a circuit: those with the same URL, the same host, or all of the tenant's.
    pub circuit_by: CircuitBy,
    /// The delays before failed attempts are retried. `None`: the gateway's default.
    pub retry: Option<RetrySchedule>,
    /// The tenant's exceptions to the default response rules.
    pub response_rules: ResponseRules,
    /// The maximum backlog of waiting deliveries. `None`: the gateway's default.
    pub backlog: Option<Backlog>,
    /// The limit on events submitted per second. `None`: no limit.
    pub ingest_rate: Option<RateLimit>,
    /// The maximum time that a delivery may wait before it fails as expired, unless the endpoint or the event sets
    /// its own. `None`: the gateway's default.
    pub expires_after: Option<Duration>,
    /// The settings for the tenant's reminders.
    pub reminders: ReminderRules,
    /// The targets that the tenant's notifications are sent to.
    pub notification_targets: Vec<NotificationTarget>,
}

impl TenantSettings {
    /// Returns settings with this description and defaults for all other fields.
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

/// An amount of unfinished work, as a limit or as a current count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Backlog {
    /// The number of deliveries or reminders.
    pub count: u64,
    /// The total size of the payloads, in bytes. A payload counts once for each delivery.
    pub bytes: u64,
}

impl Default for Backlog {
    fn default() -> Self {
        Self { count: 1_000_000, bytes: 4 << 30 }
    }
}
