//! A process that reports when it sees a circuit open, and when it receives a plain message. It exits when its
//! input ends.

use std::io::Read;
use std::sync::mpsc;

use anyhow::Result;
use breakerbox::{Breakerbox, CircuitStatus};
use breakerbox_redis::RedisStore;
use clap::Args;
use rustix::time::{ClockId, clock_gettime};

use super::brittle;

/// The Redis channel for plain messages, whose latency is the baseline for the latency of trips.
pub(super) const CHANNEL: &str = "plain";

/// The line that the listener prints when it is ready.
pub(super) const READY: &str = "ready";

#[derive(Args)]
pub(crate) struct Arguments {
    /// URL of the store
    url: String,
    /// Namespace of the fleet
    namespace: String,
    /// Number of circuits
    circuits: u32,
}

/// Returns the current time of the machine's monotonic clock, in nanoseconds. All processes on the machine
/// read the same clock, so their times can be compared.
pub(super) fn nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

pub(super) fn key(n: u32) -> String {
    format!("tenant https://hooks.example.com/{n}")
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (say, said) = mpsc::channel::<(String, u64)>();
    let messages = redis::Client::open(arguments.url.as_str())?;
    let plain = say.clone();
    let (subscribed, is_subscribed) = mpsc::channel();
    std::thread::spawn(move || -> Result<()> {
        let mut connection = messages.get_connection()?;
        let mut subscription = connection.as_pubsub();
        subscription.subscribe(CHANNEL)?;
        subscribed.send(())?;
        loop {
            let message: String = subscription.get_message()?.get_payload()?;
            plain.send((message, nanos()))?;
        }
    });
    is_subscribed.recv()?;
    std::thread::spawn(move || {
        for (what, when) in said {
            println!("{what}\t{when}");
        }
    });
    let builder = RedisStore::builder(&arguments.url).namespace(&arguments.namespace);
    let breakers = runtime.block_on(async {
        let opened = say.clone();
        let builder = Breakerbox::builder().policy(brittle().build()?).store(builder.connect().await?);
        let breakers = builder
            .observer(move |received| {
                if received.change.to == CircuitStatus::Open {
                    let _ = opened.send((received.key.to_string(), nanos()));
                }
            })
            .build();
        for n in 0..arguments.circuits {
            let permit = breakers.circuit(&key(n))?.acquire().await.map(drop);
            permit.map_err(|refusal| anyhow::anyhow!("{refusal}"))?;
        }
        anyhow::Ok(breakers)
    })?;
    say.send((READY.to_owned(), 0))?;
    // Runs until the input ends.
    let waiting = std::thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    runtime.block_on(async {
        while !waiting.is_finished() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    });
    drop(breakers);
    Ok(())
}
