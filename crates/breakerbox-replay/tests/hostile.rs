//! Hostile input results in a line or in an error that names the line, never in a panic.

#![allow(clippy::unwrap_used)]

use std::io::{BufReader, sink};
use std::time::Duration;

use breakerbox_core::{OutcomeKind, Policy};
use breakerbox_replay::input::ReadError;
use breakerbox_replay::{Counted, Engine, Format, Limits, Line, Reader, Report, ResultTable};
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_oneof, proptest};

/// A table in which every status and every fault is a failure, unless it is a probe.
struct Strict;

impl ResultTable for Strict {
    fn status(&self, _: u16, retry_after: Option<Duration>) -> Counted {
        Counted { outcome: OutcomeKind::Failure, probe_outcome: OutcomeKind::Success, retry_after }
    }

    fn fault(&self, name: &str) -> Option<Counted> {
        (name == "timeout").then(|| self.status(504, None))
    }

    fn fault_names(&self) -> Vec<&'static str> {
        vec!["timeout"]
    }
}

/// Replays the input until it ends or an error occurs.
fn replay(bytes: &[u8], format: Option<Format>) -> Result<u64, ReadError> {
    let mut reader = Reader::new(BufReader::new(bytes), format, &Strict)?;
    let policy = Policy::builder().min_calls(1).mean_latency(Duration::from_secs(1)).build().unwrap();
    let limits = Limits { keys: 50, in_flight: 50 };
    let mut engine = Engine::new(policy, limits, Report::new(sink(), true), true);
    let mut lines = 0;
    while let Some(line) = reader.next_line()? {
        lines += 1;
        let replayed = match &line {
            Line::Call(call) => engine.call(call),
            Line::Tick(tick) => engine.tick(tick),
        };
        if replayed.is_err() {
            return Ok(lines);
        }
    }
    engine.finish().unwrap();
    Ok(lines)
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0_u64..100_000).prop_map(|n| n.to_string()),
        1 => any::<u64>().prop_map(|n| n.to_string()),
        1 => any::<i64>().prop_map(|n| n.to_string()),
        1 => any::<f64>().prop_map(|n| format!("{n:?}")),
        1 => Just("9007199254740991".to_string()),
    ]
}

fn json_line() -> impl Strategy<Value = String> {
    let outcome = prop_oneof![4 => "success|failure|ignored", 1 => "[a-z]{0,9}"];
    let call = (number(), "[a-d]", outcome, number(), number()).prop_map(|(at, key, outcome, latency, retry)| {
        format!("{{\"at_ms\":{at},\"key\":\"{key}\",\"outcome\":\"{outcome}\",\"latency_ms\":{latency},\"retry_after_ms\":{retry}}}")
    });
    let tick = (number(), "[a-d]", number(), number(), number()).prop_map(|(at, key, good, bad, sum)| {
        format!("{{\"at_ms\":{at},\"samples\":{{\"{key}\":{{\"successes\":{good},\"failures\":{bad},\"latency_sum_ms\":{sum}}}}}}}")
    });
    let time = prop_oneof![
        4 => (0_u64..100_000).prop_map(|ms| format!("2026-01-31T12:{:02}:{:02}.{:03}Z", ms / 60_000, ms / 1_000 % 60, ms % 1_000)),
        1 => "[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9](:60)?(Z|[+-][0-9]{2}:[0-9]{2}|)",
        1 => "\\PC{0,9}",
    ];
    let result = prop_oneof![
        number().prop_map(|status| format!("\"status\":{status}")),
        (0_u64..1_000).prop_map(|status| format!("\"status\":{status}")),
        "timeout|[a-z]{0,9}".prop_map(|fault| format!("\"fault\":\"{fault}\"")),
    ];
    let logged = (time, "[a-d]", result, number()).prop_map(|(at, key, result, latency)| {
        serde_json::json!({ "at": at, "key": key, "latency_ms": 0 }).to_string().replacen(
            "\"latency_ms\":0",
            &format!("{result},\"latency_ms\":{latency}"),
            1,
        )
    });
    prop_oneof![6 => call, 6 => logged, 2 => tick, 1 => "\\PC{0,40}"]
}

fn sorted_calls() -> impl Strategy<Value = String> {
    let call = (0_u64..40_000, "[a-d]", "success|failure|ignored", 0_u64..20_000);
    proptest::collection::vec(call, 0..100).prop_map(|steps| {
        let mut at = 0;
        steps
            .into_iter()
            .map(|(step, key, outcome, latency)| {
                at += step;
                format!("{{\"at_ms\":{at},\"key\":\"{key}\",\"outcome\":\"{outcome}\",\"latency_ms\":{latency}}}\n")
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn any_bytes_are_lines_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for format in [None, Some(Format::JsonLines), Some(Format::Csv)] {
            if let Err(ReadError::Input(error)) = replay(&bytes, format) {
                prop_assert!(error.line >= 1);
                prop_assert!(!error.reason.is_empty());
            }
        }
    }

    #[test]
    fn lines_that_look_right_are_lines_or_an_error(lines in proptest::collection::vec(json_line(), 0..12)) {
        if let Err(ReadError::Input(error)) = replay(lines.join("\n").as_bytes(), None) {
            prop_assert!(error.line >= 1 && error.line <= lines.len() as u64);
        }
    }

    #[test]
    fn rows_that_look_right_are_rows_or_an_error(
        rows in proptest::collection::vec((number(), "[a-d]|\\PC{0,5}", "success|failure|x"), 0..12),
    ) {
        let rows: String = rows.iter().map(|(at, key, outcome)| format!("{at},{key},{outcome}\n")).collect();
        let _ = replay(format!("at_ms,key,outcome\n{rows}").as_bytes(), Some(Format::Csv));
    }

    #[test]
    fn good_traffic_is_replayed_to_its_end(traffic in sorted_calls()) {
        prop_assert!(replay(traffic.as_bytes(), None).is_ok());
    }
}

#[test]
fn a_line_without_end_is_refused_before_it_fills_the_memory() {
    use std::io::Read;
    for (format, start) in [(Format::JsonLines, "{\"key\":\""), (Format::Csv, "at_ms,key,outcome\n0,\"")] {
        let endless = start.as_bytes().chain(std::io::repeat(b'x'));
        let mut reader =
            Reader::new(BufReader::with_capacity(1 << 20, endless), Some(format), &Strict).unwrap();
        let message = reader.next_line().unwrap_err().to_string();
        assert!(message.contains("longer than 128 MiB"), "{message}");
    }
}
