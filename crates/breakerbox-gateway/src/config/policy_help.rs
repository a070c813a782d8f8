//! A description of each value in the `[policy]` table, for `--help` and the documentation. `docs/defaults.md` has the
//! reason for each default.

/// The names used in policy files, each with a description without a full stop.
const HELP: &[(&str, &str)] = &[
    (
        "preset",
        "Preset to start from, with the values of an existing breaker: convoy, reminders, redis_lua or stoplight",
    ),
    ("window", "Length of the rolling window in which outcomes count"),
    ("min_calls", "Minimum number of calls in the window before rates and means are evaluated"),
    ("failure_rate", "Trip at this percentage of failures, or \"off\""),
    ("failures", "Trip at this number of failures in the window, or \"off\""),
    ("consecutive_failures", "Trip at this number of consecutive failures, or \"off\""),
    ("mean_latency", "Trip at this mean latency, or \"off\""),
    ("slow_call", "Minimum latency of a slow call, or \"off\""),
    ("slow_rate", "Trip at this percentage of slow calls, or \"off\"; needs slow_call"),
    ("cool_off", "How long a circuit stays open after the first trip"),
    ("cool_off_factor", "Factor by which the cool-off grows with each further trip"),
    ("cool_off_max", "Maximum cool-off"),
    ("jitter", "Random deviation of the cool-off, in percent, in both directions"),
    ("probes", "Number of successful probes that close a circuit"),
    ("probe_timeout", "Timeout of a probe; by default the timeout of the endpoint plus 2 s"),
    ("ramp_cap", "Number of calls in flight at which the ramp after closing ends, or \"off\""),
    ("forgive_after", "How long a circuit must be closed before its trip count restarts at 0"),
    ("disable_after", "Number of trips at which a circuit is disabled, or \"off\""),
    ("disable_min", "Minimum time that a circuit has been failing before it is disabled"),
    ("cancel_grace", "How long after its start a call can be cancelled without being counted"),
    ("recovery_rate", "In sampling mode, percentage of successes that closes a half-open circuit"),
    (
        "sample_recent",
        "In sampling mode, number of latest samples that are also evaluated separately, or \"off\"",
    ),
];

/// Returns the description of a policy value, as a sentence without a full stop.
#[must_use]
pub fn policy_help(key: &str) -> &'static str {
    HELP.iter().find(|(name, _)| *name == key).map_or("See docs/defaults.md", |(_, help)| help)
}

#[cfg(test)]
mod tests {
    use breakerbox_core::POLICY_KEYS;

    use super::*;

    #[test]
    fn every_value_of_the_policy_is_described() {
        let described: Vec<_> = HELP.iter().map(|(name, _)| *name).collect();
        assert_eq!(described, POLICY_KEYS);
    }
}
