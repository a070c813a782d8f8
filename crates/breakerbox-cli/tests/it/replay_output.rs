//! The summary and the HTML page.

use serde_json::{Value, json};

use crate::command::{Replay, call, root};

fn story() -> String {
    std::fs::read_to_string(root().join("examples/traffic.jsonl")).unwrap()
}

const SIMPLE: &str = "failure_rate = \"off\"\nconsecutive_failures = 3\nprobes = 1\nramp_cap = \"off\"\ncool_off = \"30s\"\n\
    cool_off_factor = 2\ndisable_min = \"0s\"\n";

/// Returns traffic with one outage. The circuit opens at 20 ms, refuses two failing calls and a successful one, probes
/// at 30,020 ms for 80 ms, and then stays closed.
fn one_outage() -> String {
    let failure = |at_ms| call(at_ms, "e1", "failure", 0);
    failure(0)
        + &failure(10)
        + &failure(20)
        + &failure(500)
        + &failure(600)
        + &call(700, "e1", "success", 0)
        + &call(800, "e1", "ignored", 0)
        + &call(30_020, "e1", "success", 80)
        + &call(40_000, "e1", "success", 5)
        + &call(40_000, "e2", "success", 5)
}

#[test]
fn the_summary_counts_what_was_saved_and_what_it_cost() {
    let ran = Replay::new().policy(SIMPLE).args(&["--summary-json", "s.json"]).run(one_outage());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "JSON instead of the table");
    let summary: Value = serde_json::from_str(&ran.read("s.json")).unwrap();
    let e1 = json!({
        "calls": 9, "admitted": 5, "refused": 4, "probes": 1, "failed_calls_admitted": 3,
        "failed_calls_refused": 2, "successful_calls_refused": 1, "late_results": 0, "trips": 1,
        "time_open_ms": 30_000, "time_half_open_ms": 80, "time_disabled_ms": 0,
    });
    assert_eq!(summary["keys"]["e1"], e1);
    assert_eq!(summary["keys"]["e2"]["calls"], 1);
    assert_eq!((&summary["total"]["calls"], &summary["total"]["refused"]), (&json!(10), &json!(4)));
    assert_eq!((&summary["started_ms"], &summary["ended_ms"]), (&json!(0), &json!(40_005)));
}

#[test]
fn a_circuit_that_is_still_open_at_the_end_was_open_until_then() {
    let traffic: String = [0, 0, 0, 5_000].iter().map(|at_ms| call(*at_ms, "e1", "failure", 0)).collect();
    let ran = Replay::new().policy(SIMPLE).args(&["--summary-json", "s.json"]).run(traffic);
    let summary: Value = serde_json::from_str(&ran.read("s.json")).unwrap();
    assert_eq!(summary["total"]["time_open_ms"], 5_000);
}

#[test]
fn admitted_and_refused_are_all_calls() {
    let ran = Replay::new().args(&["--summary-json", "s.json"]).run(story());
    let summary: Value = serde_json::from_str(&ran.read("s.json")).unwrap();
    let number = |tally: &Value, name: &str| tally[name].as_u64().unwrap();
    for tally in summary["keys"].as_object().unwrap().values().chain([&summary["total"]]) {
        assert_eq!(number(tally, "admitted") + number(tally, "refused"), number(tally, "calls"));
    }
    let failures = story().matches("\"outcome\":\"failure\"").count() as u64;
    let total = &summary["total"];
    assert_eq!(number(total, "failed_calls_admitted") + number(total, "failed_calls_refused"), failures);
    assert_eq!(number(total, "calls"), story().lines().count() as u64);
}

#[test]
fn the_table_on_standard_error_is_for_people() {
    let ran = Replay::new().policy(SIMPLE).run(one_outage());
    let expected = "
2 keys over 40s5ms

key    calls  admitted  refused  failed calls admitted  failed calls refused  successful calls refused  trips  time open  disabled
e1         9         5        4                      3                     2                         1      1        30s        0s
e2         1         1        0                      0                     0                         0      0         0s        0s
total     10         6        4                      3                     2                         1      1        30s        0s
";
    assert_eq!(ran.stderr, expected);
}

#[test]
fn the_table_shows_the_most_troubled_keys_of_many() {
    let mut traffic: String = (0..50).map(|n| call(0, &format!("fine-{n:02}"), "success", 0)).collect();
    traffic.extend((0..3).map(|_| call(1, "zz-broken", "failure", 0)));
    let ran = Replay::new().policy(SIMPLE).run(traffic);
    let rows: Vec<_> = ran.stderr.lines().collect();
    assert!(rows[4].starts_with("zz-broken"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("The total includes 31 more keys. --summary-json lists all keys."),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_page_has_a_timeline_for_each_key_and_needs_nothing_else() {
    let ran = Replay::new().args(&["--html", "page.html"]).run(story());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let page = ran.read("page.html");
    for key in ["healthy", "zombie", "flapping", "slow", "recovering"] {
        assert!(page.contains(&format!("<section><h2>{key}</h2>")), "{key}");
    }
    assert_eq!(page.matches("<svg role=\"img\"").count(), 5);
    for foreign in ["<script", "<link", "src=", "url(", "http:", "https:", "@import"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let zombie = page.split("<section>").find(|section| section.starts_with("<h2>zombie")).unwrap();
    assert!(zombie.contains("class=\"open\"") && zombie.contains("class=\"half_open\""));
    assert!(zombie.contains("class=\"saved\"") && !zombie.contains("class=\"good\""));
    let transitions = ran.lines().iter().filter(|line| line["key"] == "zombie").count();
    assert_eq!(zombie.matches("<tr><td>").count(), transitions);
}

#[test]
fn the_axis_shows_clock_times_if_the_traffic_has_them_and_else_the_time_since_the_start() {
    let access_log = std::fs::read_to_string(root().join("examples/access-log.csv")).unwrap();
    let page = |traffic: String| Replay::new().args(&["--html", "p.html"]).run(traffic).read("p.html");
    let clock = page(access_log);
    for part in [
        ">12:02</span>",
        ">12:10</span>",
        "from 2026-01-31 12:00:01 UTC to 2026-01-31 12:10",
        "<th scope=\"col\">time (UTC)</th>",
        "<title>open at 2026-01-31 12:0",
        "clock time, in UTC",
    ] {
        assert!(clock.contains(part), "{part}");
    }
    let elapsed = page(story());
    for part in
        [">0s</span>", ">5m</span>", ">15m</span>", "<th scope=\"col\">at_ms</th>", "since the first line"]
    {
        assert!(elapsed.contains(part), "{part}");
    }
    assert!(!elapsed.contains("UTC"));
}

#[test]
fn a_drawing_says_in_words_what_it_shows() {
    let ran = Replay::new().policy(SIMPLE).args(&["--html", "p.html"]).run(one_outage());
    let expected = "aria-label=\"Timeline from at_ms 0 to 40005: 1 trip, open for 30s, disabled for 0s. Of 9 calls, 5 were \
        admitted, of which 3 failed; 4 were refused, of which 2 would have failed and 1 would have succeeded.\"";
    assert!(ran.read("p.html").contains(expected));
}

#[test]
fn the_page_can_not_be_taken_over_by_a_key() {
    let key = "<script>alert('x')</script>&\\\"";
    let ran = Replay::new().args(&["--html", "page.html"]).run(call(0, key, "success", 0));
    let page = ran.read("page.html");
    assert!(!page.contains("<script>"));
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;"));
}

#[test]
fn the_page_is_bounded_however_many_keys_there_are() {
    let traffic: String = (0..2_100).map(|n| call(n, &format!("key-{n}"), "success", 0)).collect();
    let ran = Replay::new().args(&["--html", "page.html"]).run(traffic);
    let page = ran.read("page.html");
    assert_eq!(page.matches("<section>").count(), 2_000);
    assert!(page.contains("Not shown: 100 more keys."));
}

#[test]
fn the_page_is_bounded_however_much_keys_flap() {
    let policy =
        SIMPLE.replace("= 3", "= 1").replace("\"30s\"", "\"1ms\"").replace("factor = 2", "factor = 1");
    let mut traffic = String::new();
    for n in 0..250 {
        for key in 0..500 {
            let outcome = if n % 2 == 0 { "failure" } else { "success" };
            traffic += &call(n * 10, &format!("key-{key}"), outcome, 0);
        }
    }
    let ran = Replay::new().policy(&policy).args(&["--html", "page.html"]).run(traffic);
    let page = ran.read("page.html");
    let drawn = page.matches("<section>").count();
    assert!((50..500).contains(&drawn) && page.contains("Not shown: "), "{drawn}");
    assert!(page.len() < 15_000_000, "{} bytes", page.len());
}

#[test]
fn a_refused_call_that_says_nothing_is_not_drawn() {
    let traffic: String = [0, 0, 0].map(|at_ms| call(at_ms, "e1", "failure", 0)).concat();
    let ran = Replay::new()
        .policy(SIMPLE)
        .args(&["--html", "p.html"])
        .run(traffic.clone() + &call(9, "e1", "ignored", 0));
    assert!(!ran.read("p.html").contains("<path class=\"delayed\""));
    let ran =
        Replay::new().policy(SIMPLE).args(&["--html", "p.html"]).run(traffic + &call(9, "e1", "success", 0));
    assert!(ran.read("p.html").contains("<path class=\"delayed\""));
}

#[test]
fn late_results_and_disabled_time_are_counted() {
    let policy = format!("{SIMPLE}disable_after = 1\n");
    let traffic = call(0, "e1", "failure", 500)
        + &call(1, "e1", "failure", 0)
        + &call(1, "e1", "failure", 0)
        + &call(1, "e1", "failure", 0)
        + &call(2_001, "e2", "success", 0);
    let ran = Replay::new().policy(&policy).args(&["--summary-json", "s.json"]).run(traffic);
    let summary: Value = serde_json::from_str(&ran.read("s.json")).unwrap();
    for tally in [&summary["keys"]["e1"], &summary["total"]] {
        assert_eq!(tally["late_results"], 1);
        assert_eq!(tally["trips"], 1, "a transition to disabled is a trip too");
        assert_eq!((&tally["time_disabled_ms"], &tally["time_open_ms"]), (&json!(2_000), &json!(0)));
    }
}

#[test]
fn keys_that_only_fail_and_never_trip_are_pointed_out() {
    let traffic: String = (0..6).map(|n| call(n * 60_000, "quiet", "failure", 0)).collect();
    let ran = Replay::new().policy("consecutive_failures = \"off\"\n").run(traffic);
    assert!(ran.stderr.contains("1 key failed on every call and never tripped"), "{}", ran.stderr);
}

#[test]
fn the_summary_can_go_to_standard_output() {
    for name in ["-", "/dev/stdout"] {
        let ran = Replay::new().policy(SIMPLE).args(&["--summary-json", name]).run(one_outage());
        let (transitions, summary) = ran.stdout.split_once("\n{\n").unwrap();
        assert_eq!(transitions.lines().count(), 3);
        let summary: Value = serde_json::from_str(&format!("{{{summary}")).unwrap();
        assert_eq!(summary["total"]["calls"], 10);
    }
}

#[cfg(unix)]
#[test]
fn a_link_is_followed() {
    let replay = Replay::new().file("real.json", "old");
    std::os::unix::fs::symlink("real.json", replay.folder().join("link.json")).unwrap();
    let ran = replay.args(&["--summary-json", "link.json"]).run(one_outage());
    assert!(ran.path("link.json").is_symlink());
    assert!(ran.read("real.json").contains("\"calls\": 10"));
}

#[cfg(unix)]
#[test]
fn whoever_closes_the_output_early_still_gets_the_reports() {
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], standard_error: Stdio| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_breakerbox"))
            .args(["replay", "--decisions"])
            .arg(root().join("examples/traffic.jsonl"))
            .args(arguments)
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .stderr(standard_error)
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        child.wait().unwrap().code()
    };
    assert_eq!(run(&[], Stdio::null()), Some(0), "nobody reads: nothing is wrong");
    assert_eq!(run(&["--summary-json", "s.json", "--html", "p.html"], Stdio::null()), Some(0));
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("s.json")).unwrap()).unwrap();
    assert_eq!(summary["total"]["calls"], story().lines().count());
    assert!(folder.path().join("p.html").exists());
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    assert_eq!(
        run(&["--summary-json", "/dev/full"], full()),
        Some(1),
        "a full disk is an error, not a panic"
    );
    assert_eq!(run(&["--no-such-flag"], full()), Some(2));
}

#[test]
fn the_page_shows_samples_and_an_empty_replay_too() {
    let samples = std::fs::read_to_string(root().join("examples/samples.jsonl")).unwrap();
    let ran = Replay::new().args(&["--preset", "convoy", "--html", "page.html"]).run(samples);
    assert!(ran.read("page.html").contains("class=\"disabled\""), "{}", ran.stderr);
    assert!(ran.stderr.contains("samples"));
    let ran = Replay::new().args(&["--html", "page.html"]).run("");
    assert_eq!(ran.code, 0);
    assert!(ran.read("page.html").contains("0 keys"));
}

#[test]
fn an_earlier_file_is_replaced_only_by_a_whole_one() {
    let old = |replay: Replay| replay.file("s.json", "old").args(&["--summary-json", "s.json"]);
    assert_eq!(old(Replay::new()).run("oops").read("s.json"), "old");
    assert_ne!(old(Replay::new()).run(one_outage()).read("s.json"), "old");
}

#[cfg(unix)]
#[test]
fn reports_can_go_to_devices_and_are_readable_by_others() {
    use std::os::unix::fs::PermissionsExt;
    let ran = Replay::new().args(&["--summary-json", "/dev/null", "--html", "page.html"]).run(one_outage());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    let mode = std::fs::metadata(ran.path("page.html")).unwrap().permissions().mode();
    assert_ne!(mode & 0o040, 0, "as any new file: {mode:o}");
}
