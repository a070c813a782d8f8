//! The names used in policy files, for changes and for views. Both come from one list, so neither can lack a name.

use breakerbox_storage::ExplainedValue;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::api::reading::fields::Change;

/// An effective value and its origin.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = PolicyValue)]
pub(in crate::api) struct ValueView {
    /// The value in the format of the policy file: a number, or a string such as `30s`, `off` or the name of a preset;
    /// null if there is no preset.
    #[schema(value_type = Value, example = json!("1m"))]
    value: Value,
    /// The inherited value: the gateway's for a tenant and its reminders, the tenant's for an endpoint.
    #[schema(value_type = Value, example = json!("1m"))]
    default: Value,
    /// The origin of the value: `default` (built in), `preset NAME`, `gateway` (its configuration), `tenant`,
    /// `reminders` (the tenant's settings for reminders), `endpoint`, or `timeout` (for `probe_timeout`: the request
    /// timeout plus 2 s).
    #[schema(example = "default")]
    origin: String,
}

macro_rules! names {
    ($($(#[doc = $doc:literal])* $name:ident { $($schema:tt)* })*) => {
        /// A change to a policy. Omitted values stay unchanged; null restores the inherited value.
        #[derive(Default, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        #[schema(example = json!({"failure_rate": 50, "cool_off": "30s"}))]
        pub(in crate::api) struct PolicyChange {$(
            $(#[doc = $doc])*
            #[serde(default)]
            #[schema($($schema)*)]
            $name: Change<Value>,
        )*}

        /// The effective values of a policy, each with its origin.
        #[derive(Default, Serialize, ToSchema)]
        #[schema(as = PolicyValues)]
        pub(in crate::api) struct NamesView {$(
            $(#[doc = $doc])*
            $name: ValueView,
        )*}

        impl PolicyChange {
            /// Returns the tenant's or endpoint's own values with the change applied. `None` if no values are left.
            pub(in crate::api) fn onto(self, before: Option<Value>) -> Option<Value> {
                let mut said = match before {
                    Some(Value::Object(said)) => said,
                    _ => Map::new(),
                };
                $(match self.$name {
                    Change::Keep => {}
                    Change::Clear => _ = said.remove(stringify!($name)),
                    Change::Set(value) => _ = said.insert(stringify!($name).to_owned(), value),
                })*
                (!said.is_empty()).then_some(Value::Object(said))
            }
        }

        impl NamesView {
            fn place(&mut self, name: &str) -> Option<&mut ValueView> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

names! {
    /// Preset to start from, with the values of an existing circuit breaker: `convoy`, `reminders`, `redis_lua` or
    /// `stoplight`. Inherited values are ignored.
    preset { value_type = Option<String>, pattern = "^(convoy|reminders|redis_lua|stoplight)$", example = "reminders" }
    /// The length of the rolling window in which outcomes count.
    window { value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "5m" }
    /// The minimum number of calls before rates and means are evaluated.
    min_calls { value_type = Option<u64>, minimum = 1, maximum = 1_000_000_000 }
    /// Trip at this percentage of failures, 1 to 100, or `off`.
    failure_rate { value_type = Option<Value>, example = 70 }
    /// Trip at this many failures, 1 to 1,000,000,000, or `off`.
    failures { value_type = Option<Value>, example = 20 }
    /// Trip at this many consecutive failures, 1 to 1,000,000,000, or `off`.
    consecutive_failures { value_type = Option<Value>, example = "off" }
    /// Trip at this mean latency, or `off`.
    mean_latency { value_type = Option<String>, pattern = "^(off|([0-9]+(d|h|m|s|ms))+)$", example = "5s" }
    /// The minimum latency of a slow call, or `off`.
    slow_call { value_type = Option<String>, pattern = "^(off|([0-9]+(d|h|m|s|ms))+)$", example = "2s" }
    /// Trip at this percentage of slow calls, 1 to 100, or `off`. Needs `slow_call`.
    slow_rate { value_type = Option<Value>, example = 50 }
    /// How long a circuit stays open after the first trip.
    cool_off { value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "30s" }
    /// The factor by which the cool-off grows with each further trip, at least 1.
    cool_off_factor { value_type = Option<f64>, minimum = 1 }
    /// The maximum cool-off.
    cool_off_max { value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "5m" }
    /// The random deviation of the cool-off, in percent, in both directions.
    jitter { value_type = Option<u8>, minimum = 0, maximum = 100 }
    /// The number of successful probes needed to close a circuit.
    probes { value_type = Option<u32>, minimum = 1, maximum = 1_000_000 }
    /// The timeout of a probe.
    probe_timeout { value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "17s" }
    /// The number of concurrent calls at which the ramp after closing ends, 1 to 1,000,000, or `off`.
    ramp_cap { value_type = Option<Value>, example = 64 }
    /// How long a circuit must be closed before its trip count restarts at 0.
    forgive_after { value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "10s" }
    /// The number of trips at which a circuit is disabled, 1 to 1,000,000, or `off`.
    disable_after { value_type = Option<Value>, example = 10 }
    /// The minimum time without a success before a circuit is disabled.
    disable_min { value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "72h" }
    /// How long after its start a call can be cancelled without being counted.
    cancel_grace { value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "1s" }
    /// In sampling mode, the percentage of successes, 1 to 100, at which a half-open circuit closes.
    recovery_rate { value_type = Option<u8>, minimum = 1, maximum = 100 }
    /// In sampling mode, the number of latest samples that are also evaluated separately, 1 to 1,000, or `off`.
    sample_recent { value_type = Option<Value>, example = 3 }
}

impl FromIterator<ExplainedValue> for NamesView {
    fn from_iter<I: IntoIterator<Item = ExplainedValue>>(values: I) -> Self {
        let mut names = Self::default();
        for ExplainedValue { name, value, default, origin } in values {
            if let Some(place) = names.place(name) {
                *place = ValueView { value, default, origin: origin.to_string() };
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use breakerbox_core::{POLICY_BOUNDS, POLICY_KEYS};
    use serde_json::json;

    use super::*;

    #[test]
    fn there_is_a_place_for_every_name_of_the_policy_file_and_no_other() {
        let mut names = NamesView::default();
        assert!(POLICY_KEYS.iter().all(|name| names.place(name).is_some()));
        let shown = serde_json::to_value(&names).unwrap();
        assert_eq!(shown.as_object().unwrap().len(), POLICY_KEYS.len());
        for name in POLICY_KEYS {
            let change: PolicyChange = serde_json::from_value(json!({ *name: 7 })).unwrap();
            assert_eq!(change.onto(None), Some(json!({ *name: 7 })), "{name}");
            let change: PolicyChange = serde_json::from_value(json!({ *name: null })).unwrap();
            assert_eq!(change.onto(Some(json!({ *name: 7 }))), None, "{name}");
        }
    }

    #[test]
    fn the_document_states_the_bounds_that_the_core_checks() {
        let document = crate::api::document();
        let fields = &document["components"]["schemas"]["PolicyChange"]["properties"];
        for (name, bounds) in POLICY_BOUNDS {
            let field = &fields[*name];
            let (min, max) = (*bounds.start(), *bounds.end());
            let thousands = |number: u64| match number {
                0..1_000 => number.to_string(),
                1_000 => "1,000".to_owned(),
                1_000_000 => "1,000,000".to_owned(),
                _ => "1,000,000,000".to_owned(),
            };
            let words = format!("{} to {}", thousands(min), thousands(max));
            let said = field["description"].as_str().unwrap();
            let stated = (field["minimum"].as_u64(), field["maximum"].as_u64());
            assert!(stated == (Some(min), Some(max)) || said.contains(&words), "{name}: {field}");
        }
    }

    #[test]
    fn what_is_left_out_stays() {
        let change: PolicyChange = serde_json::from_value(json!({ "failures": 5, "window": null })).unwrap();
        let after = change.onto(Some(json!({ "window": "5m", "probes": 2, "failures": "off" })));
        assert_eq!(after, Some(json!({ "failures": 5, "probes": 2 })));
    }
}
