//! The gateway's defaults for settings that are not set.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Preset;
use breakerbox_model::delivery::RetrySchedule;
use breakerbox_model::notifications::NotificationTarget;
use breakerbox_model::objects::Backlog;
use serde_json::Value;

use super::policy::{PolicyLayers, PolicyOrigin};

/// The values that apply where neither the endpoint nor the tenant sets one.
#[derive(Clone, PartialEq, Debug)]
pub struct Defaults {
    /// The timeout for a whole request.
    pub timeout: Duration,
    /// The maximum number of requests in flight per endpoint.
    pub max_in_flight: u32,
    /// The delays before failed attempts are retried.
    pub retry: RetrySchedule,
    /// The maximum time that a delivery may wait before it expires. `None`: deliveries never expire.
    pub expires_after: Option<Duration>,
    /// The maximum backlog per tenant.
    pub backlog: Backlog,
    /// The maximum number of endpoints per tenant.
    pub endpoints: u32,
    /// The circuit policy from the gateway's configuration, as JSON with the field names of the policy file, if it
    /// sets one.
    pub policy: Option<Value>,
    /// The gateway's built-in policy, for values that the configuration does not set.
    pub built_in_policy: Option<Value>,
    /// The operator's notification targets.
    pub notification_targets: Arc<[NotificationTarget]>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(15),
            max_in_flight: 64,
            retry: RetrySchedule::default(),
            expires_after: None,
            backlog: Backlog::default(),
            endpoints: 10_000,
            policy: None,
            built_in_policy: None,
            notification_targets: Arc::default(),
        }
    }
}

impl Defaults {
    /// Returns the lowest policy layers: the gateway's configuration, and the built-in policy for values that
    /// it does not set.
    #[must_use]
    pub fn policy_layers(&self) -> PolicyLayers {
        PolicyLayers::default()
            .over(PolicyOrigin::Gateway, self.policy.as_ref())
            .over(PolicyOrigin::Default, self.built_in_policy.as_ref())
    }

    /// Returns the lowest policy layers for reminders: the `reminders` preset, with only the `disable_*` values of
    /// the gateway's configuration.
    #[must_use]
    pub fn reminder_layers(&self) -> PolicyLayers {
        let preset = serde_json::json!({ "preset": Preset::Reminders.to_string() });
        self.policy_layers().over(PolicyOrigin::Default, Some(&preset))
    }
}
