//! What holds for all reminders of a tenant. What is not set has the gateway's default.

use std::time::Duration;

use breakerbox_core::CircuitBy;

use super::Backlog;
use crate::delivery::{RetrySchedule, Rulings};
use crate::reminder::{CatchUp, WhenFailed};

/// What holds for all reminders of a tenant.
#[derive(Clone, PartialEq, Debug)]
pub struct ReminderRules {
    /// The policy of its reminders' circuits, as JSON with the names of the policy file. It lies over the preset
    /// `reminders`; the tenant's other policy is for deliveries.
    pub policy: Option<serde_json::Value>,
    /// Who shares a circuit. Each callback URL differs, so by default all of the tenant's do.
    pub circuit_by: CircuitBy,
    /// When a run that failed is tried again.
    pub retry: Option<RetrySchedule>,
    /// How answers are read where this tenant differs.
    pub rulings: Rulings,
    /// What a run that failed for good means for its reminder.
    pub when_failed: WhenFailed,
    /// What is fired of that which was missed, unless a reminder says otherwise.
    pub catch_up: CatchUp,
    /// How long a callback may take.
    pub timeout: Option<Duration>,
    /// How many callbacks at once, for each circuit.
    pub max_in_flight: Option<u32>,
    /// How many reminders there may be that have not ended, and how many bytes their payloads may have.
    pub limit: Option<Backlog>,
}

impl Default for ReminderRules {
    fn default() -> Self {
        Self {
            policy: None,
            circuit_by: CircuitBy::Tenant,
            retry: None,
            rulings: Rulings::default(),
            when_failed: WhenFailed::Stop,
            catch_up: CatchUp::All,
            timeout: None,
            max_in_flight: None,
            limit: None,
        }
    }
}
