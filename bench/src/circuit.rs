//! One call through a circuit, compared with other crates and with the limits of the machine.
//!
//! Every value is in nanoseconds per call, the median of rounds in which all subjects take turns. A ratio is
//! relative to the fastest other crate in the same column. The heap is measured by the program `heap`, in its
//! own process.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use breakerbox::Breakerbox;
use clap::Args;
use dashmap::DashMap;

use crate::interleave::{
    FLOOR, Measure, Rounds, Row, both_threads, floors, interleave, keys, next, print_method, timed,
};
use crate::peers::{
    Breaker, CircuitBreakerCrate, Failsafe, Ours, OursTimed, Recloser, Subject, TowerResilience,
};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    size: Rounds,
    /// Leave out the benchmark with a million keys, which takes a gigabyte of memory
    #[arg(long)]
    quick: bool,
}

const ONE: &str = "closed, 1 thread";
const TWO: &str = "closed, 2 threads on one";
const REFUSAL: &str = "refusal";
const TEN_THOUSAND: &str = "keyed, 10,000";
const MILLION: &str = "keyed, 1,000,000";

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
    interleave(&mut rows, &arguments.size);
    print(&rows, arguments);
    heap()
}

fn add_subject<S: Subject + 'static>(rows: &mut Vec<Row>) {
    let (one, two, open) = (S::closed(), S::closed(), S::open());
    rows.push(Row::new(ONE, S::NAME, Box::new(move |calls| timed(calls, || black_box(&one).call()))));
    rows.push(Row::new(TWO, S::NAME, Box::new(move |calls| both_threads(calls, || black_box(&two).call()))));
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
            if let Ok(permit) = circuit.try_acquire() {
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
    print_method(&arguments.size);
    let mut columns: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    rows.iter().for_each(|row| columns.entry(row.column).or_default().push(row));
    for column in [FLOOR, ONE, TWO, REFUSAL, TEN_THOUSAND, MILLION] {
        let Some(rows) = columns.get(column) else { continue };
        let is_peer = |row: &&&Row| ![Ours::NAME, OursTimed::NAME].contains(&row.subject);
        let fastest = rows
            .iter()
            .filter(is_peer)
            .map(|row| row.nanos(arguments.size.calls))
            .fold(f64::INFINITY, f64::min);
        println!("\n| {column} | ns | to the fastest peer |\n| --- | --- | --- |");
        for row in rows {
            let nanos = row.nanos(arguments.size.calls);
            let ratio = if column == FLOOR { String::new() } else { format!("{:.2}", nanos / fastest) };
            println!("| {} | {nanos:.1} | {ratio} |", row.subject);
        }
    }
}

/// Runs the memory benchmark in a separate process, because the counting allocator would slow down the other
/// measurements.
fn heap() -> Result<()> {
    let program = std::env::current_exe()?.with_file_name("heap");
    let status =
        Command::new(&program).status().with_context(|| format!("can't run {}", program.display()))?;
    ensure!(status.success(), "{}: {status}", program.display());
    Ok(())
}
