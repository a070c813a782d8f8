//! The transitions that a replay prints.

use serde_json::{Value, json};

use crate::command::{Replay, call, root};

/// A policy with which three consecutive failures trip the circuit and one successful probe closes it, without a ramp.
const SIMPLE: &str = r#"
    failure_rate = "off"
    consecutive_failures = 3
    probes = 1
    ramp_cap = "off"
    cool_off = "30s"
    cool_off_factor = 2
    disable_min = "0s"
"#;

fn failures(times: &[u64]) -> String {
    times.iter().map(|at_ms| call(*at_ms, "e1", "failure", 0)).collect()
}

fn decisions(lines: &[Value]) -> Vec<&str> {
    lines.iter().filter_map(|line| line["decision"].as_str()).collect()
}

#[test]
fn a_whole_life_as_the_design_writes_it() {
    let traffic = failures(&[0, 10, 20]) + &failures(&[500, 30_019]) + &call(30_020, "e1", "success", 40);
    let lines = Replay::new().policy(SIMPLE).lines(traffic);
    assert_eq!(
        lines,
        [
            json!({"at_ms": 20, "key": "e1", "from": "closed", "to": "open", "rule": "consecutive_failures", "retry_at_ms": 30_020}),
            json!({"at_ms": 30_020, "key": "e1", "from": "open", "to": "half_open"}),
            json!({"at_ms": 30_060, "key": "e1", "from": "half_open", "to": "closed"}),
        ]
    );
}

#[test]
fn decisions_say_what_each_call_would_have_been_told() {
    let policy = SIMPLE.replace("ramp_cap = \"off\"", "");
    let traffic = failures(&[0, 1, 2, 3])
        + &call(30_002, "e1", "success", 100)
        + &call(30_003, "e1", "success", 10)
        + &call(30_102, "e1", "success", 500)
        + &call(30_103, "e1", "success", 10);
    let lines = Replay::new().policy(&policy).arg("--decisions").lines(traffic);
    assert_eq!(
        decisions(&lines),
        ["admitted", "admitted", "admitted", "open", "probe", "probing", "admitted", "ramping"]
    );
    let first = json!({"at_ms": 0, "key": "e1", "decision": "admitted"});
    assert_eq!(lines[0], first);
}

#[test]
fn a_disabled_circuit_says_so() {
    let policy = format!("{SIMPLE}\ndisable_after = 1");
    let lines = Replay::new().policy(&policy).arg("--decisions").lines(failures(&[0, 1, 2, 1_000_000]));
    assert_eq!(
        lines[3],
        json!({"at_ms": 2, "key": "e1", "from": "closed", "to": "disabled", "rule": "consecutive_failures"})
    );
    assert_eq!(lines[4]["decision"], "disabled");
}

#[test]
fn a_permit_settles_after_its_latency_and_before_a_call_at_that_time() {
    let traffic = |last| failures(&[0, 1]) + &call(2, "e1", "failure", 98) + &failures(&[last]);
    let told = |last| {
        let lines = Replay::new().policy(SIMPLE).arg("--decisions").lines(traffic(last));
        decisions(&lines).last().unwrap().to_string()
    };
    assert_eq!(told(99), "admitted", "the third failure is still in flight");
    assert_eq!(told(100), "open", "it settles just before");
}

#[test]
fn settlements_at_the_same_time_keep_the_order_of_their_calls() {
    let third = r#"{"at_ms":3,"key":"e1","outcome":"failure","latency_ms":97,"retry_after_ms":90000}"#;
    let traffic = call(1, "e1", "failure", 99) + &call(2, "e1", "failure", 98) + third + "\n";
    let lines = Replay::new().policy(SIMPLE).lines(traffic);
    assert_eq!(lines[0]["retry_at_ms"], 90_100, "the third of three that settle at 100 trips");
}

#[test]
fn what_is_in_flight_after_the_last_line_is_settled_too() {
    let traffic: String = (0..3).map(|n| call(n, "e1", "failure", 60_000)).collect();
    let lines = Replay::new().policy(SIMPLE).lines(traffic);
    assert_eq!(lines[0]["at_ms"], 60_002);
}

#[test]
fn a_probe_that_takes_too_long_fails_at_its_deadline() {
    let traffic = failures(&[0, 0, 0]) + &call(30_000, "e1", "success", 10_001);
    let lines = Replay::new().policy(SIMPLE).lines(traffic);
    assert_eq!(
        lines[2],
        json!({"at_ms": 40_000, "key": "e1", "from": "half_open", "to": "open", "rule": "probe", "retry_at_ms": 100_000})
    );
    let traffic = failures(&[0, 0, 0]) + &call(30_000, "e1", "success", 10_000);
    let lines = Replay::new().policy(SIMPLE).lines(traffic);
    assert_eq!(
        (&lines[2]["at_ms"], &lines[2]["to"]),
        (&json!(40_000), &json!("closed")),
        "in time is in time"
    );
}

#[test]
fn retry_after_is_heard_at_the_trip() {
    let traffic = failures(&[0, 1])
        + "{\"at_ms\":2,\"key\":\"e1\",\"outcome\":\"failure\",\"latency_ms\":0,\"retry_after_ms\":90000}\n";
    let lines = Replay::new().policy(SIMPLE).lines(traffic);
    assert_eq!(lines[0]["retry_at_ms"], 90_002);
}

#[test]
fn keys_do_not_disturb_each_other() {
    let traffic: String = (0..3).flat_map(|n| ["a", "b"].map(|key| call(n, key, "failure", 0))).collect();
    let lines = Replay::new().policy(SIMPLE).lines(traffic + &call(5, "c", "success", 0));
    let keys: Vec<_> = lines.iter().map(|line| line["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["a", "b"]);
}

#[test]
fn jitter_is_off() {
    let policy = format!("{SIMPLE}\njitter = 100");
    let runs: Vec<_> = (0..3).map(|_| Replay::new().policy(&policy).lines(failures(&[0, 0, 0]))).collect();
    assert!(runs.iter().all(|lines| lines[0]["retry_at_ms"] == 30_000));
}

#[test]
fn a_retry_time_between_two_milliseconds_is_rounded_up() {
    let policy = SIMPLE.replace("\"30s\"", "\"1ms\"").replace("factor = 2", "factor = 1.5");
    let lines = Replay::new().policy(&policy).lines(failures(&[0, 0, 0, 1]));
    assert_eq!(lines[2]["retry_at_ms"], 3, "1 ms + 1.5 ms");
}

#[test]
fn samples_are_evaluated_tick_by_tick() {
    let tick = |at_ms: u64, successes: u64, failures: u64| {
        format!(
            "{{\"at_ms\":{at_ms},\"samples\":{{\"e1\":{{\"successes\":{successes},\"failures\":{failures}}}}}}}\n"
        )
    };
    let traffic = tick(0, 20, 0)
        + &tick(10_000, 3, 7)
        + "{\"at_ms\":39999,\"samples\":{}}\n"
        + &tick(39_999, 0, 9)
        + &tick(40_000, 0, 9)
        + &tick(50_000, 0, 0)
        + &tick(60_000, 2, 1);
    let lines = Replay::new().arg("--preset").arg("convoy").lines(traffic);
    assert_eq!(
        lines,
        [
            json!({"at_ms": 10_000, "key": "e1", "from": "closed", "to": "open", "rule": "failure_rate", "retry_at_ms": 40_000}),
            json!({"at_ms": 40_000, "key": "e1", "from": "open", "to": "half_open"}),
            json!({"at_ms": 60_000, "key": "e1", "from": "half_open", "to": "closed"}),
        ]
    );
}

#[test]
fn a_key_that_a_tick_does_not_name_had_no_calls() {
    let tick = |at_ms: u64, key: &str, failures: u64| {
        format!(
            "{{\"at_ms\":{at_ms},\"samples\":{{\"{key}\":{{\"successes\":9,\"failures\":{failures}}}}}}}\n"
        )
    };
    let traffic =
        tick(0, "e1", 90) + &tick(29_999, "e2", 0) + &tick(30_000, "e2", 0) + &tick(90_000, "e2", 0);
    let lines = Replay::new().args(&["--preset", "convoy"]).lines(traffic);
    let told: Vec<_> = lines.iter().map(|line| (line["at_ms"].as_u64(), line["to"].as_str())).collect();
    assert_eq!(
        told,
        [(Some(0), Some("open")), (Some(30_000), Some("half_open"))],
        "its cool-off is over all the same"
    );
}

#[test]
fn an_empty_tick_changes_nothing() {
    let traffic = "{\"at_ms\":0,\"samples\":{\"e1\":{\"successes\":0,\"failures\":50}}}\n\
                   {\"at_ms\":900000,\"samples\":{}}\n";
    let lines = Replay::new().arg("--preset").arg("convoy").lines(traffic);
    assert_eq!(lines.len(), 1);
}

#[test]
fn sampling_without_a_policy_takes_the_defaults_that_samples_can_feed() {
    let traffic = "{\"at_ms\":0,\"samples\":{\"e1\":{\"successes\":5,\"failures\":5}}}\n";
    let lines = Replay::new().lines(traffic);
    assert_eq!(lines[0]["rule"], "failure_rate");
}

#[test]
fn csv_says_the_same_as_json() {
    let json = std::fs::read_to_string(root().join("examples/traffic.jsonl")).unwrap();
    let mut csv = String::from("key,at_ms,latency_ms,outcome,retry_after_ms\n");
    for line in json.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let retry = line["retry_after_ms"].as_u64().map(|ms| ms.to_string()).unwrap_or_default();
        csv += &format!(
            "{},{},{},{},{retry}\n",
            line["key"].as_str().unwrap(),
            line["at_ms"],
            line["latency_ms"],
            line["outcome"].as_str().unwrap()
        );
    }
    let from_json = Replay::new().arg("--decisions").run(&json);
    let from_csv = Replay::new().arg("--decisions").run(&csv);
    assert_eq!((from_csv.code, from_json.code), (0, 0), "{}", from_csv.stderr);
    assert_eq!(from_csv.stdout, from_json.stdout);
    assert_eq!(from_csv.stderr, from_json.stderr);
}

#[test]
fn csv_samples_have_a_row_for_each_key_and_tick() {
    let csv = "at_ms,key,successes,failures,latency_sum_ms\n0,b,10,0,500\n0,a,0,10,\n30000,b,1,0,\n30000,a,0,9,\n40000,a,1,0,5\n";
    let lines = Replay::new().arg("--preset").arg("convoy").lines(csv);
    let told: Vec<_> = lines.iter().map(|line| (line["key"].as_str(), line["to"].as_str())).collect();
    let a = |to| (Some("a"), Some(to));
    assert_eq!(told, [a("open"), a("half_open"), a("closed")], "rows of one time are one tick");
}

#[test]
fn csv_cells_can_be_quoted() {
    let csv = "at_ms,key,outcome\r\n0,\"a,\"\"b\"\"\",failure\r\n0,\"a,\"\"b\"\"\",failure\r\n0,\"a,\"\"b\"\"\",failure\r\n";
    let lines = Replay::new().policy(SIMPLE).lines(csv);
    assert_eq!(lines[0]["key"], "a,\"b\"");
}

#[test]
fn blank_lines_byte_order_marks_and_windows_line_ends_are_fine() {
    let traffic = format!("\u{feff}\r\n\n{}\r\n\r\n", failures(&[0, 1, 2]).replace('\n', "\r\n"));
    assert_eq!(Replay::new().policy(SIMPLE).lines(traffic).len(), 1);
    let no_newline_at_the_end = failures(&[0, 1, 2]);
    assert_eq!(Replay::new().policy(SIMPLE).lines(no_newline_at_the_end.trim_end()).len(), 1);
    assert_eq!(Replay::new().lines("").len(), 0);
}

#[test]
fn the_format_is_told_by_name_by_flag_or_by_the_first_character() {
    let csv = "at_ms,key,outcome\n0,e1,failure\n1,e1,failure\n2,e1,failure\n";
    assert_eq!(Replay::new().policy(SIMPLE).file("t.csv", csv).arg("t.csv").lines("").len(), 1);
    assert_eq!(Replay::new().policy(SIMPLE).file("t.log", csv).arg("t.log").lines("").len(), 1);
    let quoted = csv.replacen("at_ms,key,outcome", "\"at_ms\",\"key\",\"outcome\"", 1);
    assert_eq!(Replay::new().policy(SIMPLE).lines(format!("\n\n{quoted}")).len(), 1);
    let refused = Replay::new().arg("--format").arg("jsonl").run(csv);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("line 1: is not JSON"), "{}", refused.stderr);
}

#[test]
fn escaped_keys_are_one_key() {
    let line = |key: &str| format!("{{\"key\":\"{key}\",\"at_ms\":0,\"outcome\":\"failure\"}}\n");
    let lines = Replay::new().policy(SIMPLE).lines(line("\\u0061b") + &line("ab") + &line("a\\u0062"));
    assert_eq!(lines[0]["key"], "ab");
}

#[test]
fn a_policy_can_be_json_and_can_be_combined_with_a_preset() {
    let lines = Replay::new()
        .file("p.json", r#"{"consecutive_failures": 2}"#)
        .args(&["--policy", "p.json", "--preset", "stoplight"])
        .lines(failures(&[0, 0]));
    assert_eq!(lines[0]["retry_at_ms"], 60_000, "stoplight's cool-off");
}

#[test]
fn whole_numbers_may_be_written_with_a_fraction_of_zero() {
    let line = "{\"at_ms\":1730000000000.0,\"key\":\"e1\",\"outcome\":\"failure\",\"latency_ms\":1e3}\n";
    let lines = Replay::new().policy(SIMPLE).lines(line.repeat(3));
    assert_eq!(lines[0]["at_ms"], 1_730_000_001_000_u64);
}

#[test]
fn white_space_may_be_part_of_a_key() {
    let csv = "at_ms, key ,outcome\n 0 ,\" a\", failure \n0,\" a\",failure\n0,\" a\",failure\n";
    assert_eq!(Replay::new().policy(SIMPLE).lines(csv)[0]["key"], " a");
}
