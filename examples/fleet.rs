//! Three processes of a fleet share a circuit, in one program: a trip that all of them learn of, one probe for all, and
//! a store that becomes unreachable and returns.
//!
//! ```text
//! cargo run -p breakerbox-examples --example fleet
//! ```
//!
//! The store is in memory here, behind a connection that can be cut. A real fleet calls `RedisStore::open(url)?` or
//! `PostgresStore::open(url)?` instead; nothing else changes. The example takes a few seconds and ends by itself.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::{MemoryStore, Store};
use breakerbox::{Breakerbox, CallError, Circuit, CircuitStatus, Permit, Policy, Refusal, StoreHealth};
use breakerbox_testkit::faults::{Fault, FaultyStore};
use tokio::time::{Instant, sleep, timeout};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The timeout of each step.
const LIMIT: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<()> {
    run(&mut io::stdout()).await
}

/// One process of the fleet.
struct Process {
    breakers: Breakerbox,
    circuit: Circuit,
    /// The process's connection to the store.
    way: Arc<FaultyStore>,
}

impl Process {
    fn start(store: &Arc<MemoryStore>) -> Result<Self> {
        let way = FaultyStore::new(Arc::clone(store) as Arc<dyn Store>);
        let policy =
            Policy::builder().consecutive_failures(3).cool_off(Duration::from_secs(1)).jitter(0).probes(1);
        let breakers = Breakerbox::builder()
            .policy(policy.build()?)
            .store(Arc::clone(&way))
            .store_timeout(Duration::from_millis(100))
            .build();
        let circuit = breakers.circuit("acme https://hooks.acme.example/in")?;
        Ok(Self { breakers, circuit, way })
    }

    async fn call(&self, answer: std::result::Result<(), &'static str>) -> &'static str {
        match self.circuit.call(async { answer }).await {
            Ok(()) => "answered",
            Err(CallError::Refused(Refusal::Open { .. })) => "refused: open",
            Err(CallError::Refused(Refusal::Probing { .. })) => "refused: somebody probes",
            Err(CallError::Refused(_)) => "refused",
            Err(_) => "failed",
        }
    }
}

/// Runs the example and writes each step.
pub async fn run(out: &mut (impl Write + Send)) -> Result<()> {
    let store = Arc::new(MemoryStore::new());
    let fleet = [Process::start(&store)?, Process::start(&store)?, Process::start(&store)?];
    let [a, b, c] = &fleet;
    let words = [a.call(Ok(())).await, b.call(Ok(())).await, c.call(Ok(())).await];
    writeln!(out, "All is well:        A {}, B {}, C {}", words[0], words[1], words[2])?;

    // Successes are reported within a second; waits until they are counted before the failures.
    sleep(Duration::from_millis(1_200)).await;
    let words = [a.call(Err("down")).await, b.call(Err("down")).await, a.call(Err("down")).await];
    writeln!(out, "It breaks:          A {}, B {}, A {}", words[0], words[1], words[2])?;
    all(&fleet, CircuitStatus::Open).await?;
    writeln!(out, "All know:           C, who saw no failure, is {}", c.call(Ok(())).await)?;

    sleep(Duration::from_millis(1_100)).await;
    let permits = [a.circuit.acquire().await, b.circuit.acquire().await, c.circuit.acquire().await];
    let probes = permits.iter().filter(|permit| permit.as_ref().is_ok_and(Permit::is_probe)).count();
    writeln!(out, "The cool-off ends:  of 3 that ask, {probes} may probe")?;
    for permit in permits.into_iter().flatten() {
        permit.success();
    }
    all(&fleet, CircuitStatus::Closed).await?;
    writeln!(out, "The probe is well:  closed, for all of them")?;

    a.way.set(Fault::BlackHole);
    let start = Instant::now();
    while a.breakers.store_health() == Some(StoreHealth::Connected) {
        a.call(Err("down")).await;
        sleep(Duration::from_millis(20)).await;
        give_up_after(start)?;
    }
    for _ in 0..3 {
        a.call(Err("down")).await;
    }
    writeln!(out, "A is cut off:       A {}, B {}", a.call(Ok(())).await, b.call(Ok(())).await)?;
    a.way.set(Fault::None);
    let start = Instant::now();
    while a.breakers.store_health() != Some(StoreHealth::Connected)
        || b.circuit.status() != a.circuit.status()
    {
        sleep(Duration::from_millis(20)).await;
        give_up_after(start)?;
    }
    writeln!(out, "A is back:          A and B agree")?;
    Ok(())
}

async fn all(fleet: &[Process], status: CircuitStatus) -> Result<()> {
    let reached = async {
        while fleet.iter().any(|process| process.circuit.status() != status) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    Ok(timeout(LIMIT, reached).await?)
}

fn give_up_after(start: Instant) -> Result<()> {
    if start.elapsed() > LIMIT { Err("it takes too long".into()) } else { Ok(()) }
}
