//! Replays traffic: the input is replayed completely, or refused with a line number.

#![no_main]

use std::io::{BufReader, sink};
use std::time::Duration;

use breakerbox_core::{OutcomeKind, Policy};
use breakerbox_replay::input::ReadError;
use breakerbox_replay::{Counted, Engine, Limits, Line, Reader, Report, ResultTable};
use libfuzzer_sys::fuzz_target;

/// A table in which statuses of 500 and above are failures, and every fault is one.
struct Statuses;

impl ResultTable for Statuses {
    fn status(&self, status: u16, retry_after: Option<Duration>) -> Counted {
        let outcome = if status < 500 { OutcomeKind::Ignored } else { OutcomeKind::Failure };
        Counted { outcome, probe_outcome: OutcomeKind::Success, retry_after }
    }

    fn fault(&self, _: &str) -> Option<Counted> {
        Some(self.status(504, None))
    }

    fn fault_names(&self) -> Vec<&'static str> {
        vec!["timeout"]
    }
}

fn replay(bytes: &[u8]) -> Result<(), ReadError> {
    let mut reader = Reader::new(BufReader::new(bytes), None, &Statuses)?;
    let policy = Policy::builder().min_calls(1).failures(2).disable_after(3).build().expect("a good policy");
    let limits = Limits { keys: 100, in_flight: 1_000 };
    let mut engine = Engine::new(policy, limits, Report::new(sink(), true), true);
    while let Some(line) = reader.next_line()? {
        let replayed = match &line {
            Line::Call(call) => engine.call(call),
            Line::Tick(tick) => engine.tick(tick),
        };
        if replayed.is_err() {
            return Ok(());
        }
    }
    engine.finish().expect("a sink takes everything");
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    if let Err(ReadError::Input(error)) = replay(bytes) {
        assert!(error.line >= 1);
    }
});
