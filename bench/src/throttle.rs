//! One call through a throttle, compared with the cost of reading the time; then every scenario against its
//! targets.
//!
//! A call reads the clock twice, so two reads are the lower bound. No other Rust crate does the same; the
//! comparison is with `governor`, which enforces a fixed rate that the operator has to know.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use breakerbox::throttle::{LoadSignal, Overload, Priority, Strategy, Throttle, ThrottlePolicy};
use breakerbox_testkit::overload::print_proofs;
use clap::Args;
use governor::{Quota, RateLimiter};

use crate::interleave::{
    FLOOR, INSTANT, Rounds, Row, both_threads, floors, interleave, keys, next, print_method, timed,
};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    size: Rounds,
    /// Number of seeds to average the scenarios over; 0 leaves them out
    #[arg(long, default_value_t = 20)]
    seeds: u64,
}

const CALM: &str = "calm, 1 thread";
const CALM_TWO: &str = "calm, 2 threads on one";
const DROWNING: &str = "3 of 4 sent are rejected, 1 thread";
const DROWNING_TWO: &str = "3 of 4 sent are rejected, 2 threads on one";
const OUTAGE: &str = "all is rejected, 1 thread";
const KEYED: &str = "calm, keyed, 10,000";
const COLUMNS: [&str; 7] = [FLOOR, CALM, CALM_TWO, DROWNING, DROWNING_TWO, OUTAGE, KEYED];

const ADAPTIVE: &str = "breakerbox, Adaptive";
const SRE: &str = "breakerbox, Sre";

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut rows = floors();
    add_ours(&mut rows, ADAPTIVE, Strategy::Adaptive)?;
    add_ours(&mut rows, SRE, Strategy::Sre)?;
    add_governor(&mut rows);
    interleave(&mut rows, &arguments.size);
    print(&rows, arguments);
    if arguments.seeds > 0 {
        println!();
        let missed = print_proofs("", arguments.seeds)?;
        ensure!(missed.is_empty(), "targets missed in {}", missed.join(", "));
    }
    Ok(())
}

fn throttle(strategy: Strategy) -> Result<Throttle> {
    let policy = ThrottlePolicy::builder().strategy(strategy).build()?;
    Ok(Throttle::builder().policy(policy).build())
}

/// Makes one call: acquires a pass, and settles it with the load signal that `verdict` returns.
#[inline]
fn call(throttle: &Throttle, verdict: impl FnOnce() -> LoadSignal) {
    if let Ok(pass) = black_box(throttle).try_acquire(Priority::MEDIUM) {
        pass.settle(verdict());
    }
}

fn add_ours(rows: &mut Vec<Row>, name: &'static str, strategy: Strategy) -> Result<()> {
    let accept = || LoadSignal::Accept;
    let [one, two, drowning, drowning_two, outage] = [(); 5].map(|()| throttle(strategy));
    let (one, two, drowning, drowning_two, outage) = (one?, two?, drowning?, drowning_two?, outage?);
    sheds(&drowning, one_in_four())?;
    sheds(&drowning_two, one_in_four())?;
    sheds(&outage, || LoadSignal::Reject)?;
    rows.push(Row::new(CALM, name, Box::new(move |calls| timed(calls, || call(&one, accept)))));
    rows.push(Row::new(CALM_TWO, name, Box::new(move |calls| both_threads(calls, || call(&two, accept)))));
    let verdict = one_in_four();
    rows.push(Row::new(DROWNING, name, Box::new(move |calls| timed(calls, || call(&drowning, &verdict)))));
    let verdict = one_in_four();
    let on_two = move |calls| both_threads(calls, || call(&drowning_two, &verdict));
    rows.push(Row::new(DROWNING_TWO, name, Box::new(on_two)));
    let in_outage = move |calls| timed(calls, || call(&outage, || LoadSignal::Reject));
    rows.push(Row::new(OUTAGE, name, Box::new(in_outage)));

    let keys = keys(10_000);
    let policy = ThrottlePolicy::builder().strategy(strategy).build()?;
    let throttles = Throttle::builder().policy(policy).classify(Overload::default()).build_keyed(10_000);
    let mut place = 0;
    let keyed = move |calls| {
        timed(calls, || {
            let throttle = throttles.throttle(&keys[next(&mut place, &keys)]).expect("a good key");
            call(&throttle, accept);
        })
    };
    rows.push(Row::new(KEYED, name, Box::new(keyed)));
    Ok(())
}

/// Returns a function that returns load signals: one accept, then three rejects, and so on.
fn one_in_four() -> impl Fn() -> LoadSignal + Sync {
    let count = AtomicU64::new(0);
    move || match count.fetch_add(1, Ordering::Relaxed) % 4 {
        0 => LoadSignal::Accept,
        _ => LoadSignal::Reject,
    }
}

/// Makes calls with these load signals until the throttle sheds one. Fails if it sheds none within 30
/// seconds.
fn sheds(throttle: &Throttle, verdict: impl Fn() -> LoadSignal) -> Result<()> {
    let start = Instant::now();
    while let Ok(pass) = throttle.try_acquire(Priority::MEDIUM) {
        pass.settle(verdict());
        ensure!(start.elapsed() < Duration::from_secs(30), "this load does not make it shed");
    }
    Ok(())
}

fn add_governor(rows: &mut Vec<Row>) {
    const NAME: &str = "governor, a fixed rate";
    // The largest possible quota: no call is refused.
    let limiter = || RateLimiter::direct(Quota::per_second(std::num::NonZeroU32::MAX));
    let (one, two) = (limiter(), limiter());
    let check = |limiter: &governor::DefaultDirectRateLimiter| {
        black_box(black_box(limiter).check().is_ok());
    };
    rows.push(Row::new(CALM, NAME, Box::new(move |calls| timed(calls, || check(&one)))));
    rows.push(Row::new(CALM_TWO, NAME, Box::new(move |calls| both_threads(calls, || check(&two)))));
}

fn print(rows: &[Row], arguments: &Arguments) {
    print_method(&arguments.size);
    let mut columns: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    rows.iter().for_each(|row| columns.entry(row.column).or_default().push(row));
    let instant =
        rows.iter().find(|row| row.subject == INSTANT).map_or(1.0, |row| row.nanos(arguments.size.calls));
    for column in COLUMNS {
        println!("\n| {column} | ns | to {INSTANT} |\n| --- | --- | --- |");
        for row in &columns[column] {
            let nanos = row.nanos(arguments.size.calls);
            println!("| {} | {nanos:.1} | {:.2} |", row.subject, nanos / instant);
        }
    }
}
