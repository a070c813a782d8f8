//! The effect of a breaker on a simulated day: how many requests go to endpoints that are down, and how long good
//! deliveries wait because of the breaker. `cargo xtask effect` runs it.
//!
//! | part | does |
//! | --- | --- |
//! | `population`, `faults`, `draws` | the endpoints of the day, when each fails, and the random numbers |
//! | `breakers` | the rules that are compared, one file each |
//! | `day`, `lane`, `own_network` | the sender, in virtual time |
//! | `measures`, `workers` | what is counted |
//! | `sweep` | the recovery bound, for outages of every length |
//! | `grid` | other numbers around the defaults |
//! | `report`, `plot` | tables, pictures, and the targets that must be met |
//!
//! Everything but this file is pure: it depends on nothing but its arguments, and the same seeds give the same pages.

mod breakers;
mod day;
mod draws;
mod faults;
mod grid;
mod lane;
mod measures;
mod own_network;
mod plot;
mod population;
mod report;
mod sweep;
#[cfg(test)]
mod tests;
mod workers;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail};
use breakerbox_model::delivery::RetrySchedule;
use clap::{Parser, ValueEnum};

use crate::breakers::{Row, gateway_policy};
use crate::day::Scenario;
use crate::grid::Numbers;
use crate::measures::Measures;
use crate::report::Size;

/// Simulate a day of a sender through several breakers, and write docs/effect.md; fail if a target is missed
#[derive(Parser)]
#[command(name = "cargo xtask effect")]
struct Arguments {
    /// Number of days to simulate; the seeds are 1 to N
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// Number of seeds for each case of the sweep
    #[arg(long, default_value_t = 100)]
    sweep_seeds: u64,
    /// Events in a day; the number of endpoints is in proportion
    #[arg(long, default_value_t = 5_000_000)]
    events: u64,
    /// Run only one part
    #[arg(long)]
    only: Option<Part>,
    /// Print the tables, and write no file
    #[arg(long)]
    print: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The comparison of breakers
    Day,
    /// The recovery bound
    Sweep,
    /// Other numbers around the defaults
    Grid,
}

/// The maximum number of calls in flight for an endpoint, as in the gateway.
const IN_FLIGHT: usize = 64;
/// The events of a day for one endpoint, on average.
const EVENTS_FOR_EACH: u64 = 2_500;
/// The steps of the sweep.
const SWEEP_STEPS: u32 = 36;
const PAGE: &str = "docs/effect.md";
const DEFAULTS_PAGE: &str = "docs/defaults.md";

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("effect: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let does = |part| arguments.only.is_none_or(|only| only == part);
    let endpoints = usize::try_from(arguments.events / EVENTS_FOR_EACH)?;
    if endpoints < 20 || arguments.seeds == 0 || arguments.sweep_seeds == 0 {
        bail!("--events must be at least 50000, --seeds and --sweep-seeds at least 1");
    }
    let size = Size { endpoints, events: arguments.events, seeds: arguments.seeds };
    let output = Output { print: arguments.print };
    let mut missed = Vec::new();
    if does(Part::Day) {
        let results = compare(&size);
        output.text(PAGE, "day", &report::day(&results, &size))?;
        output.picture("docs/effect.svg", &report::day_plot(&results, &size))?;
        missed.extend(report::missed(&results));
    }
    if does(Part::Sweep) {
        let policy = gateway_policy();
        let lengths = sweep::lengths(SWEEP_STEPS);
        let steps = in_parallel(&lengths, |length| sweep::step(*length, &policy, arguments.sweep_seeds));
        output.text(PAGE, "sweep", &report::sweep(&steps, &policy, arguments.sweep_seeds))?;
        output.picture("docs/effect-recovery.svg", &report::sweep_plot(&steps, &policy))?;
        for (case, lag, bound) in steps.iter().flat_map(|step| &step.violations) {
            missed.push(format!("a recovery took {lag:?}, and its bound is {bound:?}: {case:?}"));
        }
    }
    if does(Part::Grid) {
        let numbers = grid::numbers();
        let rows: Vec<Row> = numbers.iter().map(|numbers| numbers.row()).collect();
        let results = in_parallel(&rows, |row| days(row, &size));
        let results: Vec<_> = numbers.into_iter().zip(results).collect();
        output.text(DEFAULTS_PAGE, "grid", &report::grid(&results, Numbers::of(&gateway_policy()), &size))?;
    }
    if !missed.is_empty() {
        bail!("{} targets missed:\n{}", missed.len(), missed.join("\n"));
    }
    Ok(())
}

/// Runs every row of the comparison.
fn compare(size: &Size) -> Vec<report::Result> {
    let rows = breakers::rows();
    let measured = in_parallel(&rows, |row| (days(row, size), workers::calls_for_each_recovery(row)));
    let result = |(row, (measures, recovery_calls))| report::Result { row, measures, recovery_calls };
    rows.into_iter().zip(measured).map(result).collect()
}

/// Simulates all days of one row.
fn days(row: &Row, size: &Size) -> Measures {
    let mut sum = Measures::default();
    for seed in 1..=size.seeds {
        sum.add(&day::run(&scenario(size, seed), row));
    }
    sum
}

/// Returns the day with this seed, which is the same for every row.
fn scenario(size: &Size, seed: u64) -> Scenario {
    Scenario {
        seed,
        endpoints: population::endpoints(size.endpoints, size.events, seed),
        length: population::DAY,
        in_flight: IN_FLIGHT,
        schedule: RetrySchedule::default(),
        enough_waiting: None,
    }
}

/// Applies a function to all items, on all cores. The results are in the order of the items.
fn in_parallel<T: Sync, R: Send>(items: &[T], apply: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = Mutex::new(items.iter().enumerate());
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let work = || {
        loop {
            let taken = next.lock().expect("no thread panics while it holds this").next();
            let Some((index, item)) = taken else { break };
            let result = apply(item);
            done.lock().expect("no thread panics while it holds this").push((index, result));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from).min(items.len()) {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().expect("a panic ends the scope");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Writes pages and pictures, or prints the tables.
struct Output {
    print: bool,
}

impl Output {
    fn text(&self, page: &str, name: &str, text: &str) -> Result<()> {
        println!("{text}");
        if self.print {
            return Ok(());
        }
        let path = Path::new(page);
        let old = fs::read_to_string(path).with_context(|| format!("can't read {page}"))?;
        let new = report::replaced(&old, name, text)
            .with_context(|| format!("{page} has no markers for {name}"))?;
        fs::write(path, new).with_context(|| format!("can't write {page}"))
    }

    fn picture(&self, file: &str, svg: &str) -> Result<()> {
        if self.print {
            return Ok(());
        }
        fs::write(file, svg).with_context(|| format!("can't write {file}"))
    }
}
