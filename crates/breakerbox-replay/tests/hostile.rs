//! Hostile input results in a line or in an error that names the line, never in a panic.

#![allow(clippy::unwrap_used)]

use std::io::{BufReader, sink};

use breakerbox_core::Policy;
use breakerbox_replay::input::ReadError;
use breakerbox_replay::{Engine, Format, Limits, Line, Reader, Report};
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_oneof, proptest};

/// Replays the input until it ends or an error occurs.
fn replay(bytes: &[u8], format: Option<Format>) -> Result<u64, ReadError> {
    let mut reader = Reader::new(BufReader::new(bytes), format)?;
    let policy =
        Policy::builder().min_calls(1).mean_latency(std::time::Duration::from_secs(1)).build().unwrap();
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
    prop_oneof![6 => call, 2 => tick, 1 => "\\PC{0,40}"]
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
        let mut reader = Reader::new(BufReader::with_capacity(1 << 20, endless), Some(format)).unwrap();
        let message = reader.next_line().unwrap_err().to_string();
        assert!(message.contains("longer than 128 MiB"), "{message}");
    }
}
