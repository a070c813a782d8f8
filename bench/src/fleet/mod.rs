//! Circuits that a fleet shares through Redis, compared with process-local circuits, one PING, and one message.
//!
//! | module | measurement |
//! | --- | --- |
//! | `cost` | one call: in-process, local-first, strict |
//! | `commands` | the commands that Redis executes, at two call rates |
//! | `spread` | how soon other processes see a trip; `listener` is one of these processes |
//! | `many` | 100,000 circuits, 10,000 of which fail at once |
//! | `load` | the load that a fleet puts on its store, by keys and processes; `caller` is one of the processes |
//!
//! The server is private to the benchmark. Everything is bounded, uses the loopback address, and stops on its
//! own.

mod caller;
mod commands;
mod cost;
mod listener;
mod load;
mod many;
mod spread;
mod timed_store;

use std::time::Duration;

use anyhow::{Context, Result};
use breakerbox::{Breakerbox, BreakerboxBuilder, Policy, PolicyBuilder};
use breakerbox_redis::RedisStore;
use breakerbox_testkit::servers::RedisServer;
use clap::Args;
use tokio::runtime::Runtime;

pub(crate) use self::caller::{Arguments as CallerArguments, run as call};
pub(crate) use self::listener::{Arguments as ListenerArguments, run as listen};
use crate::figures::machine;
use crate::interleave::Rounds;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    size: Rounds,
    /// Number of trips to measure
    #[arg(long, default_value_t = 400)]
    trips: u32,
    /// Duration of the calls at each rate, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Number of known circuits, a tenth of which fail
    #[arg(long, default_value_t = 100_000)]
    circuits: u64,
    #[command(flatten)]
    sizes: load::Sizes,
    /// Run only the parts whose name contains this string
    #[arg(long, default_value = "")]
    only: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let server = RedisServer::start().context("a private Redis server")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("{}, Redis on the same", machine());
    let wanted = |part: &str| part.contains(&arguments.only);
    if wanted("cost") {
        cost::run(&server, &runtime, &arguments.size)?;
    }
    if wanted("commands") {
        commands::run(&server, &runtime, Duration::from_secs(arguments.seconds.max(1)))?;
    }
    if wanted("spread") {
        spread::run(&server, &runtime, arguments.trips.max(100))?;
    }
    if wanted("many") {
        many::run(&server, &runtime, arguments.circuits.max(10))?;
    }
    if wanted("load") {
        load::run(&runtime, &arguments.sizes, Duration::from_secs(arguments.seconds.max(1)))?;
    }
    Ok(())
}

/// Returns a policy that opens the circuit at the first failure.
fn brittle() -> PolicyBuilder {
    Policy::builder().failure_rate(None).consecutive_failures(1).cool_off(Duration::from_secs(600))
}

/// Returns a registry with its own store connection in this namespace. Its background tasks run on the runtime.
fn registry(
    server: &RedisServer,
    runtime: &Runtime,
    namespace: &str,
    settings: impl FnOnce(BreakerboxBuilder) -> BreakerboxBuilder,
) -> Result<Breakerbox> {
    let _on_it = runtime.enter();
    let store = runtime.block_on(RedisStore::builder(&server.url()).namespace(namespace).connect())?;
    Ok(settings(Breakerbox::builder().store(store)).build())
}

/// Returns the p-th percentile; 100 is the maximum.
fn percentile(times: &mut [Duration], p: usize) -> Duration {
    times.sort();
    times.get(times.len() * p / 100).or(times.last()).copied().unwrap_or_default()
}
