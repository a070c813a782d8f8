//! A tenant's settings for its reminders.

use std::time::Duration;

use breakerbox_core::CircuitBy;

use super::Backlog;
use crate::delivery::{ResponseRules, RetrySchedule};
use crate::reminder::{CatchUp, WhenFailed};

/// A tenant's settings for all its reminders. Unset fields take the gateway's default.
#[derive(Clone, PartialEq, Debug)]
pub struct ReminderRules {
    /// The policy for reminder circuits, as JSON with the field names of the policy file. Its values override the
    /// `reminders` preset. The tenant's own policy applies to deliveries only.
    pub policy: Option<serde_json::Value>,
    /// Which URLs share a circuit. Callback URLs usually all differ, but their hosts do not, so by default the
    /// callbacks to one host share a circuit, and a dead host does not hold up the others.
    pub circuit_by: CircuitBy,
    /// The delays before a run's failed attempts are retried. `None`: [`RetrySchedule::for_reminders`].
    pub retry: Option<RetrySchedule>,
    /// The tenant's exceptions to the default response rules for reminders.
    pub response_rules: ResponseRules,
    /// What happens to a reminder when one of its runs has failed for good.
    pub when_failed: WhenFailed,
    /// Which missed occurrences are fired, for reminders that don't set their own `catch_up`.
    pub catch_up: CatchUp,
    /// The timeout for one callback request. `None`: the gateway's default.
    pub timeout: Option<Duration>,
    /// The maximum number of callbacks in flight per circuit. `None`: the gateway's default.
    pub max_in_flight: Option<u32>,
    /// The maximum number of unfinished reminders, and the maximum total size of their payloads. `None`: the defaults
    /// of [`Backlog`].
    pub limit: Option<Backlog>,
}

impl Default for ReminderRules {
    fn default() -> Self {
        Self {
            policy: None,
            circuit_by: CircuitBy::Host,
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
