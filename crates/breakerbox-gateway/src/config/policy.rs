//! The `[policy]` table: the default circuit policy, which tenants and endpoints can override.
//!
//! The gateway can notify an endpoint's owner, so it disables circuits by default, unlike the library. The timeout of
//! its probes is the endpoint's request timeout plus a margin. The core validates the values.

use std::time::Duration;

use breakerbox_core::{POLICY_KEYS, Policy, PolicyBuilder, PolicyError, Preset};
use breakerbox_model::{PROBE_MARGIN, policy_value};
use serde_json::{Map, Value};

use super::error::Wrong;
use super::format::{Raw, quoted};

/// The number of trips after which the gateway disables a circuit.
const DISABLE_AFTER: u32 = 10;

/// The default circuit policy, which tenants and endpoints can override.
///
/// Values that neither the table nor its preset sets have the gateway's defaults: `disable_after` 10, and
/// `probe_timeout` the endpoint's timeout plus 2 s. All other values have the library's defaults.
///
/// ```
/// use breakerbox_gateway::config::PolicyDefaults;
/// use std::time::Duration;
///
/// let policy = PolicyDefaults::default().build(Duration::from_secs(15))?;
/// assert_eq!(policy.disable_after(), Some(10));
/// assert_eq!(policy.probe_timeout(), Duration::from_secs(17));
/// # Ok::<(), breakerbox_core::PolicyError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PolicyDefaults {
    /// The values set in the table, with the names used in policy files. Their types are already checked.
    set_values: Map<String, Value>,
}

impl PolicyDefaults {
    /// Builds the policy for an endpoint with this timeout and no overrides.
    ///
    /// # Errors
    /// Returns an error for the first value that is out of range or contradicts another value.
    pub fn build(&self, timeout: Duration) -> Result<Policy, PolicyError> {
        let mut builder = builder(&self.layer());
        if self.probe_follows_timeout() {
            builder = builder.probe_timeout(timeout + PROBE_MARGIN);
        }
        builder.build()
    }

    /// Returns the values set in the table, as JSON with the names used in policy files. Tenants and endpoints can
    /// override them.
    #[must_use]
    pub fn set_values(&self) -> Value {
        Value::Object(self.set_values.clone())
    }

    /// Returns the gateway's own defaults for values that neither the table nor its preset sets. `probe_timeout` is not
    /// among them, because it depends on the endpoint's timeout.
    #[must_use]
    pub fn built_in(&self) -> Value {
        let mut built_in = self.layer();
        built_in.retain(|name, _| !self.set_values.contains_key(name));
        Value::Object(built_in)
    }

    /// Returns whether the probe timeout follows the endpoint's timeout (plus 2 s). This is the case if neither the
    /// table nor its preset sets it.
    #[must_use]
    pub fn probe_follows_timeout(&self) -> bool {
        !self.set_values.contains_key("probe_timeout") && !self.preset_names(Policy::probe_timeout)
    }

    fn layer(&self) -> Map<String, Value> {
        let mut layer = self.set_values.clone();
        if !layer.contains_key("disable_after") && !self.preset_names(Policy::disable_after) {
            layer.insert("disable_after".into(), DISABLE_AFTER.into());
        }
        layer
    }

    fn preset(&self) -> Option<Preset> {
        self.set_values.get("preset").and_then(Value::as_str).and_then(|name| name.parse().ok())
    }

    /// Returns whether the preset gives this field a value other than the library's default. `false` without a preset.
    fn preset_names<T: PartialEq>(&self, field: fn(&Policy) -> T) -> bool {
        let of_preset = self.preset().and_then(|preset| Policy::builder().preset(preset).build().ok());
        of_preset.is_some_and(|policy| field(&policy) != field(&Policy::default()))
    }

    /// Sets one policy value. Its type is checked now, its range only when the policy is built.
    pub(super) fn take(&mut self, key: &str, raw: &Raw) -> Result<(), Wrong> {
        let value = json(raw);
        let alone = Value::Object(Map::from_iter([(key.to_owned(), value.clone())]));
        if let Err(error) = serde_json::from_value::<PolicyBuilder>(alone) {
            let text = error.to_string();
            let reason = text.strip_prefix(&format!("{key}: ")).unwrap_or(&text);
            return Err(Wrong::Refused(reason.into()));
        }
        self.set_values.insert(key.into(), value);
        Ok(())
    }

    /// Returns the effective values for an endpoint with this timeout, as pairs of key and TOML value. Empty if the
    /// policy can't be built.
    #[must_use]
    pub fn in_force(&self, timeout: Duration) -> Vec<(&'static str, String)> {
        let Ok(policy) = self.build(timeout) else { return vec![] };
        let shown = |key: &&'static str| Some((*key, shown(&policy, self.preset(), key)?));
        POLICY_KEYS.iter().filter_map(shown).collect()
    }
}

/// Creates a policy builder from these values, whose types are already checked.
fn builder(layer: &Map<String, Value>) -> PolicyBuilder {
    serde_json::from_value(Value::Object(layer.clone())).unwrap_or_default()
}

/// Formats a policy value as TOML. `None` for a preset that is not set.
fn shown(policy: &Policy, preset: Option<Preset>, key: &str) -> Option<String> {
    if key == "preset" {
        return Some(quoted(&preset?.to_string()));
    }
    Some(match policy_value(policy, key)? {
        Value::String(text) => quoted(&text),
        Value::Number(number) => number.as_f64().filter(|_| number.is_f64()).map_or_else(
            || number.to_string(),
            // Writes a factor of 2 as `2`, not `2.0`.
            |factor| factor.to_string(),
        ),
        other => other.to_string(),
    })
}

fn json(raw: &Raw) -> Value {
    match raw {
        // Variables have no types: what looks like a number is a number, the rest is a string.
        Raw::Words(words) => {
            let word = words.last().map(String::as_str).unwrap_or_default();
            let number = || word.parse::<f64>().ok().filter(|number| number.is_finite());
            word.parse::<i64>().map_or_else(|_| number().map_or(word.into(), Value::from), Value::from)
        }
        Raw::Text(text) => text.as_str().into(),
        Raw::Integer(number) => i64::try_from(*number)
            .map(Value::from)
            .or_else(|_| u64::try_from(*number).map(Value::from))
            .unwrap_or_else(|_| number.to_string().into()),
        Raw::Float(number) => (*number).into(),
        Raw::Bool(value) => (*value).into(),
        Raw::List(_) => Value::Array(vec![]),
        Raw::Other(_) => Value::Object(Map::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(set_values: &[(&str, Value)]) -> PolicyDefaults {
        let set_values = set_values.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        PolicyDefaults { set_values }
    }

    #[test]
    fn the_gateways_defaults_hold_where_neither_file_nor_preset_say_otherwise() {
        let hours = |hours: u64| Duration::from_secs(hours * 3_600);
        let secs = Duration::from_secs;
        for (set_values, disable_after, disable_min, probe_timeout) in [
            (with(&[]), Some(10), hours(72), secs(22)),
            (with(&[("disable_after", "off".into())]), None, hours(72), secs(22)),
            (with(&[("disable_min", "1h".into())]), Some(10), hours(1), secs(22)),
            (with(&[("probe_timeout", "3s".into())]), Some(10), hours(72), secs(3)),
            (with(&[("preset", "redis_lua".into())]), Some(10), hours(72), secs(5)),
            (with(&[("preset", "stoplight".into())]), Some(10), hours(72), secs(22)),
            (with(&[("preset", "convoy".into())]), Some(10), hours(0), secs(22)),
        ] {
            let policy = set_values.build(secs(20)).unwrap();
            let found = (policy.disable_after(), policy.disable_min(), policy.probe_timeout());
            assert_eq!(found, (disable_after, disable_min, probe_timeout), "{set_values:?}");
        }
    }

    #[test]
    fn every_key_of_a_policy_is_shown() {
        let defaults = with(&[("preset", "convoy".into())]);
        let shown: Vec<_> =
            defaults.in_force(Duration::from_secs(1)).into_iter().map(|(key, _)| key).collect();
        assert_eq!(shown, POLICY_KEYS);
    }
}
