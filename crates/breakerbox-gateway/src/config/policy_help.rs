//! A description of each value in the `[policy]` table, for `--help` and the documentation. `docs/defaults.md` has the
//! reason for each default.

const PRESET: &str = "the name of a preset";
const DURATION: &str = "a duration such as \"30s\"";
const COUNT: &str = "a whole number";
const PERCENT: &str = "a number, in percent";
const FACTOR: &str = "a number such as 1.5";

/// The names used in policy files, each with a description without a full stop, and the form of its values. Values that
/// may be off say so in the description.
const HELP: &[(&str, &str, &str)] = &[
    (
        "preset",
        "Preset to start from, with the values of an existing breaker: convoy, reminders, redis_lua or stoplight",
        PRESET,
    ),
    ("window", "Length of the rolling window in which outcomes count", DURATION),
    ("min_calls", "Minimum number of calls in the window before rates and means are evaluated", COUNT),
    ("failure_rate", "Trip at this percentage of failures, or \"off\"", PERCENT),
    ("failures", "Trip at this number of failures in the window, or \"off\"", COUNT),
    ("consecutive_failures", "Trip at this number of consecutive failures, or \"off\"", COUNT),
    ("mean_latency", "Trip at this mean latency, or \"off\"", DURATION),
    ("slow_call", "Minimum latency of a slow call, or \"off\"", DURATION),
    ("slow_rate", "Trip at this percentage of slow calls, or \"off\"; needs slow_call", PERCENT),
    ("cool_off", "How long a circuit stays open after the first trip", DURATION),
    ("cool_off_factor", "Factor by which the cool-off grows with each further trip", FACTOR),
    ("cool_off_max", "Maximum cool-off", DURATION),
    ("jitter", "Random deviation of the cool-off, in percent, in both directions", PERCENT),
    ("probes", "Number of successful probes that close a circuit", COUNT),
    ("probe_timeout", "Timeout of a probe; by default the timeout of the endpoint plus 2 s", DURATION),
    ("ramp_cap", "Number of calls in flight at which the ramp after closing ends, or \"off\"", COUNT),
    ("forgive_after", "How long a circuit must be closed before its trip count restarts at 0", DURATION),
    ("disable_after", "Number of trips at which a circuit is disabled, or \"off\"", COUNT),
    ("disable_min", "Minimum time that a circuit has been failing before it is disabled", DURATION),
    ("cancel_grace", "How long after its start a call can be cancelled without being counted", DURATION),
    ("recovery_rate", "In sampling mode, percentage of successes that closes a half-open circuit", PERCENT),
    (
        "sample_recent",
        "In sampling mode, number of latest samples that are also evaluated separately, or \"off\"",
        COUNT,
    ),
];

/// Returns the description of a policy value, as a sentence without a full stop.
#[must_use]
pub fn policy_help(key: &str) -> &'static str {
    HELP.iter().find(|(name, ..)| *name == key).map_or("See docs/defaults.md", |(_, help, _)| help)
}

/// Returns the form of a policy value, as a phrase that follows "accepts".
#[must_use]
pub fn policy_form(key: &str) -> &'static str {
    HELP.iter().find(|(name, ..)| *name == key).map_or("a value", |(.., form)| form)
}

#[cfg(test)]
mod tests {
    use breakerbox_core::POLICY_KEYS;

    use super::*;

    #[test]
    fn every_value_of_the_policy_is_described() {
        let described: Vec<_> = HELP.iter().map(|(name, ..)| *name).collect();
        assert_eq!(described, POLICY_KEYS);
    }
}
