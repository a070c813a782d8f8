//! What holds where nothing was set, and how policies lie over each other.

use std::time::Duration;

use breakerbox_core::{Policy, PolicyBuilder};
use serde_json::{Map, Value};

use crate::config::PROBE_MARGIN;
use crate::delivery::RetrySchedule;
use crate::objects::Backlog;
use crate::queue::records::RecordsError;

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
    /// The policy of all circuits, as JSON with the names of the policy file.
    pub policy: Option<Value>,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(15),
            max_in_flight: 64,
            retry: RetrySchedule::default(),
            expires_after: None,
            backlog: Backlog::default(),
            policy: None,
        }
    }
}

/// Policies over each other: the gateway's, the tenant's, the endpoint's. What a layer says replaces what the layers below it
/// said, name by name; one that names a preset begins anew from it.
///
/// ```
/// use breakerbox_gateway::queue::PolicyLayers;
/// use serde_json::json;
/// use std::time::Duration;
///
/// let (gateway, tenant) = (json!({ "window": "1m", "failures": 7 }), json!({ "window": "5m" }));
/// let policy = PolicyLayers::default().over(Some(&gateway)).over(Some(&tenant)).build(Duration::from_secs(15))?;
/// assert_eq!((policy.window().as_secs(), policy.failures()), (300, Some(7)));
/// assert_eq!(policy.probe_timeout(), Duration::from_secs(17), "a probe gets the time of a request, and 2 s");
/// # Ok::<(), breakerbox_gateway::queue::RecordsError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PolicyLayers {
    names: Map<String, Value>,
    wrong: bool,
}

impl PolicyLayers {
    /// With one more on top.
    #[must_use]
    pub fn over(mut self, layer: Option<&Value>) -> Self {
        match layer {
            None | Some(Value::Null) => {}
            Some(Value::Object(names)) => {
                if let Some(preset) = preset(names) {
                    // When an endpoint is given up for good is the gateway's affair, unless the preset has a word on it.
                    let disables = preset.disable_after() != Policy::default().disable_after();
                    self.names.retain(|name, _| name.starts_with("disable_") && !disables);
                }
                self.names.extend(names.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
            Some(_) => self.wrong = true,
        }
        self
    }

    /// The policy that follows for requests with this time limit: unless a layer says otherwise, a probe gets as long and
    /// [`PROBE_MARGIN`].
    ///
    /// # Errors
    /// [`RecordsError::Policy`], which names the field.
    pub fn build(self, timeout: Duration) -> Result<Policy, RecordsError> {
        if self.wrong {
            return Err(RecordsError::Policy("must be an object with the names of the policy file".into()));
        }
        let wrong = |error: &dyn std::fmt::Display| RecordsError::Policy(error.to_string());
        let says_how_long = self.names.contains_key("probe_timeout") || self.preset_says_how_long();
        let builder: PolicyBuilder =
            serde_json::from_value(Value::Object(self.names)).map_err(|error| wrong(&error))?;
        let builder = if says_how_long { builder } else { builder.probe_timeout(timeout + PROBE_MARGIN) };
        builder.build().map_err(|error| wrong(&error))
    }

    fn preset_says_how_long(&self) -> bool {
        preset(&self.names).is_some_and(|policy| policy.probe_timeout() != Policy::default().probe_timeout())
    }
}

/// The policy of the preset that is named, if one is. A name that is none is refused when the policy is built.
fn preset(names: &Map<String, Value>) -> Option<Policy> {
    let preset = names.get("preset")?.as_str()?.parse().ok()?;
    Policy::builder().preset(preset).build().ok()
}
