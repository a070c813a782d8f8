//! `cargo xtask sim`: simulates a fleet, one seed after another, and prints the trace of a run that failed.

use std::time::Instant;

use anyhow::bail;
use breakerbox_testkit::sim::{self, Report, Sabotage};

/// The number of lines printed from the end of a trace. With `--seed`, the whole trace is printed.
const LAST_LINES: usize = 100;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of seeds to run
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// First seed to run
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Run only this seed, and print its whole trace
    #[arg(long, conflicts_with_all = ["seeds", "from", "all"])]
    seed: Option<u64>,
    /// Continue after a violation, and list all seeds that failed
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match arguments.seed {
        Some(seed) => run_one(seed),
        None => run_many(arguments),
    }
}

fn run_one(seed: u64) -> anyhow::Result<()> {
    let report = sim::run(seed, Sabotage::None, true);
    report.trace.iter().for_each(|line| println!("{line}"));
    println!("{:?}", report.tally);
    verdict(&report)
}

fn run_many(arguments: &Arguments) -> anyhow::Result<()> {
    let start = Instant::now();
    let (from, seeds) = (arguments.from, arguments.seeds);
    let tenth = (seeds / 10).max(1_000);
    let summary = sim::run_many(from..from.saturating_add(seeds), Sabotage::None, arguments.all, |runs| {
        if runs % tenth == 0 {
            println!("{runs} runs, {:.0} s", start.elapsed().as_secs_f64());
        }
    });
    println!(
        "{} runs, {:.1} h of virtual time in {:.1} s",
        summary.runs,
        summary.lasted.as_secs_f64() / 3_600.0,
        start.elapsed().as_secs_f64()
    );
    println!("{:?}", summary.tally);
    for (seed, violations) in &summary.failed {
        println!("seed {seed}: {}", violations[0]);
    }
    let Some(first) = summary.failed.keys().next() else { return Ok(()) };
    let report = sim::run(*first, Sabotage::None, true);
    let skipped = report.trace.len().saturating_sub(LAST_LINES);
    println!("the last lines of seed {first}; for all of them: cargo xtask sim --seed {first}");
    report.trace[skipped..].iter().for_each(|line| println!("{line}"));
    verdict(&report)
}

fn verdict(report: &Report) -> anyhow::Result<()> {
    if report.violations.is_empty() {
        return Ok(());
    }
    let violations: Vec<_> = report.violations.iter().map(ToString::to_string).collect();
    bail!("seed {}: {}", report.seed, violations.join("; "));
}
