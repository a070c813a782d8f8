//! Metrics: those exported, and that the documentation lists exactly those.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use breakerbox_gateway::telemetry::Metrics;
use breakerbox_gateway::telemetry::labels::{Class, Label, Outcome, Waiting};

use crate::root;

/// Returns the name of every exported metric, as used in queries.
fn shown() -> Vec<String> {
    let text = Metrics::new().encode();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types
        .map(|line| match line.split_once(' ').unwrap() {
            (name, "counter") => format!("{name}_total"),
            (name, _) => name.to_owned(),
        })
        .collect()
}

#[test]
fn the_documentation_lists_every_metric_and_no_other() {
    let page = std::fs::read_to_string(root().join("docs/operating/metrics.md")).unwrap();
    let mut listed: Vec<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|rest| rest.split('`').next().unwrap().to_owned())
        .collect();
    let mut shown = shown();
    listed.sort();
    shown.sort();
    assert_eq!(listed, shown);
    for word in
        Class::ALL.iter().map(|class| class.word()).chain(Outcome::ALL.iter().map(|outcome| outcome.word()))
    {
        assert!(page.contains(&format!("`{word}`")), "{word}");
    }
}

#[test]
fn names_say_what_is_measured() {
    for name in shown() {
        assert!(name.starts_with("breakerbox_"), "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert!(!name.contains("_ms") && !name.contains("__"), "{name}");
    }
}

#[test]
fn what_is_counted_is_shown() {
    let metrics = Metrics::new();
    metrics.events_accepted.inc_by(3);
    metrics.attempts.of(Class::Timeout).inc();
    metrics.backlog.of(Waiting::Parked).set(100_000);
    metrics.disk_free.set(1 << 40);
    metrics.delivery_seconds.observe(0.004);
    let text = metrics.encode();
    for line in [
        "breakerbox_events_accepted_total 3",
        "breakerbox_attempts_total{class=\"timeout\"} 1",
        "breakerbox_attempts_total{class=\"2xx\"} 0",
        "breakerbox_backlog_deliveries{lane=\"parked\"} 100000",
        "breakerbox_disk_free_bytes 1099511627776",
        "breakerbox_delivery_seconds_bucket{le=\"0.005\"} 1",
        "breakerbox_delivery_seconds_bucket{le=\"0.0025\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn labels_are_bounded() {
    // Bounded, whatever is delivered where: a tenant, an endpoint or a URL adds no series.
    let series = Metrics::new().encode().lines().filter(|line| !line.starts_with('#')).count();
    assert!(series < 300, "{series} series; is a label unbounded?");
}

/// Returns the path of `promtool`: in `PATH`, or where `cargo xtask test` unpacks it.
fn promtool() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let unpacked = root().join("target/tools/usr/bin");
    let mut found = std::env::split_paths(&path).chain([unpacked]).map(|folder| folder.join("promtool"));
    found
        .find(|file| file.is_file())
        .expect("promtool is missing: run `cargo xtask test`, or install prometheus")
}

#[test]
fn promtool_has_no_complaint() {
    let metrics = Metrics::new();
    metrics.events_accepted.inc_by(3);
    metrics.delivery_seconds.observe(0.004);
    let check = |text: &str| {
        let mut promtool = Command::new(promtool());
        let promtool = promtool.args(["check", "metrics"]).stdin(Stdio::piped());
        let mut promtool = promtool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = promtool.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.success(), said)
    };
    assert_eq!(check(&metrics.encode_classic()), (true, String::new()));
    let (is_good, said) = check("# TYPE a_count counter\na_count 1\n");
    assert!(!is_good && said.contains("_total"), "the check can fail: {said}");
}
