//! Many circuits, a tenth of which fail at once: the time until they are open in all processes, the time to
//! read them again, the latency of a call to a healthy endpoint meanwhile, and their size in Redis.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use breakerbox::{Breakerbox, Circuit, CircuitStatus};
use breakerbox_redis::RedisStore;
use breakerbox_testkit::servers::RedisServer;
use tokio::runtime::Runtime;

use super::timed_store::TimedStore;
use super::{brittle, percentile, registry};
use crate::interleave::keys;

const NAMESPACE: &str = "many";

/// The number of calls in a burst. After each burst there is a pause of a millisecond, which gives some 20,000
/// calls per second.
const IN_A_ROW: usize = 20;

/// How long the benchmark continues after all circuits are open, so that the process reads them again a few
/// times.
const WATCHED: Duration = Duration::from_secs(8);

/// The maximum time between two reads that belong to the same pass over all open circuits.
const PAUSE: Duration = Duration::from_millis(500);

/// Every read from the store: the number of records, the start time and the duration.
type Reads = Arc<Mutex<Vec<(usize, Instant, Duration)>>>;

pub(super) fn run(server: &RedisServer, runtime: &Runtime, count: u64) -> Result<()> {
    let empty = memory(server)?;
    let reads = Reads::default();
    let breakers = watched_registry(server, runtime, &reads)?;
    let other = registry(server, runtime, NAMESPACE, |builder| builder)?;
    let keys = keys(count);
    let start = Instant::now();
    let circuits = know(&breakers, runtime, &keys)?;
    know(&other, runtime, &keys)?;
    println!("\n{count} circuits, known to two processes after {:.1} s", start.elapsed().as_secs_f64());
    wait_for_merges(server, empty, count)?;
    let called = memory(server)?;

    let (failing, healthy) = circuits.split_at(circuits.len() / 10);
    let start = Instant::now();
    for circuit in failing {
        if let Ok(permit) = circuit.try_acquire() {
            permit.failure();
        }
    }
    let mut calls = Vec::new();
    let mut index = 0;
    let mut opened = None;
    while opened.is_none_or(|at: Duration| start.elapsed() < at + WATCHED) {
        let began = Instant::now();
        index = (index + 7_919) % healthy.len();
        if let Ok(permit) = healthy[index].try_acquire() {
            permit.success();
        }
        calls.push(began.elapsed());
        if calls.len().is_multiple_of(IN_A_ROW) {
            std::thread::sleep(Duration::from_millis(1));
            if opened.is_none() && all_open(&other, &keys[..failing.len()])? {
                opened = Some(start.elapsed());
            }
            ensure!(start.elapsed() < Duration::from_secs(120), "they do not open");
        }
    }
    let open = memory(server)?;
    let (longest, passes) = readings(&reads, failing.len());
    ensure!(passes > 0, "nothing was read again");
    let p = |calls: &mut Vec<Duration>, p| percentile(calls, p).as_nanos();
    println!("\n| {} of them fail at once | |\n| --- | --- |", failing.len());
    println!(
        "| all open, and known to the other process, after | {:.2} s |",
        opened.context("they did")?.as_secs_f64()
    );
    println!("| the longest of {passes} readings of what is not closed | {} ms |", longest.as_millis());
    println!(
        "| calls to healthy ones meanwhile: median, p99 | {} ns, {} ns |",
        p(&mut calls, 50),
        p(&mut calls, 99)
    );
    println!("| the longest of {} calls | {} us |", calls.len(), p(&mut calls, 100) / 1_000);
    println!("| memory in Redis: called, never tripped | {} bytes each |", (called - empty) / count);
    println!("| memory in Redis: open | {} bytes more |", open.saturating_sub(called) / failing.len() as u64);
    Ok(())
}

fn watched_registry(server: &RedisServer, runtime: &Runtime, reads: &Reads) -> Result<Breakerbox> {
    let _on_it = runtime.enter();
    let store = runtime.block_on(RedisStore::builder(&server.url()).namespace(NAMESPACE).connect())?;
    let log = Arc::clone(reads);
    let store = TimedStore::new(store).on_read(move |count, from, took| {
        log.lock().unwrap_or_else(PoisonError::into_inner).push((count, from, took));
    });
    Ok(Breakerbox::builder().policy(brittle().build()?).store(store).build())
}

/// Calls each circuit once, so that the process and the store have an entry for it.
fn know(breakers: &Breakerbox, runtime: &Runtime, keys: &[String]) -> Result<Vec<Circuit>> {
    let circuits: Vec<_> = keys.iter().map(|key| breakers.circuit(key)).collect::<Result<_, _>>()?;
    runtime.block_on(async {
        for some in circuits.chunks(1_000) {
            let asks = some.iter().map(|circuit| {
                let circuit = circuit.clone();
                tokio::spawn(async move { circuit.call(async { Ok::<_, ()>(()) }).await })
            });
            for ask in asks.collect::<Vec<_>>() {
                ask.await?.map_err(|error| anyhow::anyhow!("{error:?}"))?;
            }
        }
        Ok(circuits)
    })
}

/// Waits until the server's memory use stops growing, which means that the store has merged the counts of all
/// circuits. Fails after a minute.
fn wait_for_merges(server: &RedisServer, empty: u64, count: u64) -> Result<()> {
    let limit = Instant::now() + Duration::from_secs(60);
    let mut before = empty;
    loop {
        std::thread::sleep(Duration::from_secs(2));
        let now = memory(server)?;
        if now > empty + count * 100 && now.abs_diff(before) < count {
            return Ok(());
        }
        before = now;
        ensure!(Instant::now() < limit, "the store hears of them too slowly");
    }
}

fn all_open(breakers: &Breakerbox, keys: &[String]) -> Result<bool> {
    for key in keys {
        if breakers.circuit(key)?.status() != CircuitStatus::Open {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Groups the reads into passes. Of the passes that read all `open` circuits, returns the longest duration
/// and the number.
fn readings(reads: &Reads, open: usize) -> (Duration, usize) {
    let reads = reads.lock().unwrap_or_else(PoisonError::into_inner);
    let mut passes: Vec<(usize, Instant, Instant)> = Vec::new();
    for &(count, from, took) in reads.iter() {
        match passes.last_mut() {
            Some((read, _, until)) if from.saturating_duration_since(*until) < PAUSE => {
                *read += count;
                *until = from + took;
            }
            _ => passes.push((count, from, from + took)),
        }
    }
    let whole = passes.iter().filter(|(read, ..)| *read == open).map(|(_, from, until)| *until - *from);
    (whole.clone().max().unwrap_or_default(), whole.count())
}

fn memory(server: &RedisServer) -> Result<u64> {
    let used = server.info("memory", "used_memory")?.context("Redis says how much memory it uses")?;
    Ok(used.trim().parse()?)
}
