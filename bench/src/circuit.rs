//! One call through a circuit, beside other crates and the limits of the machine.
//!
//! Every figure is nanoseconds for one call, the median of rounds in which all subjects take turns. A ratio is to the
//! fastest peer of the same column. Heap is what `heap` measures, in a process of its own.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use breakerbox::{Breakerbox, Clock, SystemClock};
use clap::Args;
use dashmap::DashMap;

use crate::figures::{machine, median};
use crate::peers::{
    Breaker, CircuitBreakerCrate, Failsafe, Ours, OursTimed, Recloser, Subject, TowerResilience,
};

#[derive(Args)]
pub(crate) struct Arguments {
    /// How many rounds
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// How many calls in a round
    #[arg(long, default_value_t = 1_000_000)]
    calls: u64,
    /// Leave out the million keys, which take a gigabyte
    #[arg(long)]
    quick: bool,
}

/// A measure that can be repeated: makes so many calls and says how long they took.
type Measure = Box<dyn FnMut(u64) -> Duration>;

struct Row {
    column: &'static str,
    subject: &'static str,
    measure: Measure,
    times: Vec<Duration>,
}

const ONE: &str = "closed, 1 thread";
const TWO: &str = "closed, 2 threads on one";
const REFUSAL: &str = "refusal";
const TEN_THOUSAND: &str = "keyed, 10,000";
const MILLION: &str = "keyed, 1,000,000";
const FLOOR: &str = "floor";

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut rows = floors();
    add_subject::<Ours>(&mut rows);
    add_subject::<OursTimed>(&mut rows);
    add_subject::<CircuitBreakerCrate>(&mut rows);
    add_subject::<Recloser>(&mut rows);
    add_subject::<Failsafe>(&mut rows);
    add_subject::<Breaker>(&mut rows);
    add_subject::<TowerResilience>(&mut rows);
    let tables: &[(&str, u64)] = if arguments.quick {
        &[(TEN_THOUSAND, 10_000)]
    } else {
        &[(TEN_THOUSAND, 10_000), (MILLION, 1_000_000)]
    };
    for &(column, keys) in tables {
        rows.push(Row::new(column, Ours::NAME, ours_keyed(keys)));
        rows.push(Row::new(column, CircuitBreakerCrate::NAME, peer_keyed::<CircuitBreakerCrate>(keys)));
        rows.push(Row::new(column, Recloser::NAME, peer_keyed::<Recloser>(keys)));
        rows.push(Row::new(column, Failsafe::NAME, peer_keyed::<Failsafe>(keys)));
    }
    for _ in 0..arguments.rounds.max(1) {
        for row in &mut rows {
            row.times.push((row.measure)(arguments.calls));
        }
    }
    print(&rows, arguments);
    heap()
}

impl Row {
    fn new(column: &'static str, subject: &'static str, measure: Measure) -> Self {
        Self { column, subject, measure, times: Vec::new() }
    }

    #[allow(clippy::cast_precision_loss)] // Figures for people.
    fn nanos(&self, calls: u64) -> f64 {
        median(self.times.clone()).as_nanos() as f64 / calls as f64
    }
}

/// Runs the call so many times.
#[inline]
fn timed(calls: u64, mut call: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    start.elapsed()
}

fn floors() -> Vec<Row> {
    let shared = AtomicU64::new(0);
    let add: Measure = Box::new(move |calls| {
        timed(calls, || {
            black_box(&shared).fetch_add(1, Ordering::Relaxed);
        })
    });
    let now: Measure = Box::new(|calls| {
        timed(calls, || {
            black_box(Instant::now());
        })
    });
    let clock: Measure = Box::new(|calls| {
        timed(calls, || {
            black_box(SystemClock.now());
        })
    });
    let two_reads: Measure = Box::new(|calls| {
        timed(calls, || {
            black_box((SystemClock.now(), SystemClock.now()));
        })
    });
    vec![
        Row::new(FLOOR, "one shared atomic add", add),
        Row::new(FLOOR, "Instant::now()", now),
        Row::new(FLOOR, "one read of the clock used", clock),
        Row::new(FLOOR, "two reads of the clock used", two_reads),
    ]
}

fn add_subject<S: Subject + 'static>(rows: &mut Vec<Row>) {
    let (one, two, open) = (S::closed(), S::closed(), S::open());
    rows.push(Row::new(ONE, S::NAME, Box::new(move |calls| timed(calls, || black_box(&one).call()))));
    rows.push(Row::new(TWO, S::NAME, Box::new(move |calls| both_threads(&two, calls))));
    rows.push(Row::new(
        REFUSAL,
        S::NAME,
        Box::new(move |calls| {
            timed(calls, || {
                black_box(black_box(&open).is_refused());
            })
        }),
    ));
}

/// Two threads share the calls; the time of one call is as one of them sees it.
fn both_threads<S: Subject>(subject: &S, calls: u64) -> Duration {
    let start = std::sync::Barrier::new(2);
    let work = || {
        start.wait();
        timed(calls, || black_box(subject).call())
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let mine = work();
        mine.max(other.join().expect("a no-op call does not panic"))
    })
}

fn keys(count: u64) -> Vec<String> {
    (0..count).map(|n| format!("tenant-{:03} https://hooks.example.com/endpoint/{n}", n % 1_000)).collect()
}

/// The next key, far from the one before.
fn next(place: &mut usize, keys: &[String]) -> usize {
    *place = (*place + 7_919) % keys.len();
    *place
}

fn ours_keyed(count: u64) -> Measure {
    let keys = keys(count);
    let breakers = Breakerbox::builder().build();
    for key in &keys {
        breakers.circuit(key).expect("a good key");
    }
    let mut place = 0;
    Box::new(move |calls| {
        timed(calls, || {
            let circuit = breakers.circuit(&keys[next(&mut place, &keys)]).expect("a good key");
            if let Ok(permit) = circuit.ask() {
                black_box(1_u32);
                permit.success();
            }
        })
    })
}

fn peer_keyed<S: Subject + 'static>(count: u64) -> Measure {
    let keys = keys(count);
    let breakers: DashMap<String, S> = keys.iter().map(|key| (key.clone(), S::closed())).collect();
    let mut place = 0;
    Box::new(move |calls| {
        timed(calls, || {
            if let Some(breaker) = breakers.get(&keys[next(&mut place, &keys)]) {
                breaker.call();
            }
        })
    })
}

fn print(rows: &[Row], arguments: &Arguments) {
    println!(
        "ns for one call, medians of {} rounds of {} calls on {}",
        arguments.rounds,
        arguments.calls,
        machine()
    );
    let mut columns: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    rows.iter().for_each(|row| columns.entry(row.column).or_default().push(row));
    for column in [FLOOR, ONE, TWO, REFUSAL, TEN_THOUSAND, MILLION] {
        let Some(rows) = columns.get(column) else { continue };
        let is_peer = |row: &&&Row| ![Ours::NAME, OursTimed::NAME].contains(&row.subject);
        let fastest =
            rows.iter().filter(is_peer).map(|row| row.nanos(arguments.calls)).fold(f64::INFINITY, f64::min);
        println!("\n| {column} | ns | to the fastest peer |\n| --- | --- | --- |");
        for row in rows {
            let nanos = row.nanos(arguments.calls);
            let ratio = if column == FLOOR { String::new() } else { format!("{:.2}", nanos / fastest) };
            println!("| {} | {nanos:.1} | {ratio} |", row.subject);
        }
    }
}

/// Runs the measuring of memory in its own process: its allocator counts, and is slow.
fn heap() -> Result<()> {
    let program = std::env::current_exe()?.with_file_name("heap");
    let status =
        Command::new(&program).status().with_context(|| format!("can't run {}", program.display()))?;
    ensure!(status.success(), "{}: {status}", program.display());
    Ok(())
}
