//! The time until seven other processes see a trip, after its record is sent to the store, compared with the
//! time until a plain Redis message reaches the same processes.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use breakerbox::Breakerbox;
use breakerbox_redis::RedisStore;
use breakerbox_testkit::servers::RedisServer;
use tokio::runtime::Runtime;

use super::listener::{CHANNEL, READY, key, nanos};
use super::timed_store::TimedStore;
use super::{brittle, percentile};

const OTHERS: usize = 7;
const NAMESPACE: &str = "spread";

/// The interval between two trips, long enough that they do not affect each other.
const APART: Duration = Duration::from_millis(10);

struct Listener {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn run(server: &RedisServer, runtime: &Runtime, trips: u32) -> Result<()> {
    let mut listeners: Vec<_> = (0..OTHERS).map(|_| Listener::start(server, trips)).collect::<Result<_>>()?;
    for listener in &mut listeners {
        let (ready, _) = listener.next()?;
        ensure!(ready == READY, "a listener said {ready}");
    }
    let sent = Arc::new(Mutex::new(HashMap::new()));
    runtime.block_on(make_trips(server, trips, &sent))?;
    let sent = std::mem::take(&mut *sent.lock().unwrap_or_else(PoisonError::into_inner));
    ensure!(sent.len() == 2 * trips as usize, "{} of {} were sent", sent.len(), 2 * trips);
    let (mut seen, mut received) = (Vec::new(), Vec::new());
    for listener in &mut listeners {
        for _ in 0..sent.len() {
            let (what, when) = listener.next()?;
            let began = sent.get(&what).with_context(|| format!("nobody sent {what}"))?;
            let took = Duration::from_nanos(when.saturating_sub(*began));
            if what.starts_with(MESSAGE) { received.push(took) } else { seen.push(took) }
        }
    }
    print(&mut seen, &mut received, trips);
    Ok(())
}

const MESSAGE: &str = "message ";

/// Opens one circuit after another with failing calls, and sends a plain Redis message after each.
async fn make_trips(server: &RedisServer, trips: u32, sent: &Arc<Mutex<HashMap<String, u64>>>) -> Result<()> {
    let store = RedisStore::builder(&server.url()).namespace(NAMESPACE).connect().await?;
    let log = Arc::clone(sent);
    let swapped = move |key: &str| {
        log.lock().unwrap_or_else(PoisonError::into_inner).entry(key.to_owned()).or_insert_with(nanos);
    };
    let store = TimedStore::new(store).on_swap(swapped);
    let breakers = Breakerbox::builder().policy(brittle().build()?).store(store).build();
    let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    for n in 0..trips {
        let circuit = breakers.circuit(&key(n))?;
        let permit = circuit.acquire().await.map_err(|refusal| anyhow::anyhow!("{refusal}"))?;
        permit.failure();
        tokio::time::sleep(APART / 2).await;
        let message = format!("{MESSAGE}{n}");
        sent.lock().unwrap_or_else(PoisonError::into_inner).insert(message.clone(), nanos());
        redis::cmd("PUBLISH").arg(CHANNEL).arg(&message).exec_async(&mut connection).await?;
        tokio::time::sleep(APART / 2).await;
    }
    // If only one process reports failures, a circuit opens after a second.
    let limit = tokio::time::Instant::now() + Duration::from_secs(30);
    while sent.lock().unwrap_or_else(PoisonError::into_inner).len() < 2 * trips as usize {
        ensure!(tokio::time::Instant::now() < limit, "not all circuits opened");
        tokio::time::sleep(APART).await;
    }
    Ok(())
}

impl Listener {
    fn start(server: &RedisServer, circuits: u32) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["fleet-listener", &server.url(), NAMESPACE, &circuits.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = BufReader::new(child.stdout.take().context("it has a standard output")?).lines();
        Ok(Self { child, said })
    }

    fn next(&mut self) -> Result<(String, u64)> {
        let line = self.said.next().context("a listener ended")??;
        let (what, when) = line.split_once('\t').with_context(|| format!("a listener said {line}"))?;
        Ok((what.to_owned(), when.parse()?))
    }
}

fn print(seen: &mut [Duration], received: &mut [Duration], trips: u32) {
    println!(
        "\n{trips} trips in one process, seen by {OTHERS} others; and as many plain messages in between"
    );
    println!("\n| from sending to receiving | median us | p99 us | p99 to a median message |");
    println!("| --- | --- | --- | --- |");
    let message = percentile(received, 50).as_secs_f64();
    for (name, times) in [("a plain message", received), ("a trip, with its swap", seen)] {
        let (median, p99) = (percentile(times, 50), percentile(times, 99));
        let ratio = p99.as_secs_f64() / message;
        println!("| {name} | {} | {} | {ratio:.1} |", median.as_micros(), p99.as_micros());
    }
}
