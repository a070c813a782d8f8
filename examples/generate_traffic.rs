//! Generates past traffic to replay. The output is deterministic, so the files in this folder can be regenerated.
//!
//! `story` is twenty minutes of five endpoints: one healthy, one dead (a zombie), one that flaps, one that gets slower
//! and slower, and one with a clean outage and recovery. `access-log` is the first half of the story as an access log
//! has it: CSV with clock times, HTTP statuses and faults. `samples` has the totals that a sampler would have read for
//! the same endpoints, every ten seconds over the last five minutes. `many CALLS KEYS` is a large file for benchmarks.
//!
//! ```text
//! cargo run -p breakerbox-examples --example generate-traffic -- story > examples/traffic.jsonl
//! cargo run -p breakerbox-examples --example generate-traffic -- access-log > examples/access-log.csv
//! ```

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

const STORY_MS: u64 = 20 * 60 * 1_000;

/// One call of the story.
#[derive(Clone, Copy)]
pub struct Call {
    at_ms: u64,
    key: &'static str,
    outcome: &'static str,
    latency_ms: u64,
    retry_after_ms: Option<u64>,
}

impl Call {
    fn write(&self, output: &mut impl Write) -> io::Result<()> {
        let Self { at_ms, key, outcome, latency_ms, retry_after_ms } = self;
        write!(output, r#"{{"at_ms":{at_ms},"key":"{key}","outcome":"{outcome}","latency_ms":{latency_ms}"#)?;
        if let Some(retry_after_ms) = retry_after_ms {
            write!(output, r#","retry_after_ms":{retry_after_ms}"#)?;
        }
        writeln!(output, "}}")
    }
}

/// Pseudo-random numbers (SplitMix64), the same for the same seed on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

/// The answer of an endpoint to a call at this time.
type Answer = fn(at_ms: u64, dice: &mut Dice) -> (&'static str, u64, Option<u64>);

const ENDPOINTS: [(&str, Answer); 5] = [
    ("healthy", |_, dice| {
        let outcome = if dice.roll(100) == 0 { "failure" } else { "success" };
        (outcome, 40 + dice.roll(60), None)
    }),
    // The endpoint no longer answers: every call times out.
    ("zombie", |_, _| ("failure", 10_000, None)),
    // A minute up, a minute down.
    ("flapping", |at_ms, dice| {
        let down = at_ms / 60_000 % 2 == 1;
        (if down { "failure" } else { "success" }, 30 + dice.roll(50), None)
    }),
    // Overloaded: correct answers, later and later, until a machine is added at minute 14.
    ("slow", |at_ms, dice| {
        let base = if at_ms < 14 * 60_000 { 100 + at_ms / 100 } else { 100 };
        ("success", base + dice.roll(200), None)
    }),
    // Down for maintenance from minute 5 to minute 8, with a retry-after.
    ("recovering", |at_ms, dice| {
        if (5 * 60_000..8 * 60_000).contains(&at_ms) {
            ("failure", 5, Some(60_000))
        } else {
            ("success", 60 + dice.roll(40), None)
        }
    }),
];

/// Returns the story's calls, in order of time.
pub fn story() -> Vec<Call> {
    let mut dice = Dice(1);
    let mut calls = Vec::new();
    for (key, answer) in ENDPOINTS {
        let mut at_ms = dice.roll(2_500);
        while at_ms < STORY_MS {
            let (outcome, latency_ms, retry_after_ms) = answer(at_ms, &mut dice);
            calls.push(Call { at_ms, key, outcome, latency_ms, retry_after_ms });
            at_ms += 1_500 + dice.roll(2_000);
        }
    }
    calls.sort_by_key(|call| call.at_ms);
    calls
}

/// Writes the story as calls.
pub fn write_story(output: &mut impl Write) -> io::Result<()> {
    story().iter().try_for_each(|call| call.write(output))
}

/// Writes the first ten minutes of the story as an access log. They begin at noon.
pub fn write_access_log(output: &mut impl Write) -> io::Result<()> {
    writeln!(output, "at,key,status,fault,latency_ms,retry_after_ms")?;
    for Call { at_ms, key, outcome, latency_ms, retry_after_ms } in story() {
        if at_ms >= STORY_MS / 2 {
            break;
        }
        let (minute, second, milli) = (at_ms / 60_000, at_ms / 1_000 % 60, at_ms % 1_000);
        let (status, fault) = match (outcome, key) {
            ("success", _) => ("200", ""),
            (_, "zombie") => ("", "timeout"),
            (_, "recovering") => ("503", ""),
            _ => ("500", ""),
        };
        let retry_after_ms = retry_after_ms.map(|ms| ms.to_string()).unwrap_or_default();
        writeln!(
            output,
            "2026-01-31T12:{minute:02}:{second:02}.{milli:03}Z,{key},{status},{fault},{latency_ms},{retry_after_ms}"
        )?;
    }
    Ok(())
}

/// Writes the story as a sampler would have read it: every ten seconds, the calls that ended in the last five minutes.
pub fn write_samples(output: &mut impl Write) -> io::Result<()> {
    let calls = story();
    for at_ms in (10_000..=STORY_MS).step_by(10_000) {
        write!(output, r#"{{"at_ms":{at_ms},"samples":{{"#)?;
        for (n, (key, _)) in ENDPOINTS.iter().enumerate() {
            let ended = |call: &&Call| {
                let ended_at = call.at_ms + call.latency_ms;
                call.key == *key && ended_at <= at_ms && ended_at + 300_000 > at_ms
            };
            let seen: Vec<_> = calls.iter().filter(ended).collect();
            let failures = seen.iter().filter(|call| call.outcome == "failure").count();
            let latency_sum_ms: u64 = seen.iter().map(|call| call.latency_ms).sum();
            let (comma, successes) = (if n == 0 { "" } else { "," }, seen.len() - failures);
            write!(
                output,
                r#"{comma}"{key}":{{"successes":{successes},"failures":{failures},"latency_sum_ms":{latency_sum_ms}}}"#
            )?;
        }
        writeln!(output, "}}}}")?;
    }
    Ok(())
}

/// Writes many calls to many keys, of which one in ten has outages.
pub fn write_many(calls: u64, keys: u64, output: &mut impl Write) -> io::Result<()> {
    let mut dice = Dice(7);
    for n in 0..calls {
        // A thousand calls a second.
        let at_ms = n;
        let key = dice.roll(keys);
        let down = key.is_multiple_of(10) && (at_ms / 120_000 + key).is_multiple_of(3);
        let failed = down || dice.roll(200) == 0;
        let outcome = if failed { "failure" } else { "success" };
        let latency_ms = if down { 2_000 } else { 20 + dice.roll(80) };
        writeln!(
            output,
            r#"{{"at_ms":{at_ms},"key":"endpoint-{key:05}","outcome":"{outcome}","latency_ms":{latency_ms}}}"#
        )?;
    }
    Ok(())
}

fn main() -> io::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut output = BufWriter::new(io::stdout().lock());
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["story"] => write_story(&mut output)?,
        ["access-log"] => write_access_log(&mut output)?,
        ["samples"] => write_samples(&mut output)?,
        ["many", calls, keys] => match (calls.parse(), keys.parse()) {
            (Ok(calls), Ok(keys)) if keys > 0 => write_many(calls, keys, &mut output)?,
            _ => return Ok(usage()),
        },
        _ => return Ok(usage()),
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn usage() -> ExitCode {
    eprintln!("usage: generate-traffic story | access-log | samples | many CALLS KEYS");
    ExitCode::from(2)
}
