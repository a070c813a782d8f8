//! The cost of one call: in-process, local-first and strict, compared with one round trip to Redis.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use breakerbox::{Breakerbox, Circuit, Consistency};
use breakerbox_testkit::servers::RedisServer;
use tokio::runtime::Runtime;

use super::registry;
use crate::interleave::{Rounds, Row, interleave, timed};

const HOT: &str = "asked and settled at once";
const WAITED: &str = "waited for";

/// The divisor for the number of calls in measurements whose calls wait for the server, so that a round
/// doesn't take too long.
const WAITING_IS_SLOWER: u64 = 1_000;

pub(super) fn run(server: &RedisServer, runtime: &Runtime, size: &Rounds) -> Result<()> {
    let own = Breakerbox::builder().build();
    let local = registry(server, runtime, "cost", |builder| builder)?;
    let strict = registry(server, runtime, "strict", |builder| builder.consistency(Consistency::Strict))?;
    let key = "tenant https://hooks.example.com/in";
    let known = local.circuit(key)?;
    runtime.block_on(known.call(async { Ok::<_, ()>(()) })).map_err(|_| anyhow::anyhow!("refused"))?;
    let mut rows = vec![hot("in-process", own.circuit(key)?), hot("local-first, Redis", known)];

    let client = redis::Client::open(server.url())?;
    let mut connection = runtime.block_on(client.get_multiplexed_async_connection())?;
    let handle = runtime.handle().clone();
    let ping = move |calls| {
        let mut made = 0;
        timed_async(&handle, calls / WAITING_IS_SLOWER, async || {
            let pong: String = redis::cmd("PING").query_async(&mut connection).await.expect("it is there");
            made += pong.len();
        })
    };
    rows.push(Row::new(WAITED, "one PING", Box::new(ping)));
    let strict = strict.circuit(key)?;
    let handle = runtime.handle().clone();
    let call = move |calls| {
        timed_async(&handle, calls / WAITING_IS_SLOWER, async || {
            strict.call(async { Ok::<_, ()>(()) }).await.expect("all is well");
        })
    };
    rows.push(Row::new(WAITED, "strict, Redis", Box::new(call)));
    interleave(&mut rows, size);

    let of = |subject: &str| rows.iter().find(|row| row.subject == subject).map(|row| row.nanos(size.calls));
    let in_process = of("in-process").context("measured")?;
    let ping = of("one PING").context("measured")?;
    println!("\none call, medians of {} rounds", size.rounds);
    println!("\n| {HOT} | ns | to the in-process one |\n| --- | --- | --- |");
    for row in rows.iter().filter(|row| row.column == HOT) {
        let nanos = row.nanos(size.calls);
        println!("| {} | {nanos:.1} | {:.2} |", row.subject, nanos / in_process);
    }
    println!("\n| {WAITED} | us | to one PING |\n| --- | --- | --- |");
    for row in rows.iter().filter(|row| row.column == WAITED) {
        let nanos = row.nanos(size.calls);
        println!(
            "| {} | {:.0} | {:.2} |",
            row.subject,
            nanos * 1e-3 * WAITING_IS_SLOWER as f64,
            nanos / ping
        );
    }
    round_trips(server, runtime)
}

/// Measures and prints the average number of store requests for a successful call in strict mode.
fn round_trips(server: &RedisServer, runtime: &Runtime) -> Result<()> {
    const CALLS: u64 = 1_000;
    let strict = registry(server, runtime, "trips", |builder| builder.consistency(Consistency::Strict))?;
    let circuit = strict.circuit("tenant https://hooks.example.com/in")?;
    let before = super::commands::scripts(server)?;
    runtime.block_on(async {
        for _ in 0..CALLS {
            circuit.call(async { Ok::<_, ()>(()) }).await.map_err(|error| anyhow::anyhow!("{error:?}"))?;
        }
        anyhow::Ok(())
    })?;
    let after = super::commands::scripts(server)?;
    println!("\nround trips for a strict, healthy call: {:.2}", (after - before) as f64 / CALLS as f64);
    Ok(())
}

fn hot(subject: &'static str, circuit: Circuit) -> Row {
    let call = move || {
        if let Ok(permit) = black_box(&circuit).try_acquire() {
            permit.success();
        }
    };
    Row::new(HOT, subject, Box::new(move |calls| timed(calls, &call)))
}

fn timed_async(handle: &tokio::runtime::Handle, calls: u64, mut call: impl AsyncFnMut()) -> Duration {
    handle.block_on(async {
        let start = Instant::now();
        for _ in 0..calls.max(1) {
            call().await;
        }
        start.elapsed()
    })
}
