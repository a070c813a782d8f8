//! Replays traffic: the input is replayed completely, or refused with a line number.

#![no_main]

use std::io::{BufReader, sink};

use breakerbox_core::Policy;
use breakerbox_replay::input::ReadError;
use breakerbox_replay::{Engine, Limits, Line, Reader, Report};
use libfuzzer_sys::fuzz_target;

fn replay(bytes: &[u8]) -> Result<(), ReadError> {
    let mut reader = Reader::new(BufReader::new(bytes), None)?;
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
