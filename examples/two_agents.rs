//! Asynchronous breakers: two agents deliver webhooks and write every attempt into one table. One of them leads: it
//! reads the table at intervals and decides for every endpoint. Both check the circuit before they send.
//!
//! ```text
//! cargo run -p breakerbox-examples --example two-agents
//! ```
//!
//! The table is an SQLite file in a temporary folder, the endpoints are simulated, and the store is in memory. Two
//! agents on two machines use Redis or Postgres instead; everything else is the same. The example takes about ten
//! seconds and ends by itself.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use breakerbox::sampling::{Sampling, SqlTable, SqliteSampler, TimeFormat};
use breakerbox::store::MemoryStore;
use breakerbox::{Breakerbox, CircuitStatus, Policy, Preset};
use rusqlite::Connection;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const ENDPOINT: &str = "acme https://hooks.acme.example/in";

#[tokio::main]
async fn main() -> Result<()> {
    run(&mut io::stdout()).await
}

/// The table of all attempts: the deliveries table that such a service has anyway.
struct Attempts(Mutex<Connection>);

impl Attempts {
    fn create(file: &Path) -> Result<Self> {
        let connection = Connection::open(file)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE attempts (endpoint TEXT, delivered INTEGER, sent_at INTEGER, answered_at INTEGER);
             CREATE INDEX by_end ON attempts (answered_at);
             CREATE INDEX by_endpoint ON attempts (endpoint, sent_at);",
        )?;
        Ok(Self(Mutex::new(connection)))
    }

    fn write(&self, endpoint: &str, delivered: bool, sent_at: i64) -> Result<()> {
        let row = (endpoint, delivered, sent_at, now()?);
        let connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        connection.execute("INSERT INTO attempts VALUES (?1, ?2, ?3, ?4)", row)?;
        Ok(())
    }
}

/// Returns the milliseconds since 1970.
fn now() -> Result<i64> {
    Ok(i64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis())?)
}

/// One process of the fleet.
#[derive(Clone)]
struct Agent {
    name: &'static str,
    sampling: Sampling,
    attempts: Arc<Attempts>,
    /// Whether the endpoint answers.
    is_up: Arc<AtomicBool>,
}

impl Agent {
    /// Delivers one event, if the circuit allows it. Returns false if the event was kept for later.
    async fn deliver(&self, endpoint: &str) -> Result<bool> {
        let Ok(checked) = self.sampling.check(endpoint).await? else { return Ok(false) };
        let sent_at = now()?;
        // A real agent makes the request here. It takes a while.
        sleep(Duration::from_millis(50)).await;
        self.attempts.write(endpoint, self.is_up.load(SeqCst), sent_at)?;
        // Optional: this lets the next call go as soon as this attempt is written.
        checked.settle();
        Ok(true)
    }
}

/// Lets both agents deliver at once. Returns the number of events that were sent.
async fn deliver(agents: &[Agent], events: usize) -> Result<usize> {
    let mut deliveries = JoinSet::new();
    for n in 0..events {
        let agent = agents[n % agents.len()].clone();
        deliveries.spawn(async move { agent.deliver(ENDPOINT).await });
    }
    let mut sent = 0;
    while let Some(delivered) = deliveries.join_next().await {
        sent += usize::from(delivered??);
    }
    Ok(sent)
}

async fn until(holds: impl Fn() -> bool) -> Result<()> {
    let limit = Instant::now() + Duration::from_secs(60);
    while !holds() {
        timeout_at(limit, sleep(Duration::from_millis(5))).await?;
    }
    Ok(())
}

fn knows(agents: &[Agent], status: CircuitStatus) -> bool {
    agents
        .iter()
        .all(|agent| agent.sampling.circuit(ENDPOINT).is_ok_and(|circuit| circuit.status() == status))
}

/// Runs the example: a trip, a recovery and the loss of the leader.
pub async fn run(out: &mut impl Write) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("deliveries.db");
    let attempts = Arc::new(Attempts::create(&file)?);
    let (store, is_up) = (Arc::new(MemoryStore::new()), Arc::new(AtomicBool::new(true)));
    let table = SqlTable::new("attempts")
        .key_column("endpoint")
        .success_column("delivered")
        .started_at_column("sent_at")
        .finished_at_column("answered_at")
        .times(TimeFormat::UnixMillis);
    let mut agents = Vec::new();
    for name in ["Ada", "Ben"] {
        // The numbers of Convoy's breaker, with a shorter cool-off, so that the example is short.
        let policy = Policy::builder().preset(Preset::Convoy).cool_off(Duration::from_secs(3));
        let sampling = Breakerbox::builder()
            .store(Arc::clone(&store))
            .sampling(policy)
            .sampler(SqliteSampler::new(&file, table.clone())?)
            .sample_every(Duration::from_millis(100))
            .build()?;
        let agent = Agent { name, sampling, attempts: Arc::clone(&attempts), is_up: Arc::clone(&is_up) };
        if agents.is_empty() {
            until(|| agent.sampling.report().leads).await?;
        }
        agents.push(agent);
    }
    let leader = |agents: &[Agent]| {
        let leads = |agent: &&Agent| agent.sampling.report().leads;
        agents.iter().filter(leads).map(|agent| agent.name).collect::<Vec<_>>().join(" and ")
    };
    writeln!(out, "{} leads, {} follows.", leader(&agents), agents[1].name)?;

    writeln!(out, "All is well:  of 20 events {} are sent.", deliver(&agents, 20).await?)?;
    is_up.store(false, SeqCst);
    writeln!(out, "It is down:   of 60 events {} are sent, and fail.", deliver(&agents, 60).await?)?;
    until(|| knows(&agents, CircuitStatus::Open)).await?;
    writeln!(out, "Open:         of 20 events {} are sent.", deliver(&agents, 20).await?)?;

    is_up.store(true, SeqCst);
    until(|| knows(&agents, CircuitStatus::HalfOpen)).await?;
    writeln!(out, "Half-open:    of 20 events at once {} is sent.", deliver(&agents, 20).await?)?;
    until(|| knows(&agents, CircuitStatus::Closed)).await?;
    writeln!(out, "Closed:       of 20 events {} are sent.", deliver(&agents, 20).await?)?;

    let gone = agents.remove(0);
    let name = gone.name;
    drop(gone);
    until(|| !leader(&agents).is_empty()).await?;
    writeln!(out, "{name} goes home, and {} leads.", leader(&agents))?;
    Ok(())
}
