//! Runs many seeds in parallel, one per core at a time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::history::Violation;
use super::run::run;
use super::sabotage::Sabotage;
use super::tally::Tally;

/// The results of many runs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// The number of runs.
    pub runs: u64,
    /// The sum of all runs' counts.
    pub tally: Tally,
    /// The sum of all runs' virtual time.
    pub lasted: Duration,
    /// The violations in the runs that failed, by seed.
    pub failed: BTreeMap<u64, Vec<Violation>>,
}

/// Runs these seeds. Runs all of them if `all` is set, otherwise stops when a run violates an invariant.
///
/// # Panics
/// Panics if a thread can't be started.
#[must_use]
pub fn run_many(seeds: Range<u64>, sabotage: Sabotage, all: bool, progress: impl Fn(u64) + Sync) -> Summary {
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let summary = Mutex::new(Summary::default());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let report = run(seed, sabotage, false);
            let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
            summary.runs += 1;
            summary.tally.add(&report.tally);
            summary.lasted += report.lasted;
            progress(summary.runs);
            if !report.violations.is_empty() {
                stop.fetch_or(!all, Ordering::Relaxed);
                summary.failed.insert(seed, report.violations);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    summary.into_inner().unwrap_or_else(PoisonError::into_inner)
}
