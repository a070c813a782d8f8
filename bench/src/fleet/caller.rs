//! A process that puts load on a store: it calls each of its keys once per second, and a share of the calls
//! fails at random. It exits when its input ends.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use breakerbox::store::Store;
use breakerbox::{Breakerbox, Circuit};
use breakerbox_postgres::PostgresStore;
use breakerbox_redis::RedisStore;
use clap::Args;

use super::listener::READY;
use crate::interleave::keys;

/// The interval between bursts of calls. Bursts keep the cost of the loop itself low.
const BURST_EVERY: Duration = Duration::from_millis(5);

/// The number of circuits that are loaded concurrently.
const AT_ONCE: usize = 500;

#[derive(Args)]
pub(crate) struct Arguments {
    /// URL of the store
    url: String,
    /// Number of keys, each called once per second
    keys: u64,
    /// Number of failing calls per million
    failing: u64,
    /// Seed for the random failures
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (breakers, circuits) = runtime.block_on(prepare(arguments))?;
    println!("{READY}");
    let stop = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&stop);
    thread::spawn(move || {
        // The calls end when the input ends, for any reason.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        ended.store(true, Ordering::Relaxed);
    });
    let made = call(&circuits, arguments, &stop);
    println!("{made}");
    drop(breakers);
    Ok(())
}

/// Connects to the store, and loads every circuit into this process.
async fn prepare(arguments: &Arguments) -> Result<(Breakerbox, Vec<Circuit>)> {
    let store: Arc<dyn Store> = if arguments.url.starts_with("postgres") {
        Arc::new(PostgresStore::connect(&arguments.url).await?)
    } else {
        Arc::new(RedisStore::builder(&arguments.url).connect().await?)
    };
    let breakers = Breakerbox::builder().store(store).build();
    let circuits: Vec<_> =
        keys(arguments.keys).iter().map(|key| breakers.circuit(key)).collect::<Result<_, _>>()?;
    for some in circuits.chunks(AT_ONCE) {
        let asks = some.iter().cloned().map(|circuit| {
            tokio::spawn(async move {
                let permit = circuit.acquire().await.map_err(|refusal| anyhow!("{refusal}"))?;
                anyhow::Ok(permit.success())
            })
        });
        for ask in asks.collect::<Vec<_>>() {
            ask.await??;
        }
    }
    Ok((breakers, circuits))
}

/// Calls each circuit once per second until `stop` is set. Returns the number of calls made.
fn call(circuits: &[Circuit], arguments: &Arguments, stop: &AtomicBool) -> u64 {
    let start = Instant::now();
    let (mut made, mut acquired, mut index, mut random) = (0_u64, 0_u64, 0, arguments.seed);
    while !stop.load(Ordering::Relaxed) {
        let due = start.elapsed().as_micros() * u128::from(arguments.keys) / 1_000_000;
        while u128::from(acquired) < due {
            let circuit = &circuits[index];
            index = (index + 1) % circuits.len();
            acquired += 1;
            let Ok(permit) = circuit.try_acquire() else { continue };
            made += 1;
            if next(&mut random) % 1_000_000 < arguments.failing {
                permit.failure();
            } else {
                permit.success();
            }
        }
        thread::sleep(BURST_EVERY);
    }
    made
}

/// Returns the next random number (SplitMix64), so that the failures do not follow a pattern.
const fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
