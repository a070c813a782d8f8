//! The policy file, in TOML and JSON: every key, every default, every error.

use breakerbox_core::{POLICY_KEYS, Policy, PolicyBuilder, Preset, format_duration};

use crate::rig::{ms, secs};

fn toml_error(text: &str) -> String {
    match toml::from_str::<PolicyBuilder>(text) {
        Ok(builder) => builder.build().unwrap_err().to_string(),
        Err(error) => error.message().to_string(),
    }
}

#[test]
fn every_key_is_read() {
    let text = r#"
        window = "2m"
        min_calls = 20
        failure_rate = 40
        failures = 30
        consecutive_failures = 6
        mean_latency = "3s"
        slow_call = "2s"
        slow_rate = 60
        cool_off = "10s"
        cool_off_factor = 1.5
        cool_off_max = "5m"
        jitter = 0
        probes = 2
        probe_timeout = "4s"
        ramp_cap = 32
        forgive_after = "1h"
        disable_after = 8
        disable_min = "72h"
        cancel_grace = "250ms"
        recovery_rate = 90
        sample_recent = 5
    "#;
    let policy = toml::from_str::<PolicyBuilder>(text).unwrap().build().unwrap();
    let expected = Policy::builder()
        .window(secs(120))
        .min_calls(20)
        .failure_rate(40)
        .failures(30)
        .consecutive_failures(6)
        .mean_latency(secs(3))
        .slow_call(secs(2))
        .slow_rate(60)
        .cool_off(secs(10))
        .cool_off_factor(1.5)
        .cool_off_max(secs(300))
        .jitter(0)
        .probes(2)
        .probe_timeout(secs(4))
        .ramp_cap(32)
        .forgive_after(secs(3_600))
        .disable_after(8)
        .disable_min(secs(72 * 3_600))
        .cancel_grace(ms(250))
        .recovery_rate(90)
        .sample_recent(5)
        .build()
        .unwrap();
    assert_eq!(policy, expected);
    assert_eq!(
        text.lines().filter(|line| line.contains('=')).count() + 1,
        POLICY_KEYS.len(),
        "and the preset"
    );
}

#[test]
fn json_has_the_same_names() {
    let json = r#"{"preset": "stoplight", "consecutive_failures": 4, "cool_off": "90s", "ramp_cap": "off"}"#;
    let policy = serde_json::from_str::<PolicyBuilder>(json).unwrap().build().unwrap();
    assert_eq!((policy.consecutive_failures(), policy.ramp_cap()), (Some(4), None));
    assert_eq!((policy.cool_off(), policy.cool_off_factor()), (secs(90), 1.0));
}

#[test]
fn an_empty_file_is_the_defaults() {
    let policy = toml::from_str::<PolicyBuilder>("").unwrap().build().unwrap();
    assert_eq!(policy, Policy::default());
}

#[test]
fn off_turns_rules_the_ramp_and_disabling_off() {
    let text = r#"
        preset = "convoy"
        failure_rate = "off"
        failures = 9
        mean_latency = "off"
        slow_call = "off"
        slow_rate = "off"
        consecutive_failures = "off"
        ramp_cap = "off"
        disable_after = "off"
    "#;
    let policy = toml::from_str::<PolicyBuilder>(text).unwrap().build().unwrap();
    assert_eq!((policy.failure_rate(), policy.failures()), (None, Some(9)));
    assert_eq!((policy.ramp_cap(), policy.disable_after()), (None, None));
}

#[test]
fn a_preset_can_be_given_anywhere_in_the_file() {
    let text = "failure_rate = 80\npreset = \"convoy\"";
    let policy = toml::from_str::<PolicyBuilder>(text).unwrap().build().unwrap();
    assert_eq!((policy.failure_rate(), policy.window()), (Some(80), secs(300)));
}

#[test]
fn every_mistake_names_its_field_and_what_to_do() {
    let table = [
        ("failure_rate = 0", "failure_rate: must be 1 to 100, but is 0"),
        ("failure_rate = 101", "failure_rate: must be 1 to 100, but is 101"),
        ("failure_rate = -1", "failure_rate: must not be negative, but is -1"),
        ("failure_rate = 0.5", "failure_rate: must be a whole number or \"off\", but is 0.5"),
        (
            "failure_rate = \"50%\"",
            "failure_rate: must be a whole number or \"off\", but is the text \"50%\"",
        ),
        ("failure_rate = 50.0", "failure_rate: must be a whole number or \"off\", but is 50.0"),
        (
            "failure_rate = 99999999999999999999",
            "failure_rate: must be a whole number or \"off\", but is 99999999999999999999",
        ),
        ("failure_rate = true", "failure_rate: must be a whole number or \"off\", but is true"),
        ("failures = 0", "failures: must be 1 to 1000000000, but is 0"),
        ("consecutive_failures = 0", "consecutive_failures: must be 1 to 1000000000, but is 0"),
        ("min_calls = 0", "min_calls: must be 1 to 1000000000, but is 0"),
        ("min_calls = \"off\"", "min_calls: can't be \"off\"; set a value, or omit it for the default"),
        ("min_calls = [1]", "min_calls: must be a whole number, but is a list"),
        ("[min_calls]\na = 1", "min_calls: must be a whole number, but is a table"),
        ("window = \"0s\"", "window: must be longer than zero, such as \"60s\""),
        (
            "window = 60",
            "window: \"60\" needs a unit; write \"60s\" for 60 seconds, or use the unit ms, m, h or d",
        ),
        ("window = true", "window: must be a duration such as \"30s\", but is true"),
        (
            "window = \"1 minute\"",
            "window: \"1 minute\" has an unknown unit; the units are ms, s, m, h and d, such as \"30s\"",
        ),
        ("window = \"40000d\"", "window: \"40000d\" is too long; the longest is 36500d"),
        (
            "window = \"99999999999999999999999s\"",
            "window: \"99999999999999999999999s\" is too long; the longest is 36500d",
        ),
        ("mean_latency = \"0ms\"", "mean_latency: must be longer than zero, such as \"5s\""),
        (
            "mean_latency = 5",
            "mean_latency: \"5\" needs a unit; write \"5s\" for 5 seconds, or use the unit ms, m, h or d",
        ),
        ("mean_latency = 0.5", "mean_latency: must be a duration such as \"30s\", or \"off\", but is 0.5"),
        ("slow_rate = 50", "slow_rate: needs slow_call, the latency from which on a call is slow"),
        ("slow_call = \"0s\"", "slow_call: must be longer than zero, such as \"2s\""),
        ("cool_off = \"0s\"", "cool_off: must be longer than zero, such as \"30s\""),
        ("cool_off = \"11m\"", "cool_off: must be at most cool_off_max (5m), but is 11m"),
        ("cool_off_max = \"500ms\"", "cool_off_max: must be at least cool_off (1s), but is 500ms"),
        ("cool_off_max = \"0s\"", "cool_off_max: must be longer than zero, such as \"5m\""),
        ("cool_off_factor = 0.9", "cool_off_factor: must be a number of at least 1, but is 0.9"),
        ("cool_off_factor = nan", "cool_off_factor: must be a number of at least 1, but is NaN"),
        ("cool_off_factor = inf", "cool_off_factor: must be a number of at least 1, but is inf"),
        ("cool_off_factor = \"two\"", "cool_off_factor: must be a number, but is the text \"two\""),
        ("jitter = 101", "jitter: must be 0 to 100, but is 101"),
        ("probes = 0", "probes: must be 1 to 1000000, but is 0"),
        ("probe_timeout = \"0s\"", "probe_timeout: must be longer than zero, such as \"10s\""),
        ("ramp_cap = 0", "ramp_cap: must be 1 to 1000000, but is 0"),
        ("forgive_after = \"0s\"", "forgive_after: must be longer than zero, such as \"10s\""),
        ("disable_after = 0", "disable_after: must be 1 to 1000000, but is 0"),
        ("recovery_rate = 0", "recovery_rate: must be 1 to 100, but is 0"),
        ("windw = \"1m\"", "windw: is not a policy key; did you mean window?"),
        ("colour = 1", &format!("colour: is not a policy key; the keys are {}", POLICY_KEYS.join(", "))),
        (
            "preset = \"convoi\"",
            "preset: \"convoi\" is not a preset; did you mean convoy? (presets: convoy, reminders, redis_lua, stoplight)",
        ),
        ("preset = 1", "preset: must be the name of a preset, but is 1"),
        (
            "failure_rate = \"off\"\nconsecutive_failures = \"off\"",
            "policy: no trip rule is set; set at least one of failure_rate, failures, consecutive_failures, mean_latency, slow_rate",
        ),
    ];
    for (text, expected) in table {
        assert_eq!(toml_error(text), expected, "{text}");
    }
}

#[test]
fn the_edges_of_the_ranges_are_inside() {
    let text = r#"
        cool_off = "5m"
        cool_off_factor = 1
        forgive_after = "36500d"
        jitter = 100
        failure_rate = 100
        recovery_rate = 1
        window = "1ms"
    "#;
    let policy = toml::from_str::<PolicyBuilder>(text).unwrap().build().unwrap();
    assert_eq!((policy.cool_off(), policy.cool_off_max()), (secs(300), secs(300)));
    assert_eq!((policy.jitter(), policy.failure_rate(), policy.recovery_rate()), (100, Some(100), 1));
}

#[test]
fn what_may_be_zero_may_be_zero() {
    let text = "disable_min = \"0s\"\ncancel_grace = \"0s\"\njitter = 0";
    let policy = toml::from_str::<PolicyBuilder>(text).unwrap().build().unwrap();
    assert_eq!((policy.disable_min(), policy.cancel_grace()), (secs(0), secs(0)));
}

#[test]
fn a_key_given_twice_is_an_error_in_json_too() {
    let error = serde_json::from_str::<PolicyBuilder>(r#"{"probes": 1, "probes": 2}"#).unwrap_err();
    assert!(error.to_string().starts_with("probes: is given twice"), "{error}");
    let error = serde_json::from_str::<PolicyBuilder>(r#"{"probes": null}"#).unwrap_err();
    assert!(error.to_string().starts_with("probes: must be a whole number, but is null"), "{error}");
}

#[test]
fn errors_do_not_repeat_megabytes() {
    let huge = "x".repeat(10_000_000);
    for text in [format!("window = \"{huge}\""), format!("{huge} = 1"), format!("preset = \"{huge}\"")] {
        assert!(toml_error(&text).len() < 400);
    }
}

#[test]
fn durations_in_code_have_bounds_too() {
    let too_long = Policy::builder().window(std::time::Duration::MAX).build().unwrap_err();
    assert_eq!(too_long.to_string(), "window: is too long; the longest is 36500d");
    let too_short = Policy::builder().window(std::time::Duration::from_micros(999)).build().unwrap_err();
    assert_eq!(too_short.to_string(), "window: must be at least 1ms");
    assert_eq!(too_short.field(), "window");
    let too_short = Policy::builder().mean_latency(std::time::Duration::from_nanos(900)).build().unwrap_err();
    assert_eq!(too_short.to_string(), "mean_latency: must be at least 1ms", "or every call would trip");
}

/// The defaults and presets in `docs/defaults.md` are the same as in the code.
#[test]
fn the_documented_defaults_are_the_real_ones() {
    let document = include_str!("../../../../docs/defaults.md");
    let policy = Policy::default();
    let off = || "off".to_string();
    let number = |n: Option<u64>| n.map_or_else(off, |n| n.to_string());
    let duration = |d: Option<std::time::Duration>| d.map_or_else(off, format_duration);
    let defaults = [
        ("window", duration(Some(policy.window()))),
        ("min_calls", policy.min_calls().to_string()),
        ("failure_rate", number(policy.failure_rate().map(u64::from))),
        ("failures", number(policy.failures())),
        ("consecutive_failures", number(policy.consecutive_failures())),
        ("mean_latency", duration(policy.mean_latency())),
        ("slow_call", duration(policy.slow_call())),
        ("slow_rate", number(policy.slow_rate().map(u64::from))),
        ("cool_off", duration(Some(policy.cool_off()))),
        ("cool_off_factor", policy.cool_off_factor().to_string()),
        ("cool_off_max", duration(Some(policy.cool_off_max()))),
        ("jitter", policy.jitter().to_string()),
        ("probes", policy.probes().to_string()),
        ("probe_timeout", duration(Some(policy.probe_timeout()))),
        ("ramp_cap", number(policy.ramp_cap().map(u64::from))),
        ("forgive_after", duration(Some(policy.forgive_after()))),
        ("disable_after", number(policy.disable_after().map(u64::from))),
        ("disable_min", duration(Some(policy.disable_min()))),
        ("cancel_grace", duration(Some(policy.cancel_grace()))),
        ("recovery_rate", policy.recovery_rate().to_string()),
        ("sample_recent", number(policy.sample_recent().map(u64::from))),
    ];
    assert_eq!(defaults.len() + 1, POLICY_KEYS.len(), "every key but the preset");
    for (key, value) in defaults {
        let row = format!("| `{key}` | `{value}` |");
        assert!(document.contains(&row), "docs/defaults.md has no row that begins with {row}");
    }
    for preset in Preset::ALL {
        assert!(document.contains(&format!("| `{preset}` |")), "docs/defaults.md has no row for {preset}");
    }
}
