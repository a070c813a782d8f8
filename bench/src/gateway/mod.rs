//! Gateway benchmarks: events accepted and delivered, latencies, CPU time and memory, compared with a load
//! generator that posts directly to the receiver, and with one durable commit.
//!
//! | module | measurement |
//! | --- | --- |
//! | `floor` | the limits: the same requests sent directly to the receiver, and small synced writes |
//! | `throughput` | accept and deliver end to end, at the maximum rate |
//! | `halves` | accepting alone, and draining a backlog alone |
//! | `steady` | 200 events per second, at fixed times |
//!
//! The gateway, the receiver and the load generator share the machine. The subjects take turns in rounds, and
//! the medians are reported, so that a busy moment affects all of them. Everything runs on the loopback
//! address, is bounded, and stops on its own; no data are kept.

mod floor;
mod halves;
mod steady;
mod throughput;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use breakerbox_testkit::gateway::{Event, Gateway, Settings};
use breakerbox_testkit::receiver::{Receiver, Recording};
use clap::Args;
use serde_json::json;

use crate::figures::machine;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Number of events in a round
    #[arg(long, default_value_t = 40_000, value_parser = clap::value_parser!(u64).range(100..))]
    events: u64,
    /// Number of rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Number of connections
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Duration of the load of 200 events per second in each round, in seconds
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Run only the parts whose name contains this string: throughput, halves, steady
    #[arg(long, default_value = "")]
    only: String,
    /// Path of the gateway's program
    #[arg(long, default_value = "target/release/breakerbox")]
    program: std::path::PathBuf,
}

/// The timeout for a round.
const WAIT_LIMIT: Duration = Duration::from_secs(120);

/// A gateway with one endpoint at a receiver.
struct Site {
    gateway: Gateway,
    receiver: Receiver,
    endpoint: String,
}

/// The endpoint's path at the receiver.
const PATH: &str = "/in";

impl Site {
    fn start(program: &Path) -> Result<Self> {
        let receiver = Receiver::builder().recording(Recording::Off).start()?;
        let gateway = Settings::new(&std::path::absolute(program)?).start()?;
        let roomy = json!({"backlog": {"count": 100_000_000, "bytes": 1_000_000_000_000_u64}});
        gateway.api().create_tenant("shop", &roomy)?;
        let endpoint = gateway.api().create_endpoint("shop", &receiver.url(PATH), &[], &json!({}))?;
        Ok(Self { gateway, receiver, endpoint })
    }

    fn event() -> Event {
        Event::new("shop", "order.paid")
    }

    fn delivered(&self) -> u64 {
        self.receiver.seen(PATH).delivered
    }

    /// Waits until this many deliveries have arrived. Returns `false` after a timeout.
    fn wait_until_delivered(&self, count: u64) -> bool {
        let began = std::time::Instant::now();
        while self.delivered() < count {
            if began.elapsed() > WAIT_LIMIT {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { events, rounds, connections, .. } = *arguments;
    println!("{}; gateway, receiver and load generator on the same", machine());
    println!("events of 512 bytes, {connections} connections, medians of {rounds} rounds");
    let wanted = |part: &str| part.contains(&arguments.only);
    if wanted("throughput") {
        throughput::run(arguments, events)?;
    }
    if wanted("halves") {
        halves::run(arguments, events)?;
    }
    if wanted("steady") {
        steady::run(arguments)?;
    }
    Ok(())
}

/// Returns the median of the values, or the upper one of the two in the middle. Panics if there are none.
fn middle<T: PartialOrd + Copy>(values: &[T]) -> T {
    let mut values = values.to_vec();
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    values[values.len() / 2]
}

/// Returns `time` divided by `count`, in microseconds.
#[allow(clippy::cast_precision_loss)] // Figures for people.
fn micros_each(time: Duration, count: u64) -> f64 {
    time.as_secs_f64() * 1e6 / count.max(1) as f64
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns `reached` if a target was reached, otherwise `MISSED`.
fn verdict(holds: bool) -> &'static str {
    if holds { "reached" } else { "MISSED" }
}
