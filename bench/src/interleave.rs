//! How calls are measured: all subjects take turns, round after round, and the median of each is reported. So a
//! busy period of the machine affects all of them.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use breakerbox::{Clock, SystemClock};
use clap::Args;

use crate::figures::{machine, median};

/// A repeatable measurement: makes this many calls and returns their total duration.
pub(crate) type Measure = Box<dyn FnMut(u64) -> Duration>;

/// The number of rounds and calls in a measurement.
#[derive(Args)]
pub(crate) struct Rounds {
    /// Number of rounds
    #[arg(long, default_value_t = 15)]
    pub(crate) rounds: usize,
    /// Number of calls in a round
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) calls: u64,
}

/// One measured value in the printed table: what is measured (`subject`), and under which conditions
/// (`column`).
pub(crate) struct Row {
    pub(crate) column: &'static str,
    pub(crate) subject: &'static str,
    measure: Measure,
    times: Vec<Duration>,
}

/// The column with the lower bounds, which no subject can beat.
pub(crate) const FLOOR: &str = "floor";

/// The name of the row in [`FLOOR`] that measures the cost of reading the time.
pub(crate) const INSTANT: &str = "Instant::now()";

impl Row {
    pub(crate) fn new(column: &'static str, subject: &'static str, measure: Measure) -> Self {
        Self { column, subject, measure, times: Vec::new() }
    }

    /// Returns the median time of one call over all rounds, in nanoseconds.
    #[allow(clippy::cast_precision_loss)] // Figures for people.
    pub(crate) fn nanos(&self, calls: u64) -> f64 {
        median(self.times.clone()).as_nanos() as f64 / calls as f64
    }
}

/// Runs all rounds. Each round measures every row once, so that a change of the machine's speed affects all
/// rows alike.
pub(crate) fn interleave(rows: &mut [Row], size: &Rounds) {
    for _ in 0..size.rounds.max(1) {
        for row in &mut *rows {
            row.times.push((row.measure)(size.calls));
        }
    }
}

/// Prints how the values in the following tables were measured.
pub(crate) fn print_method(size: &Rounds) {
    let Rounds { rounds, calls } = size;
    println!("ns for one call, medians of {rounds} rounds of {calls} calls on {}", machine());
}

/// Makes the call this many times, and returns the total duration.
#[inline]
pub(crate) fn timed(calls: u64, mut call: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    start.elapsed()
}

/// Makes this many calls on each of two threads. Returns the duration of the slower thread.
pub(crate) fn both_threads(calls: u64, call: impl Fn() + Sync) -> Duration {
    let start = std::sync::Barrier::new(2);
    let work = || {
        start.wait();
        timed(calls, &call)
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let mine = work();
        mine.max(other.join().expect("a no-op call does not panic"))
    })
}

/// Returns the rows with the machine's lower bounds: the cost of an atomic add, and of reading the time.
pub(crate) fn floors() -> Vec<Row> {
    let shared = AtomicU64::new(0);
    let add = move || {
        black_box(&shared).fetch_add(1, Ordering::Relaxed);
    };
    let now = || {
        black_box(Instant::now());
    };
    let clock = || {
        black_box(SystemClock.now());
    };
    let two_reads = || {
        black_box((SystemClock.now(), SystemClock.now()));
    };
    vec![
        Row::new(FLOOR, "one shared atomic add", Box::new(move |calls| timed(calls, &add))),
        Row::new(FLOOR, INSTANT, Box::new(move |calls| timed(calls, now))),
        Row::new(FLOOR, "one read of the clock used", Box::new(move |calls| timed(calls, clock))),
        Row::new(FLOOR, "two reads of the clock used", Box::new(move |calls| timed(calls, two_reads))),
    ]
}

/// Returns keys that look like those of tenants' endpoints.
pub(crate) fn keys(count: u64) -> Vec<String> {
    (0..count).map(|n| format!("tenant-{:03} https://hooks.example.com/endpoint/{n}", n % 1_000)).collect()
}

/// Returns the index of the next key, far from the previous key, so that CPU caches do not help.
pub(crate) fn next(place: &mut usize, keys: &[String]) -> usize {
    *place = (*place + 7_919) % keys.len();
    *place
}
