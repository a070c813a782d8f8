//! Invalid input: the line, the field and the reason, exit code 2, and no partial output.

use crate::command::{Replay, call};

/// Returns two valid lines of traffic that cause a transition, followed by an invalid line 3.
fn after_good_lines(bad: &str) -> String {
    call(4, "e1", "failure", 0) + &call(4, "e1", "failure", 0) + bad + "\n" + &call(9, "e1", "success", 0)
}

#[track_caller]
fn refused(input: &str, expected: &str) {
    let ran = Replay::new().policy("consecutive_failures = 2").run(input);
    assert_eq!(ran.stderr, format!("breakerbox: standard input: {expected}\n"));
    assert_eq!(ran.code, 2);
    assert_eq!(ran.lines().len(), 0, "what is in flight at the bad line does not settle");
}

#[test]
fn a_bad_line_is_named_with_field_and_reason() {
    let good = r#""at_ms":6,"key":"e1","outcome":"success""#;
    let table: Vec<(String, &str)> = vec![
        (
            "{".into(),
            "is not JSON: EOF while parsing an object (column 1); each line must be a complete object",
        ),
        ("{\"at_ms\":6,}".into(), "is not JSON: trailing comma (column 12)"),
        ("hello".into(), "is not JSON: expected value (column 1)"),
        (format!("{{{good}}} x"), "is not JSON: trailing characters (column 44)"),
        (
            "[1]".into(),
            "invalid type: sequence, expected an object with at_ms, key and outcome, or with at_ms and samples",
        ),
        ("{}".into(), "at_ms: is missing; a line has at_ms or at"),
        (r#"{"at_ms":6,"outcome":"success"}"#.into(), "key: is missing"),
        (
            r#"{"at_ms":6,"key":"e1"}"#.into(),
            "outcome: is missing; a call has an outcome, a status or a fault",
        ),
        (r#"{"at_ms":-1,"key":"e1","outcome":"success"}"#.into(), "at_ms: must not be negative, but is -1"),
        (
            r#"{"at_ms":6.5,"key":"e1","outcome":"success"}"#.into(),
            "at_ms: must be a whole number of milliseconds, but is 6.5",
        ),
        (
            r#"{"at_ms":"6","key":"e1","outcome":"success"}"#.into(),
            "at_ms: must be a whole number of milliseconds, but is the text \"6\"",
        ),
        (
            r#"{"at_ms":null,"key":"e1","outcome":"success"}"#.into(),
            "at_ms: must be a whole number of milliseconds, but is null",
        ),
        (
            r#"{"at_ms":18446744073709551615,"key":"e1","outcome":"success"}"#.into(),
            "at_ms: must be at most 9007199254740991, but is 18446744073709551615; check that it is in milliseconds",
        ),
        (
            r#"{"at_ms":6,"key":7,"outcome":"success"}"#.into(),
            "key: invalid type: integer `7`, expected a string",
        ),
        (r#"{"at_ms":6,"key":"","outcome":"success"}"#.into(), "key: must not be empty"),
        (
            r#"{"at_ms":6,"key":"e1","outcome":"sucess"}"#.into(),
            "outcome: must be success, failure or ignored, but is \"sucess\"; did you mean success?",
        ),
        (
            r#"{"at_ms":6,"key":"e1","outcome":true}"#.into(),
            "outcome: must be success, failure or ignored, but is true",
        ),
        (format!("{{{good},\"latency_ms\":-5}}"), "latency_ms: must not be negative, but is -5"),
        (
            format!("{{{good},\"latency_ms\":[]}}"),
            "latency_ms: must be a whole number of milliseconds, but is a list",
        ),
        (format!("{{{good},\"latencyms\":5}}"), "latencyms: is not a known field; did you mean latency_ms?"),
        (
            format!("{{{good},\"colour\":5}}"),
            "colour: is not a known field; the fields are at_ms, at, key, outcome, status, fault, latency_ms, retry_after_ms, samples",
        ),
        (format!("{{{good},\"key\":\"e1\"}}"), "key: is given twice; keep one"),
        (
            r#"{"at_ms":3,"key":"e1","outcome":"success"}"#.into(),
            "at_ms: must not decrease, but is 3 after 4; sort the traffic by at_ms",
        ),
        (
            r#"{"at_ms":6,"samples":{}}"#.into(),
            "samples: this file began with calls, and a file must contain one kind; put samples in a separate file",
        ),
        (
            format!("{{{good},\"samples\":{{}}}}"),
            "key: can't be combined with samples; a line is a call or a sample",
        ),
    ];
    for (bad, reason) in table {
        refused(&after_good_lines(&bad), &format!("line 3: {reason}"));
    }
}

#[test]
fn a_bad_sample_is_named_with_its_path() {
    let table = [
        (
            r#"{"at_ms":0,"samples":7}"#,
            "samples: invalid type: integer `7`, expected an object with the totals of each key",
        ),
        (
            r#"{"at_ms":0,"samples":{"e1":7}}"#,
            "samples: invalid type: integer `7`, expected an object with successes and failures for the key \"e1\"",
        ),
        (r#"{"at_ms":0,"samples":{"e1":{"successes":1}}}"#, "samples.e1.failures: is missing"),
        (
            r#"{"at_ms":0,"samples":{"e1":{"successes":1.5,"failures":0}}}"#,
            "samples.e1.successes: must be a whole number, but is 1.5",
        ),
        (
            r#"{"at_ms":0,"samples":{"e1":{"success":1,"failures":0}}}"#,
            "samples.e1.success: is not a known field; did you mean successes?",
        ),
        (
            r#"{"at_ms":0,"samples":{"e1":{"successes":1,"failures":0},"e1":{"successes":1,"failures":0}}}"#,
            "samples.e1: is given twice; keep one",
        ),
        (r#"{"at_ms":0,"samples":{"":{"successes":1,"failures":0}}}"#, "samples: a key: must not be empty"),
    ];
    for (bad, reason) in table {
        let ran = Replay::new().run(format!("{bad}\n"));
        assert_eq!(ran.stderr, format!("breakerbox: standard input: line 1: {reason}\n"));
        assert_eq!(ran.code, 2);
    }
}

#[test]
fn calls_after_samples_are_refused() {
    let ran = Replay::new().run("{\"at_ms\":0,\"samples\":{}}\n".to_string() + &call(1, "e1", "success", 0));
    let expected = "line 2: key: this file began with samples, and a file must contain one kind; put calls in a separate file";
    assert_eq!(ran.stderr, format!("breakerbox: standard input: {expected}\n"));
    assert_eq!(ran.code, 2);
}

#[test]
fn mean_latency_needs_latency_sums() {
    let traffic = "{\"at_ms\":0,\"samples\":{\"e1\":{\"successes\":1,\"failures\":0}}}\n";
    let ran = Replay::new().args(&["--preset", "reminders"]).run(traffic);
    let expected = "line 1: samples.e1.latency_sum_ms: is required, because the policy sets mean_latency";
    assert_eq!((ran.code, ran.stderr), (2, format!("breakerbox: standard input: {expected}\n")));
}

#[test]
fn bad_csv_is_named_with_its_line() {
    let table = [
        (
            "at_ms,key\n0,e1\n",
            "line 1: outcome: is missing in the header; name a column outcome, status or fault",
        ),
        ("at_ms,outcome\n0,success\n", "line 1: key: is missing in the header, which must name every column"),
        ("at_ms,key,outcome,latency\n", "line 1: latency: is not a known field; did you mean latency_ms?"),
        ("at_ms,key,outcome,key\n", "line 1: key: is given twice; keep one"),
        (
            "at_ms,key,successes,failures,outcome\n",
            "line 1: outcome: can't be combined with samples; a row is a call or a sample",
        ),
        ("at_ms,key,successes\n", "line 1: failures: is missing in the header, which must name every column"),
        ("at_ms,key,outcome\n0,e1,success\n1,e1\n", "line 3: has 2 cells, but the header has 3"),
        (
            "at_ms,key,outcome\n0,e1,success\nx,e1,success\n",
            "line 3: at_ms: must be a whole number of milliseconds, but is the text \"x\"",
        ),
        (
            "at_ms,key,outcome\n0,e1,success\n,e1,success\n",
            "line 3: at_ms: is missing; a line has at_ms or at",
        ),
        (
            "at_ms,key,outcome\n0,e1,ok\n",
            "line 2: outcome: must be success, failure or ignored, but is \"ok\"",
        ),
        (
            "at_ms,key,outcome\n7,e1,success\n\n6,e1,success\n",
            "line 4: at_ms: must not decrease, but is 6 after 7; sort the traffic by at_ms",
        ),
        (
            "at_ms,key,outcome,latency_ms\n0,e1,success,1.5\n",
            "line 2: latency_ms: must be a whole number of milliseconds, but is 1.5",
        ),
        ("at_ms,key,successes,failures\n0,,1,1\n", "line 2: key: is missing"),
        ("at_ms,key,successes,failures\n0,a,1,1\n0,b,1,1\n0,a,1,1\n", "line 4: a: is given twice; keep one"),
        (
            "at_ms,key,successes,failures\n5,a,1,1\n4,a,1,1\n",
            "line 3: at_ms: must not decrease, but is 4 after 5; sort the traffic by at_ms",
        ),
        ("at_ms,key,outcome,\n", "line 1: has a column without a name; check for an extra comma"),
        (
            "x,b,c,d,e,f,g,h,i,j\n",
            "line 1: x: is not a known field; the fields are at_ms, at, key, outcome, status, fault, latency_ms, retry_after_ms, successes, failures, latency_sum_ms",
        ),
        ("at_ms,key,outcome\n0,\"e1,success\n", "line 2: has a quote that is not closed; a row is one line"),
        ("at_ms,key,outcome\n0,e1,success,,,,,,,,,\n", "line 2: has 12 cells, but the header has 3"),
    ];
    for (csv, expected) in table {
        let ran = Replay::new().run(csv);
        assert_eq!((ran.code, ran.stderr), (2, format!("breakerbox: standard input: {expected}\n")));
    }
}

#[test]
fn text_that_is_not_utf_8_is_refused() {
    let mut json = call(0, "e1", "success", 0).into_bytes();
    json.extend(b"{\"at_ms\":0,\"key\":\"\xff\",\"outcome\":\"success\"}\n");
    let ran = Replay::new().run(&json);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (2, "breakerbox: standard input: line 2: is not UTF-8 after 18 bytes\n")
    );
    let ran = Replay::new().run(b"at_ms,key,outcome\n0,\xff,success\n");
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (2, "breakerbox: standard input: line 2: is not UTF-8 after 2 bytes\n")
    );
}

#[test]
fn huge_keys_are_refused() {
    let ran = Replay::new().run(call(0, &"k".repeat(10_000_000), "success", 0));
    let expected = "breakerbox: standard input: line 1: key: must be at most 1024 bytes, but is 10000000\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (2, expected));
}

#[test]
fn too_many_keys_are_refused() {
    let traffic: String = (0..4).map(|n| call(n, &format!("k{n}"), "success", 0)).collect();
    let ran = Replay::new().args(&["--max-keys", "3"]).run(traffic);
    let expected = "breakerbox: standard input: line 4: key: exceeds the maximum of 3 keys; raise --max-keys (each key takes about 1 KB of memory)\n";
    assert_eq!((ran.code, ran.stderr.as_str()), (2, expected));
}

#[test]
fn a_bad_policy_is_named_with_file_line_and_field() {
    let table = [
        ("window = \"5m\"\nwindw = 1", "line 2: windw: is not a policy key; did you mean window?"),
        ("# no\n\nfailure_rate = 101", "line 3: failure_rate: must be 1 to 100, but is 101"),
        ("window = \n", "line 1: string values must be quoted, expected literal string"),
        ("probes = 1\nprobes = 2", "line 2: duplicate key: probes = 2"),
        ("cool_off = \"1h\"", "line 1: cool_off: must be at most cool_off_max (5m), but is 1h"),
        (
            "failure_rate = \"off\"\nconsecutive_failures = \"off\"",
            "policy: no trip rule is set; set at least one of failure_rate, failures, consecutive_failures, mean_latency, slow_rate",
        ),
    ];
    for (policy, expected) in table {
        let ran = Replay::new().policy(policy).run(call(0, "e1", "success", 0));
        assert_eq!((ran.code, ran.stderr), (2, format!("breakerbox: policy.toml: {expected}\n")));
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn a_bad_json_policy_is_named_with_file_line_and_field() {
    let table = [
        ("{\n \"probes\": \"x\"}", "line 2: probes: must be a whole number, but is the text \"x\""),
        ("{\n \"probes\": 0}", "line 2: probes: must be 1 to 1000000, but is 0"),
        ("{\n \"probes\": 1,}", "line 2: trailing comma"),
    ];
    for (policy, expected) in table {
        let ran = Replay::new().file("p.json", policy).args(&["--policy", "p.json"]).run("");
        assert_eq!((ran.code, ran.stderr), (2, format!("breakerbox: p.json: {expected}\n")));
    }
}

#[test]
fn a_rule_that_samples_can_not_feed_is_refused_when_samples_come() {
    let traffic = "{\"at_ms\":0,\"samples\":{}}\n";
    let ran = Replay::new().policy("\nconsecutive_failures = 5").run(traffic);
    let expected = "line 2: consecutive_failures: has no input in sampling mode, unless the sampler returns runs of failures (SqlTable::count_runs); omit it, or set it to \"off\"";
    assert_eq!((ran.code, ran.stderr), (2, format!("breakerbox: policy.toml: {expected}\n")));
}

#[test]
fn bad_arguments_are_refused() {
    let ran = Replay::new().args(&["--preset", "convoi"]).run("");
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("did you mean convoy?"), "{}", ran.stderr);
    let ran = Replay::new().policy("preset = \"convoy\"").args(&["--preset", "stoplight"]).run("");
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("the policy file already sets preset = \"convoy\"; remove one"),
        "{}",
        ran.stderr
    );
}

#[test]
fn files_that_can_not_be_read_or_written_are_another_matter() {
    let table: [&[&str]; 5] = [
        &["no-such-file.jsonl"],
        &["."],
        &["--policy", "no-such-policy.toml"],
        &["--html", "no-such-folder/page.html"],
        &["--summary-json", "no-such-folder/summary.json"],
    ];
    for arguments in table {
        let ran = Replay::new().args(arguments).run("");
        assert_eq!(ran.code, 1, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(arguments.last().unwrap()), "{}", ran.stderr);
    }
}

#[test]
fn a_failed_run_leaves_no_files() {
    let ran = Replay::new()
        .args(&["--html", "page.html", "--summary-json", "summary.json"])
        .run(call(0, "e1", "success", 0) + "oops\n");
    assert_eq!(ran.code, 2);
    assert_eq!(ran.files(), Vec::<String>::new());
}

#[test]
fn hostile_text_reaches_no_terminal_and_no_message_is_megabytes_long() {
    let huge = "x".repeat(5_000_000);
    let inputs = [
        "{\"at_ms\":1,\"\\u001b[31mred\\nnew\":1}".to_string(),
        "{\"at_ms\":1,\"samples\":{\"e\\n\\u001b[31m\":{\"x\":1}}}".to_string(),
        format!("{{\"at_ms\":1,\"samples\":\"{huge}\"}}"),
        format!("\"{huge}\""),
        "[".repeat(100_000),
    ];
    for input in inputs {
        let ran = Replay::new().run(input);
        assert_eq!(ran.code, 2);
        assert!(ran.stderr.len() < 3_000, "{} bytes", ran.stderr.len());
        assert!(!ran.stderr.trim_end().contains(|c: char| c.is_control()), "{:?}", ran.stderr);
    }
}

#[test]
fn compressed_traffic_is_named_as_such() {
    let ran = Replay::new().run([0x1f, 0x8b, 8, 0, 0, 0]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("line 1: is compressed; decompress it first"), "{}", ran.stderr);
}

#[test]
fn a_file_that_is_no_policy_is_refused() {
    let table: [(&[u8], &str); 2] = [
        (&[b'#'; 1_100_000], "p.toml: is larger than 1 MiB; is it a policy?"),
        (b"window = '1m'\nprobes = \xff\n", "p.toml: line 2: is not UTF-8"),
    ];
    for (policy, expected) in table {
        let ran = Replay::new().file("p.toml", policy).args(&["--policy", "p.toml"]).run("");
        assert_eq!((ran.code, ran.stderr), (2, format!("breakerbox: {expected}\n")));
    }
}

#[test]
fn reports_are_not_written_over_the_traffic_or_each_other() {
    let good = call(0, "e1", "success", 0);
    for arguments in [
        &["t.jsonl", "--html", "./t.jsonl"][..],
        &["t.jsonl", "--summary-json", "t.jsonl"],
        &["t.jsonl", "--summary-json", "s", "--html", "./s"],
    ] {
        let ran = Replay::new().file("t.jsonl", &good).file("s", "").args(arguments).run("");
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert_eq!((ran.read("t.jsonl"), ran.read("s")), (good.clone(), String::new()));
    }
}

#[test]
fn too_many_calls_in_flight_are_refused() {
    use breakerbox_replay::{Call, Engine, EngineError, Limits, Report, Times};
    let limits = Limits { in_flight: 2, ..Limits::default() };
    let policy = breakerbox_core::Policy::default();
    let mut engine = Engine::new(policy, limits, Report::new(std::io::sink(), false), false);
    let mut call = Call {
        at_ms: 0,
        times: Times::Elapsed,
        key: "e1".into(),
        outcome: breakerbox_core::OutcomeKind::Success,
        probe_outcome: breakerbox_core::OutcomeKind::Success,
        latency_ms: 10,
        retry_after_ms: None,
    };
    engine.call(&call).unwrap();
    engine.call(&call).unwrap();
    assert!(matches!(engine.call(&call), Err(EngineError::TooManyInFlight(2))));
    call.at_ms = 10;
    engine.call(&call).unwrap();
}

#[test]
fn what_happened_before_the_bad_line_is_printed_whole() {
    let mut traffic: String = (0..2_000).map(|n| call(n, "e1", "success", 0)).collect();
    traffic.push_str("oops\n");
    let ran = Replay::new().arg("--decisions").run(traffic);
    assert_eq!((ran.code, ran.lines().len()), (2, 2_000));
}
