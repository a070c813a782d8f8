//! The settings for all reminders of a tenant. Unset fields take the gateway's default.

use std::time::Duration;

use breakerbox_core::CircuitBy;

use super::Backlog;
use crate::delivery::{ResponseRules, RetrySchedule};
use crate::reminder::{CatchUp, WhenFailed};

/// The settings for all reminders of a tenant.
#[derive(Clone, PartialEq, Debug)]
pub struct ReminderRules {
    /// The policy of the circuits for reminders, as JSON with the field names of the policy file. It is applied over
    /// the preset `reminders`; the tenant's other policy is for deliveries.
    pub policy: Option<serde_json::Value>,
    /// Which URLs share a circuit. Callback URLs usually all differ, so by default all of a tenant's share one.
    pub circuit_by: CircuitBy,
    /// The waits before a failed attempt of a run is retried.
    pub retry: Option<RetrySchedule>,
    /// Response rules where this tenant differs from the default.
    pub response_rules: ResponseRules,
    /// The effect of a run that failed for good on its reminder.
    pub when_failed: WhenFailed,
    /// Which missed occurrences are fired, unless the reminder sets it.
    pub catch_up: CatchUp,
    /// The timeout of a callback.
    pub timeout: Option<Duration>,
    /// The maximum number of callbacks in flight, for each circuit.
    pub max_in_flight: Option<u32>,
    /// The maximum number of reminders that have not ended, and of bytes of their payloads.
    pub limit: Option<Backlog>,
}

impl Default for ReminderRules {
    fn default() -> Self {
        Self {
            policy: None,
            circuit_by: CircuitBy::Tenant,
            retry: None,
            response_rules: ResponseRules::default(),
            when_failed: WhenFailed::Stop,
            catch_up: CatchUp::All,
            timeout: None,
            max_in_flight: None,
            limit: None,
        }
    }
}
