//! A replay of 10 million calls over 10,000 keys, compared with only parsing their JSON.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::figures::{machine, median};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Number of calls
    #[arg(long, default_value_t = 10_000_000)]
    calls: u64,
    /// Number of keys
    #[arg(long, default_value_t = 10_000)]
    keys: u64,
    /// Number of rounds
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

const BINARY: &str = "target/release/breakerbox";
const GENERATOR: &str = "target/release/examples/generate-traffic";

/// Measures the replay, and prints a table.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { calls, keys, rounds } = *arguments;
    let folder = Path::new("target/bench");
    fs::create_dir_all(folder)?;
    let traffic = folder.join("many.jsonl");
    let mut generate = Command::new(GENERATOR);
    generate.args(["many", &calls.to_string(), &keys.to_string()]);
    let status = generate.stdout(File::create(&traffic)?).status().context("can't run the generator")?;
    ensure!(status.success(), "the generator failed: {status}");

    // Interleaved, so that a slow moment of the machine affects both.
    let (mut reads, mut replays, mut plus_all) = (Vec::new(), Vec::new(), Vec::new());
    let mut peak = 0;
    for _ in 0..rounds.max(1) {
        reads.push(read_json(&traffic)?);
        let (time, memory) = measured(&mut replay_command(&traffic))?;
        replays.push(time);
        peak = memory.max(peak);
        let mut all = replay_command(&traffic);
        all.arg("--decisions").arg("--html").arg(folder.join("page.html"));
        let (time, memory) = measured(&mut all)?;
        plus_all.push(time);
        peak = memory.max(peak);
    }
    let (read, replay, all) = (median(reads), median(replays), median(plus_all));
    let size = fs::metadata(&traffic)?.len();
    fs::remove_file(&traffic)?;

    println!(
        "{calls} calls over {keys} keys, {} MB, medians of {rounds} rounds on {}",
        size / 1_000_000,
        machine()
    );
    println!();
    println!("| what | seconds | calls a second | ratio |");
    println!("| --- | --- | --- | --- |");
    for (what, time) in [
        ("read the JSON and do nothing (the limit)", read),
        ("replay", replay),
        ("replay with --decisions and --html", all),
    ] {
        let seconds = time.as_secs_f64();
        #[allow(clippy::cast_precision_loss)] // Figures for people.
        let rate = calls as f64 / seconds;
        println!("| {what} | {seconds:.1} | {rate:.0} | {:.2} |", seconds / read.as_secs_f64());
    }
    println!();
    println!("largest memory of a replay: {} MB", peak / 1_000);
    Ok(())
}

fn replay_command(traffic: &Path) -> Command {
    let mut command = Command::new(BINARY);
    command.arg("replay").arg(traffic).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn read_json(traffic: &Path) -> Result<Duration> {
    let start = Instant::now();
    let mut input = BufReader::with_capacity(1 << 20, File::open(traffic)?);
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        serde_json::from_slice::<serde::de::IgnoredAny>(&line)?;
        line.clear();
    }
    Ok(start.elapsed())
}

/// Runs the command and returns its duration and its maximum resident memory in kilobytes.
fn measured(command: &mut Command) -> Result<(Duration, u64)> {
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("can't run {command:?}"))?;
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        let seen = fs::read_to_string(&status_file).ok().and_then(|text| peak_memory(&text));
        peak = seen.unwrap_or(peak).max(peak);
        thread::sleep(Duration::from_millis(5));
    };
    ensure!(status.success(), "{command:?}: {status}");
    Ok((start.elapsed(), peak))
}

/// Parses the line `VmHWM:   14436 kB` in a process's status, in kilobytes.
fn peak_memory(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.split_whitespace().next()?.parse().ok()
}
