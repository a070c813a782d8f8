//! A job that a scheduler such as cron starts again and again: it makes one call, then the process ends. The job closes
//! its registry first, so that every call is reported to the store, and the jobs share a circuit though they never run
//! at the same time.
//!
//! ```text
//! cargo run -p breakerbox-examples --example scheduled-job
//! ```
//!
//! The store is in memory here, and each job is a function. A real job calls `RedisStore::connect(url).await?` or
//! `PostgresStore::connect(url).await?` instead; nothing else changes.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;

use breakerbox::store::MemoryStore;
use breakerbox::{Breakerbox, CallError};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    run(&mut io::stdout()).await
}

/// Does what the job's process does from its start to its end.
async fn job(store: Arc<MemoryStore>) -> Result<&'static str> {
    let breakers = Breakerbox::builder().store(store).build();
    let circuit = breakers.circuit("acme https://hooks.acme.example/nightly")?;
    let result = circuit.call(send_report()).await;
    // Close before the process ends, whatever the result. An error means that the store did not get the report.
    breakers.close().await?;
    Ok(match result {
        Ok(()) => "sent",
        Err(CallError::Refused(_)) => "not sent: the circuit is open",
        Err(_) => "sent, and failed",
    })
}

/// Makes the call. Its destination is down.
async fn send_report() -> std::result::Result<(), &'static str> {
    Err("connection refused")
}

/// Runs the job seven times, one after the other.
pub async fn run(out: &mut (impl Write + Send)) -> Result<()> {
    let store = Arc::new(MemoryStore::new());
    for run in 1..=7 {
        writeln!(out, "run {run}: {}", job(Arc::clone(&store)).await?)?;
    }
    Ok(())
}
