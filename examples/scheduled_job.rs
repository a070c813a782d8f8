//! A job that a scheduler starts again and again, as cron does: one call, then the process ends. It closes its registry before,
//! so the store hears of every call, and the jobs share a circuit though none of them sees another.
//!
//! ```text
//! cargo run -p breakerbox-examples --example scheduled-job
//! ```
//!
//! The store is in memory here, and each job is a function. A real job says `RedisStore::connect(url).await?` or
//! `PostgresStore::connect(url).await?` instead, and nothing else changes.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;

use breakerbox::store::MemoryStore;
use breakerbox::{Breakerbox, CallError};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    tell(&mut io::stdout()).await
}

/// What the job's process does from its start to its end.
async fn job(store: Arc<MemoryStore>) -> Result<&'static str> {
    let breakers = Breakerbox::builder().store(store).build();
    let circuit = breakers.circuit("acme https://hooks.acme.example/nightly")?;
    let result = circuit.call(send_report()).await;
    // Before the process ends, whatever the result. An error says that the store did not hear of it.
    breakers.close().await?;
    Ok(match result {
        Ok(()) => "sent",
        Err(CallError::Refused(_)) => "not sent: the circuit is open",
        Err(_) => "sent, and failed",
    })
}

/// The call. Its destination is down.
async fn send_report() -> std::result::Result<(), &'static str> {
    Err("connection refused")
}

/// Seven runs, one after the other.
pub async fn tell(out: &mut (impl Write + Send)) -> Result<()> {
    let store = Arc::new(MemoryStore::new());
    for run in 1..=7 {
        writeln!(out, "run {run}: {}", job(Arc::clone(&store)).await?)?;
    }
    Ok(())
}
