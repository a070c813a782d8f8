//! The number of commands that Redis executes at two call rates, from its own statistics.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use breakerbox::{Breakerbox, Circuit};
use breakerbox_testkit::servers::RedisServer;
use tokio::runtime::Runtime;

use super::registry;
use crate::interleave::keys;

const KEYS: u64 = 100;
const RATES: [u32; 2] = [1_000, 100_000];

pub(super) fn run(server: &RedisServer, runtime: &Runtime, time: Duration) -> Result<()> {
    println!("\n{KEYS} endpoints, one process, {} s at each rate, by INFO commandstats", time.as_secs());
    println!("\n| calls a second | of which fail | commands a second | made |\n| --- | --- | --- | --- |");
    for one_in in [None, Some(200)] {
        for (n, rate) in RATES.into_iter().enumerate() {
            let namespace = format!("commands{n}{}", one_in.unwrap_or(0));
            let breakers = registry(server, runtime, &namespace, |builder| builder)?;
            let circuits = circuits(&breakers, runtime)?;
            let before = commands(server)?;
            let start = Instant::now();
            let made = at_rate(&circuits, rate, time, one_in);
            let per_second = (commands(server)? - before) as f64 / start.elapsed().as_secs_f64();
            let fail = one_in.map_or("none".to_owned(), |n: u64| format!("1 in {n}"));
            println!("| {rate} | {fail} | {per_second:.1} | {made} |");
        }
    }
    Ok(())
}

fn circuits(breakers: &Breakerbox, runtime: &Runtime) -> Result<Vec<Circuit>> {
    let circuits: Vec<_> = keys(KEYS).iter().map(|key| breakers.circuit(key)).collect::<Result<_, _>>()?;
    for circuit in &circuits {
        // Load each circuit before the count starts.
        let permit = runtime.block_on(circuit.acquire()).map_err(|refusal| anyhow::anyhow!("{refusal}"))?;
        permit.success();
    }
    Ok(circuits)
}

/// Makes `rate` calls per second for the duration `time`, in bursts a millisecond apart. If `one_in` is set,
/// about one call in `one_in` fails; otherwise all succeed. Returns the number of calls made.
fn at_rate(circuits: &[Circuit], rate: u32, time: Duration, one_in: Option<u64>) -> u64 {
    let start = Instant::now();
    let (mut made, mut index) = (0_u64, 0);
    while start.elapsed() < time {
        let due =
            u64::try_from(start.elapsed().as_micros() * u128::from(rate) / 1_000_000).unwrap_or(u64::MAX);
        while made < due {
            let circuit = &circuits[index];
            index = (index + 1) % circuits.len();
            made += 1;
            let Ok(permit) = circuit.try_acquire() else { continue };
            // The step reaches every endpoint.
            if one_in.is_some_and(|n| (made / KEYS + made % KEYS).is_multiple_of(n)) {
                permit.failure();
            } else {
                permit.success();
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    made
}

/// Returns the number of commands that the server has executed so far. `INFO`, with which this number is
/// read, does not count.
pub(super) fn commands(server: &RedisServer) -> Result<u64> {
    counted(server, |name| name != "info")
}

/// Returns the number of scripts that the server has run.
pub(super) fn scripts(server: &RedisServer) -> Result<u64> {
    counted(server, |name| name == "evalsha" || name == "eval")
}

fn counted(server: &RedisServer, is_meant: impl Fn(&str) -> bool) -> Result<u64> {
    let info: String = server.query(&["INFO", "commandstats"])?;
    let mut sum = 0;
    for line in info.lines() {
        let Some((name, stats)) = line.strip_prefix("cmdstat_").and_then(|line| line.split_once(':')) else {
            continue;
        };
        if is_meant(name) {
            let calls = stats.strip_prefix("calls=").and_then(|stats| stats.split(',').next());
            sum += calls.context("commandstats without calls")?.parse::<u64>()?;
        }
    }
    Ok(sum)
}
