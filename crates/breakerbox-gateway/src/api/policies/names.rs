//! The names of the policy file, for changes and for views. Both come from one list, so that the document has each of
//! them and none can be missing.

use breakerbox_storage::ExplainedValue;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::api::reading::fields::Change;

/// A value that is in force, and where it is from.
#[derive(Default, Serialize, ToSchema)]
pub(in crate::api) struct ValueView {
    /// As the policy file writes it: a number, or a text such as `30s`, `off` or the name of a preset; null: no preset.
    #[schema(value_type = Value, example = json!("1m"))]
    value: Value,
    /// What holds if nothing is said here: for a tenant and its reminders the gateway's, for an endpoint the tenant's.
    #[schema(value_type = Value, example = json!("1m"))]
    default: Value,
    /// Where the value is from: `default` (built in), `preset NAME`, `gateway` (its configuration), `tenant`, `reminders` (the
    /// tenant, for those alone), `endpoint`, or `timeout` (a probe may take as long as a request and 2 s).
    #[schema(example = "default")]
    origin: String,
}

macro_rules! names {
    ($($(#[doc = $doc:literal])* $name:ident { $($schema:tt)* })*) => {
        /// What to change of a policy. What is left out stays; null: what is below holds again.
        #[derive(Default, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields)]
        pub(in crate::api) struct PolicyChange {$(
            $(#[doc = $doc])*
            #[serde(default)]
            #[schema($($schema)*)]
            $name: Change<Value>,
        )*}

        /// Every name of the policy file.
        #[derive(Default, Serialize, ToSchema)]
        pub(in crate::api) struct NamesView {$(
            $(#[doc = $doc])*
            #[schema(inline)]
            $name: ValueView,
        )*}

        impl PolicyChange {
            /// What is said after the change, where this was said before; none: nothing.
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
    /// Begin from the numbers of a breaker that people know: `convoy`, `reminders`, `redis_lua` or `stoplight`. What is below it
    /// does not count any more.
    preset { value_type = Option<String>, pattern = "^(convoy|reminders|redis_lua|stoplight)$", example = "reminders" }
    /// The rolling time over which outcomes count.
    window { value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "5m" }
    /// How many calls the rates and the mean need before they say anything.
    min_calls { value_type = Option<u64>, minimum = 1, maximum = 1_000_000_000 }
    /// Trip at this percentage of failures, 1 to 100, or `off`.
    failure_rate { value_type = Option<Value>, example = 70 }
    /// Trip at this many failures, 1 to 1,000,000,000, or `off`.
    failures { value_type = Option<Value>, example = 20 }
    /// Trip at this many failures in a row, 1 to 1,000,000,000, or `off`.
    consecutive_failures { value_type = Option<Value>, example = "off" }
    /// Trip at this mean latency, or `off`.
    mean_latency { value_type = Option<String>, pattern = "^(off|([0-9]+(d|h|m|s|ms))+)$", example = "5s" }
    /// From which latency on a call is slow, or `off`.
    slow_call { value_type = Option<String>, pattern = "^(off|([0-9]+(d|h|m|s|ms))+)$", example = "2s" }
    /// Trip at this percentage of slow calls, 1 to 100, or `off`. Needs `slow_call`.
    slow_rate { value_type = Option<Value>, example = 50 }
    /// How long the first trip keeps a circuit open.
    cool_off { value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "30s" }
    /// By how much that grows with each further trip.
    cool_off_factor { value_type = Option<f64>, minimum = 1 }
    /// The longest that it keeps it open.
    cool_off_max { value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "10m" }
    /// By how many percent that is spread, either way.
    jitter { value_type = Option<u8>, minimum = 0, maximum = 100 }
    /// How many successful probes close a circuit.
    probes { value_type = Option<u32>, minimum = 1, maximum = 1_000_000 }
    /// How long one probe may take.
    probe_timeout { value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "17s" }
    /// How many calls in flight end the ramp after closing, 1 to 1,000,000, or `off`.
    ramp_cap { value_type = Option<Value>, example = 64 }
    /// How long a circuit must have been closed for its earlier trips to be forgotten.
    forgive_after { value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "10m" }
    /// At which trip a circuit is disabled, 1 to 1,000,000, or `off`.
    disable_after { value_type = Option<Value>, example = 10 }
    /// How long there must have been no success for it to be disabled.
    disable_min { value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "72h" }
    /// Until when after its start a call that is given up counts nowhere.
    cancel_grace { value_type = Option<String>, pattern = "^([0-9]+(d|h|m|s|ms))+$", example = "1s" }
    /// In sampling mode: the percentage of successes that closes a half-open circuit.
    recovery_rate { value_type = Option<u8>, minimum = 1, maximum = 100 }
    /// In sampling mode: how many of the latest ticks are judged by themselves, 1 to 1,000, or `off`.
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
