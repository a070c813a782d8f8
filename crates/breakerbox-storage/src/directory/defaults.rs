//! What holds where nothing was set.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Preset;
use breakerbox_model::delivery::RetrySchedule;
use breakerbox_model::notifications::NoticeTarget;
use breakerbox_model::objects::Backlog;
use serde_json::Value;

use super::policy::{PolicyLayers, PolicyOrigin};

/// What holds where neither endpoint nor tenant say anything.
#[derive(Clone, PartialEq, Debug)]
pub struct Defaults {
    /// How long a request may take.
    pub timeout: Duration,
    /// How many requests at once for each endpoint.
    pub max_in_flight: u32,
    /// When failed attempts are tried again.
    pub retry: RetrySchedule,
    /// After how long waiting work is given up.
    pub expires_after: Option<Duration>,
    /// How much of a tenant's work may wait.
    pub backlog: Backlog,
    /// How many endpoints a tenant may have.
    pub endpoints: u32,
    /// What the gateway was told about the policy of all circuits, as JSON with the names of the policy file.
    pub policy: Option<Value>,
    /// What it has of its own where it was told nothing.
    pub built_in_policy: Option<Value>,
    /// Where the operator's notices go.
    pub notices: Arc<[NoticeTarget]>,
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
            notices: Arc::default(),
        }
    }
}

impl Defaults {
    /// The lowest layers: what the gateway was told, and what is built in.
    #[must_use]
    pub fn policy_layers(&self) -> PolicyLayers {
        PolicyLayers::default()
            .over(PolicyOrigin::Gateway, self.policy.as_ref())
            .over(PolicyOrigin::Default, self.built_in_policy.as_ref())
    }

    /// The same for reminders: the preset made for them, and of the gateway's only when an endpoint is given up for good.
    #[must_use]
    pub fn reminder_layers(&self) -> PolicyLayers {
        let preset = serde_json::json!({ "preset": Preset::Reminders.to_string() });
        self.policy_layers().over(PolicyOrigin::Default, Some(&preset))
    }
}
