//! Traffic as logs state it: clock times, HTTP statuses and faults, in JSON and CSV.

use serde_json::{Value, json};

use crate::command::{Ran, Replay, root};

/// A policy with which two consecutive failures trip the circuit and one successful probe closes it, without a ramp.
const SIMPLE: &str =
    "failure_rate = \"off\"\nconsecutive_failures = 2\nprobes = 1\nramp_cap = \"off\"\ncool_off = \"30s\"\n";

/// Formats calls of the key `e1`, one each second: the results as JSON fields.
fn each_second(results: &[&str]) -> String {
    let line = |(second, result): (usize, &&str)| {
        format!("{{\"at\":\"2026-01-31T12:00:{second:02}Z\",\"key\":\"e1\",{result}}}\n")
    };
    results.iter().enumerate().map(line).collect()
}

fn trips(ran: &Ran) -> u64 {
    let summary: Value = serde_json::from_str(&ran.read("s.json")).unwrap();
    summary["total"]["trips"].as_u64().unwrap()
}

#[test]
fn clock_times_come_back_with_each_transition() {
    let traffic = r#"{"at":"2026-01-31T13:00:00.0009+01:00","key":"e1","outcome":"failure"}
{"at":"2026-01-31T12:00:00.250Z","key":"e1","outcome":"failure","retry_after_ms":60000}
{"at":"2026-01-31T12:01:00.250Z","key":"e1","outcome":"success","latency_ms":50}
"#;
    let lines = Replay::new().policy(SIMPLE).lines(traffic);
    let start = 1_769_860_800_000_u64;
    assert_eq!(
        lines,
        [
            json!({"at_ms": start + 250, "at": "2026-01-31T12:00:00.250Z", "key": "e1", "from": "closed", "to": "open",
                   "rule": "consecutive_failures", "retry_at_ms": start + 60_250, "retry_at": "2026-01-31T12:01:00.250Z"}),
            json!({"at_ms": start + 60_250, "at": "2026-01-31T12:01:00.250Z", "key": "e1", "from": "open", "to": "half_open"}),
            json!({"at_ms": start + 60_300, "at": "2026-01-31T12:01:00.300Z", "key": "e1", "from": "half_open", "to": "closed"}),
        ]
    );
}

#[test]
fn decisions_and_both_summaries_have_clock_times_too() {
    let traffic = each_second(&["\"outcome\":\"success\"", "\"outcome\":\"success\""]);
    let ran = Replay::new().args(&["--decisions", "--summary-json", "s.json"]).run(&traffic);
    assert_eq!(ran.lines()[1]["at"], "2026-01-31T12:00:01.000Z", "{}", ran.stderr);
    let summary: Value = serde_json::from_str(&ran.read("s.json")).unwrap();
    assert_eq!(
        (&summary["started_at"], &summary["ended_at"]),
        (&json!("2026-01-31T12:00:00.000Z"), &json!("2026-01-31T12:00:01.000Z"))
    );
    let ran = Replay::new().run(traffic);
    let first = ran.stderr.lines().nth(1);
    assert_eq!(first, Some("1 key over 1s, from 2026-01-31T12:00:00.000Z to 2026-01-31T12:00:01.000Z"));
}

#[test]
fn statuses_and_faults_count_as_they_do_in_the_gateway() {
    let table = [
        ("\"status\":200", 0),
        ("\"status\":422", 0),
        ("\"status\":429", 0),
        ("\"status\":410", 0),
        ("\"status\":404", 1),
        ("\"status\":302", 1),
        ("\"status\":503", 1),
        ("\"status\":999", 1),
        ("\"fault\":\"timeout\"", 1),
        ("\"fault\":\"dns\"", 1),
        ("\"fault\":\"address_denied\"", 1),
    ];
    for (result, expected) in table {
        let replay = Replay::new().policy(SIMPLE).args(&["--summary-json", "s.json"]);
        let ran = replay.run(each_second(&[result, result]));
        assert_eq!(ran.code, 0, "{result}: {}", ran.stderr);
        assert_eq!(trips(&ran), expected, "{result}");
    }
}

#[test]
fn a_rejected_probe_closes_the_circuit() {
    let traffic = "at,key,status\n2026-01-31T12:00:00Z,e1,500\n2026-01-31T12:00:00Z,e1,500\n2026-01-31T12:00:30Z,e1,422\n";
    let lines = Replay::new().policy(SIMPLE).lines(traffic);
    assert_eq!(lines[2]["to"], "closed", "the receiver responded: {lines:?}");
}

#[test]
fn only_429_and_503_can_ask_for_a_delay() {
    for (status, cool_off) in [(500, 30_000), (503, 90_000)] {
        let csv = format!("at_ms,key,status,retry_after_ms\n0,e1,{status},90000\n0,e1,{status},90000\n");
        assert_eq!(Replay::new().policy(SIMPLE).lines(csv)[0]["retry_at_ms"], cool_off, "{status}");
    }
}

/// The example is the story of `traffic.jsonl` as an access log.
#[test]
fn the_access_log_replays_like_the_traffic() {
    let log = std::fs::read_to_string(root().join("examples/access-log.csv")).unwrap();
    let calls = log.lines().count() - 1;
    let story = std::fs::read_to_string(root().join("examples/traffic.jsonl")).unwrap();
    let story: String = story.lines().take(calls).map(|line| format!("{line}\n")).collect();
    let from_log = Replay::new().arg("--decisions").lines(log);
    let from_story = Replay::new().arg("--decisions").lines(story);
    let start = 1_769_860_800_000;
    let without_clock = |mut line: Value| {
        let fields = line.as_object_mut().unwrap();
        assert!(fields.remove("at").is_some());
        fields.remove("retry_at");
        for field in ["at_ms", "retry_at_ms"] {
            if let Some(at_ms) = fields.get(field).and_then(Value::as_u64) {
                fields.insert(field.into(), (at_ms - start).into());
            }
        }
        line
    };
    assert!(from_story.iter().any(|line| line["to"] == "open"));
    assert_eq!(from_log.into_iter().map(without_clock).collect::<Vec<_>>(), from_story);
}

#[test]
fn samples_can_have_clock_times() {
    let json = r#"{"at":"2026-01-31T12:00:00Z","samples":{"e1":{"successes":0,"failures":20}}}"#;
    let csv = "at,key,successes,failures\n2026-01-31T12:00:00Z,e1,0,20\n";
    for traffic in [json, csv] {
        let lines = Replay::new().args(&["--preset", "convoy"]).lines(traffic);
        assert_eq!(lines[0]["retry_at"], "2026-01-31T12:00:30.000Z");
    }
}

#[test]
fn a_bad_line_is_named_with_field_and_reason() {
    let expected_time = "must be an RFC 3339 time such as \"2026-01-31T12:00:00Z\", but is";
    let table = [
        (r#"{"at":"noon","key":"e1","status":200}"#, format!("at: {expected_time} the text \"noon\"")),
        (
            r#"{"at":"2026-01-31T12:00:05","key":"e1","status":200}"#,
            format!(
                "at: {expected_time} the text \"2026-01-31T12:00:05\"; append the offset from UTC, such as Z"
            ),
        ),
        (
            r#"{"at":1769860805000,"key":"e1","status":200}"#,
            format!("at: {expected_time} 1769860805000; for milliseconds, use at_ms"),
        ),
        (
            r#"{"at":"1969-12-31T23:59:59Z","key":"e1","status":200}"#,
            "at: must be in 1970 or later, but is 1969-12-31T23:59:59Z".into(),
        ),
        (
            r#"{"at":"2026-01-31T12:00:00Z","key":"e1","status":200}"#,
            "at: must not decrease, but is 2026-01-31T12:00:00.000Z after 2026-01-31T12:00:01.000Z; sort the traffic by at"
                .into(),
        ),
        (
            r#"{"at_ms":1769860805000,"key":"e1","status":200}"#,
            "at_ms: this file began with at, and a file must use one; use at on every line".into(),
        ),
        (
            r#"{"at_ms":1,"at":"2026-01-31T12:00:05Z","key":"e1","status":200}"#,
            "at: can't be combined with at_ms; keep one".into(),
        ),
        (
            r#"{"at":"2026-01-31T12:00:05Z","key":"e1","status":200,"outcome":"success"}"#,
            "status: can't be combined with outcome; keep one".into(),
        ),
        (
            r#"{"at":"2026-01-31T12:00:05Z","key":"e1","status":200,"fault":"reset"}"#,
            "fault: can't be combined with status; keep one".into(),
        ),
        (
            r#"{"at":"2026-01-31T12:00:05Z","key":"e1","fault":"reset","retry_after_ms":5}"#,
            "retry_after_ms: can't be combined with fault; keep one".into(),
        ),
        (
            r#"{"at":"2026-01-31T12:00:05Z","key":"e1","status":0}"#,
            "status: must be an HTTP status, 100 to 999, but is 0; for a call without a response, use fault".into(),
        ),
        (
            r#"{"at":"2026-01-31T12:00:05Z","key":"e1","status":null}"#,
            "status: must be an HTTP status, 100 to 999, but is null; omit it for a call without a response, and use fault"
                .into(),
        ),
        (
            r#"{"at":"2026-01-31T12:00:05Z","key":"e1","status":"OK"}"#,
            "status: must be an HTTP status, 100 to 999, but is the text \"OK\"".into(),
        ),
        (
            r#"{"at":"2026-01-31T12:00:05Z","key":"e1","fault":"time-out"}"#,
            "fault: must be one of timeout, dns, address_denied, connect, tls, reset, protocol, but is \"time-out\"; did you mean timeout?"
                .into(),
        ),
        (
            r#"{"at":"2026-01-31T12:00:05Z","key":"e1","fault":504}"#,
            "fault: must be the name of a fault such as \"timeout\", but is 504".into(),
        ),
    ];
    for (bad, reason) in table {
        let ran = Replay::new().run(each_second(&["\"status\":200"; 2]) + bad + "\n");
        assert_eq!((ran.code, ran.stderr), (2, format!("breakerbox: standard input: line 3: {reason}\n")));
    }
}

#[test]
fn bad_csv_is_named_with_its_line() {
    let table = [
        ("key,status\n", "line 1: at_ms: is missing in the header; name a column at_ms or at"),
        ("at,at_ms,key,status\n", "line 1: at: can't be combined with at_ms; keep one"),
        ("at,key\n", "line 1: outcome: is missing in the header; name a column outcome, status or fault"),
        (
            "at,key,successes,failures,status\n",
            "line 1: status: can't be combined with samples; a row is a call or a sample",
        ),
        (
            "at_ms,key,status\n2026-01-31T12:00:00Z,e1,200\n",
            "line 2: at_ms: must be a whole number of milliseconds, but is the text \"2026-01-31T12:00:00Z\"; for RFC 3339 times, use at",
        ),
        (
            "at,key,status,fault\n2026-01-31T12:00:00Z,e1,200,\n2026-01-31T12:00:01Z,e1,,\n",
            "line 3: outcome: is missing; a call has an outcome, a status or a fault",
        ),
        ("at,key,status\n,e1,200\n", "line 2: at_ms: is missing; a line has at_ms or at"),
    ];
    for (csv, expected) in table {
        let ran = Replay::new().run(csv);
        assert_eq!((ran.code, ran.stderr), (2, format!("breakerbox: standard input: {expected}\n")));
    }
}
