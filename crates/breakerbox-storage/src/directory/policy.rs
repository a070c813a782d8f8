//! Policies that are layered over each other, and the origin of each resulting value.
//!
//! A layer is a map of values by their names in the policy file. The gateway's layer is the lowest, followed by the
//! tenant's and the endpoint's. Reminders have layers of their own. This module neither reads settings nor stores
//! anything.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use breakerbox_core::{POLICY_KEYS, Policy, PolicyBuilder, Preset};
use breakerbox_model::{PROBE_MARGIN, policy_value};
use serde_json::{Map, Value};

use crate::records::RecordsError;

/// The layer that a policy value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PolicyOrigin {
    /// The library's or the gateway's built-in default.
    Default,
    /// The preset that the policy is based on.
    Preset(Preset),
    /// The gateway's configuration: file, environment variable or flag.
    Gateway,
    /// The tenant's policy.
    Tenant,
    /// The tenant's policy for its reminders.
    Reminders,
    /// The endpoint's own policy.
    Endpoint,
    /// The request timeout. The probe timeout is the request timeout plus [`PROBE_MARGIN`].
    Timeout,
}

impl fmt::Display for PolicyOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Preset(preset) => write!(f, "preset {preset}"),
            Self::Gateway => f.write_str("gateway"),
            Self::Tenant => f.write_str("tenant"),
            Self::Reminders => f.write_str("reminders"),
            Self::Endpoint => f.write_str("endpoint"),
            Self::Timeout => f.write_str("timeout"),
        }
    }
}

/// Policies that are layered over each other. A layer overrides single values of the layers below it; a layer that
/// names a preset starts over from that preset.
///
/// ```
/// use breakerbox_storage::{PolicyLayers, PolicyOrigin};
/// use serde_json::json;
/// use std::time::Duration;
///
/// let layers = PolicyLayers::default()
///     .over(PolicyOrigin::Gateway, Some(&json!({ "window": "1m", "failures": 7 })))
///     .over(PolicyOrigin::Tenant, Some(&json!({ "window": "5m" })));
/// let found = layers.build(Duration::from_secs(15))?;
/// assert_eq!((found.policy.window().as_secs(), found.policy.failures()), (300, Some(7)));
/// assert_eq!(found.policy.probe_timeout(), Duration::from_secs(17), "a probe gets the time of a request, and 2 s");
/// let origins = ["window", "failures", "probe_timeout", "probes"].map(|name| found.origin(name).to_string());
/// assert_eq!(origins, ["tenant", "gateway", "timeout", "default"]);
/// # Ok::<(), breakerbox_storage::RecordsError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PolicyLayers {
    said: BTreeMap<String, (Value, PolicyOrigin)>,
    /// The highest layer that sets a value. `None`: no layer sets one.
    top: Option<PolicyOrigin>,
    /// Whether any layer is not a JSON object. If so, [`build`](Self::build) fails.
    wrong: bool,
}

impl PolicyLayers {
    /// Returns the layers with `layer` on top. Null and `None` change nothing.
    #[must_use]
    pub fn over(mut self, origin: PolicyOrigin, layer: Option<&Value>) -> Self {
        match layer {
            None | Some(Value::Null) => {}
            Some(Value::Object(names)) => {
                if let Some(preset) = preset_in(names.get("preset")).map(policy_of) {
                    // The gateway decides when an endpoint is disabled for good, unless the preset does.
                    let disables = preset.disable_after() != Policy::default().disable_after();
                    self.said.retain(|name, _| name.starts_with("disable_") && !disables);
                }
                self.said.extend(names.iter().map(|(name, value)| (name.clone(), (value.clone(), origin))));
                self.top = Some(origin).filter(|_| !names.is_empty()).or(self.top);
            }
            Some(_) => self.wrong = true,
        }
        self
    }

    /// Builds the policy for requests with this timeout. Unless a layer or its preset sets the probe timeout, it is
    /// `timeout` plus [`PROBE_MARGIN`].
    ///
    /// # Errors
    /// Returns [`RecordsError::Policy`], which names the invalid field and, if a lower layer set that field, the
    /// layer.
    pub fn build(&self, timeout: Duration) -> Result<BuiltPolicy, RecordsError> {
        if self.wrong {
            return Err(RecordsError::Policy(
                "policy: must be an object with the names of the policy file".into(),
            ));
        }
        let names: Map<String, Value> =
            self.said.iter().map(|(name, (value, _))| (name.clone(), value.clone())).collect();
        let builder: PolicyBuilder = serde_json::from_value(Value::Object(names))
            .map_err(|error| RecordsError::Policy(error.to_string()))?;
        let preset = builder.given_preset();
        let preset_says_how_long = preset
            .is_some_and(|preset| policy_of(preset).probe_timeout() != Policy::default().probe_timeout());
        let follows_timeout = !self.said.contains_key("probe_timeout") && !preset_says_how_long;
        let builder = if follows_timeout { builder.probe_timeout(timeout + PROBE_MARGIN) } else { builder };
        let policy = builder.build().map_err(|error| {
            let below = self.said.get(error.field()).map(|(_, origin)| *origin);
            RecordsError::Policy(match below.filter(|origin| Some(*origin) != self.top) {
                Some(origin) => format!("{error}; {} is from: {origin}", error.field()),
                None => error.to_string(),
            })
        })?;
        let said = self.said.iter().map(|(name, (_, origin))| (name.clone(), *origin)).collect();
        Ok(BuiltPolicy { policy, preset, said, follows_timeout })
    }

    /// Returns the value of every setting in the policy file, with its origin and the value that the layers
    /// `below` alone would give it.
    ///
    /// # Errors
    /// The same as for [`build`](Self::build).
    pub fn explained(&self, below: &Self, timeout: Duration) -> Result<Vec<ExplainedValue>, RecordsError> {
        let (built, below) = (self.build(timeout)?, below.build(timeout).ok());
        let explain = |name: &&'static str| ExplainedValue {
            name,
            value: built.value(name),
            default: below.as_ref().map_or(Value::Null, |below| below.value(name)),
            origin: built.origin(name),
        };
        Ok(POLICY_KEYS.iter().map(explain).collect())
    }
}

/// A policy with the origins of its values.
#[derive(Clone, PartialEq, Debug)]
pub struct BuiltPolicy {
    /// The resulting policy.
    pub policy: Policy,
    preset: Option<Preset>,
    said: BTreeMap<String, PolicyOrigin>,
    follows_timeout: bool,
}

impl BuiltPolicy {
    /// Returns the value of the setting with this name in the policy file. Null for unknown names, and for
    /// `preset` if no preset is used.
    #[must_use]
    pub fn value(&self, name: &str) -> Value {
        if name == "preset" {
            return self.preset.map_or(Value::Null, |preset| preset.name().into());
        }
        policy_value(&self.policy, name).unwrap_or(Value::Null)
    }

    /// Returns the layer that the setting with this name comes from. Settings that neither a layer nor its
    /// preset sets come from `Default`.
    #[must_use]
    pub fn origin(&self, name: &str) -> PolicyOrigin {
        if let Some(origin) = self.said.get(name) {
            return *origin;
        }
        if name == "probe_timeout" && self.follows_timeout {
            return PolicyOrigin::Timeout;
        }
        let of_preset = |preset: &Preset| {
            policy_value(&policy_of(*preset), name) != policy_value(&Policy::default(), name)
        };
        self.preset.filter(of_preset).map_or(PolicyOrigin::Default, PolicyOrigin::Preset)
    }
}

/// A policy value with its origin.
#[derive(Clone, PartialEq, Debug)]
pub struct ExplainedValue {
    /// The value's name in the policy file.
    pub name: &'static str,
    /// The value as it is written in the policy file; null for `preset` if no preset is used.
    pub value: Value,
    /// The value that the layers below alone would give; null if they do not form a valid policy.
    pub default: Value,
    /// The layer that the value comes from.
    pub origin: PolicyOrigin,
}

/// Returns the preset that a layer names, if any. Unknown names are rejected when the policy is built.
fn preset_in(value: Option<&Value>) -> Option<Preset> {
    value?.as_str()?.parse().ok()
}

fn policy_of(preset: Preset) -> Policy {
    Policy::builder().preset(preset).build().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(15);

    fn layers(gateway: &Value, tenant: &Value, endpoint: &Value) -> PolicyLayers {
        PolicyLayers::default()
            .over(PolicyOrigin::Gateway, Some(gateway))
            .over(PolicyOrigin::Default, Some(&json!({ "disable_after": 10, "disable_min": "72h" })))
            .over(PolicyOrigin::Tenant, Some(tenant))
            .over(PolicyOrigin::Endpoint, Some(endpoint))
    }

    #[test]
    fn every_value_has_an_origin() {
        let nothing = json!({});
        let table = [
            (layers(&nothing, &nothing, &nothing), "failure_rate", json!(50), "default"),
            (layers(&nothing, &nothing, &nothing), "preset", Value::Null, "default"),
            (layers(&nothing, &nothing, &nothing), "disable_after", json!(10), "default"),
            (layers(&nothing, &nothing, &nothing), "probe_timeout", json!("17s"), "timeout"),
            (layers(&json!({ "probes": 5 }), &nothing, &nothing), "probes", json!(5), "gateway"),
            (
                layers(&json!({ "probes": 5 }), &json!({ "probes": 6 }), &nothing),
                "probes",
                json!(6),
                "tenant",
            ),
            (
                layers(&json!({ "probes": 5 }), &json!({ "probes": 6 }), &json!({ "probes": 7 })),
                "probes",
                json!(7),
                "endpoint",
            ),
            // A value that a layer sets has that layer's origin, even if it equals the default.
            (layers(&nothing, &json!({ "probes": 3 }), &nothing), "probes", json!(3), "tenant"),
            (
                layers(&nothing, &json!({ "failure_rate": "off" }), &nothing),
                "failure_rate",
                json!("off"),
                "tenant",
            ),
            (
                layers(&nothing, &json!({ "preset": "reminders" }), &nothing),
                "preset",
                json!("reminders"),
                "tenant",
            ),
            (
                layers(&nothing, &json!({ "preset": "reminders" }), &nothing),
                "mean_latency",
                json!("5s"),
                "preset reminders",
            ),
            (
                layers(&nothing, &json!({ "preset": "reminders" }), &nothing),
                "failure_rate",
                json!("off"),
                "preset reminders",
            ),
            (
                layers(&nothing, &json!({ "preset": "reminders" }), &nothing),
                "probe_timeout",
                json!("17s"),
                "timeout",
            ),
            (
                layers(&nothing, &json!({ "preset": "redis_lua" }), &nothing),
                "probe_timeout",
                json!("5s"),
                "preset redis_lua",
            ),
            // A preset starts over: the values of lower layers are dropped, except when to disable.
            (
                layers(
                    &json!({ "probes": 5, "disable_min": "1h" }),
                    &json!({ "preset": "reminders" }),
                    &nothing,
                ),
                "probes",
                json!(1),
                "preset reminders",
            ),
            (
                layers(
                    &json!({ "probes": 5, "disable_min": "1h" }),
                    &json!({ "preset": "reminders" }),
                    &nothing,
                ),
                "disable_after",
                json!(10),
                "default",
            ),
            (
                layers(&nothing, &json!({ "preset": "convoy" }), &nothing),
                "disable_after",
                json!(10),
                "preset convoy",
            ),
            (
                layers(&nothing, &json!({ "preset": "convoy" }), &json!({ "window": "9m" })),
                "window",
                json!("9m"),
                "endpoint",
            ),
        ];
        for (layers, name, value, origin) in table {
            let built = layers.build(LIMIT).unwrap();
            assert_eq!(
                (built.value(name), built.origin(name).to_string()),
                (value, origin.into()),
                "{name} {layers:?}"
            );
        }
    }

    #[test]
    fn the_default_is_what_holds_without_a_word_at_this_place() {
        let below = layers(&json!({ "failures": 9 }), &json!({}), &json!({}));
        let tenant = json!({ "preset": "stoplight", "window": "2m" });
        let explained =
            below.clone().over(PolicyOrigin::Tenant, Some(&tenant)).explained(&below, LIMIT).unwrap();
        assert_eq!(explained.iter().map(|one| one.name).collect::<Vec<_>>(), POLICY_KEYS);
        let of = |name: &str| explained.iter().find(|one| one.name == name).cloned().unwrap();
        assert_eq!((of("window").value, of("window").default), (json!("2m"), json!("1m")));
        assert_eq!((of("failures").value, of("failures").default), (json!("off"), json!(9)));
        assert_eq!((of("preset").value, of("preset").default), (json!("stoplight"), Value::Null));
    }

    #[test]
    fn what_does_not_fit_is_named_and_whose_it_is() {
        let nothing = json!({});
        for (layers, expected) in [
            (
                layers(&nothing, &json!({ "windw": "5m" }), &nothing),
                "windw: is not a policy key; did you mean window?",
            ),
            (
                layers(&nothing, &json!({ "failures": 0 }), &nothing),
                "failures: must be 1 to 1000000000, but is 0",
            ),
            (
                layers(&json!({ "cool_off": "5m" }), &json!({ "cool_off_max": "1m" }), &nothing),
                "cool_off: must be at most cool_off_max (1m), but is 5m; cool_off is from: gateway",
            ),
            (
                layers(&nothing, &json!({ "cool_off_max": "500ms" }), &nothing),
                "cool_off_max: must be at least cool_off (1s), but is 500ms",
            ),
            (
                layers(&nothing, &json!([1]), &nothing),
                "policy: must be an object with the names of the policy file",
            ),
        ] {
            let Err(RecordsError::Policy(why)) = layers.build(LIMIT) else { panic!("{layers:?}") };
            assert_eq!(why, expected);
        }
    }
}
