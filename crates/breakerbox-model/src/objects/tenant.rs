//! Tenants: the clients that endpoints belong to, and their settings.

use std::time::Duration;

use breakerbox_core::{CircuitBy, Timestamp};
use serde::{Deserialize, Serialize};

use super::{RateLimit, ReminderRules, Revision, SigningSecrets, TenantId};
use crate::delivery::{ResponseRules, RetrySchedule};
use crate::notifications::NotificationTarget;

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
