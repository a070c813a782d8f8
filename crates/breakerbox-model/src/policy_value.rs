//! A policy's values, by their names and as they would be written in the policy file. All output of policies uses
//! these functions, so that it is the same everywhere. A policy doesn't record which preset it was made from.

use std::time::Duration;

use breakerbox_core::{POLICY_KEYS, Policy, format_duration};
use serde_json::{Map, Value};

/// How much longer than the request timeout a probe's lease is, unless the policy sets `probe_timeout`.
pub const PROBE_MARGIN: Duration = Duration::from_secs(2);

/// Returns the policy's value for the setting with this name in the policy file, or `None` for `preset` and
/// unknown names.
///
/// ```
/// use breakerbox_core::Policy;
/// use breakerbox_model::policy_value;
///
/// let policy = Policy::default();
/// assert_eq!(policy_value(&policy, "window"), Some("1m".into()));
/// assert_eq!(policy_value(&policy, "failures"), Some("off".into()), "a rule that is not set is off");
/// assert_eq!(policy_value(&policy, "windw"), None);
/// ```
#[must_use]
pub fn policy_value(policy: &Policy, name: &str) -> Option<Value> {
    fn or_off<T: Into<Value>>(value: Option<T>) -> Value {
        value.map_or_else(|| "off".into(), Into::into)
    }
    let span = |value: Duration| Value::from(format_duration(value));
    Some(match name {
        "window" => span(policy.window()),
        "min_calls" => policy.min_calls().into(),
        "failure_rate" => or_off(policy.failure_rate()),
        "failures" => or_off(policy.failures()),
        "consecutive_failures" => or_off(policy.consecutive_failures()),
        "mean_latency" => or_off(policy.mean_latency().map(format_duration)),
        "slow_call" => or_off(policy.slow_call().map(format_duration)),
        "slow_rate" => or_off(policy.slow_rate()),
        "cool_off" => span(policy.cool_off()),
        "cool_off_factor" => policy.cool_off_factor().into(),
        "cool_off_max" => span(policy.cool_off_max()),
        "jitter" => policy.jitter().into(),
        "probes" => policy.probes().into(),
        "probe_timeout" => span(policy.probe_timeout()),
        "ramp_cap" => or_off(policy.ramp_cap()),
        "forgive_after" => span(policy.forgive_after()),
        "disable_after" => or_off(policy.disable_after()),
        "disable_min" => span(policy.disable_min()),
        "cancel_grace" => span(policy.cancel_grace()),
        "recovery_rate" => policy.recovery_rate().into(),
        "sample_recent" => or_off(policy.sample_recent()),
        _ => return None,
    })
}

/// Returns the values of all the policy's settings, except `preset`, by their names in the policy file.
#[must_use]
pub fn policy_values(policy: &Policy) -> Map<String, Value> {
    let named = |name: &&str| Some(((*name).to_owned(), policy_value(policy, name)?));
    POLICY_KEYS.iter().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use breakerbox_core::PolicyBuilder;

    use super::*;

    #[test]
    fn a_policy_is_shown_as_it_could_be_set() {
        let odd = Policy::builder().failures(7).slow_call(Duration::from_millis(1_500)).cool_off_factor(1.5);
        for policy in [Policy::default(), odd.disable_after(3).ramp_cap(None).build().unwrap()] {
            let shown = policy_values(&policy);
            assert!(
                POLICY_KEYS.iter().all(|name| *name == "preset" || shown.contains_key(*name)),
                "{shown:?}"
            );
            let builder: PolicyBuilder = serde_json::from_value(Value::Object(shown)).unwrap();
            assert_eq!(builder.build().unwrap(), policy);
        }
    }
}
