//! A function as a service, such as AWS Lambda: the platform starts instances, passes each one event at a time, and
//! freezes it between two events, perhaps for ever. So an instance keeps its registry, reads the store before each
//! call, and flushes before it answers.
//!
//! ```text
//! cargo run -p breakerbox-examples --example function
//! ```
//!
//! Here an instance is a runtime that is idle between two events, and the store is in memory. A real function calls
//! `RedisStore::connect(url).await?` or `PostgresStore::connect(url).await?` instead.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;

use breakerbox::store::MemoryStore;
use breakerbox::{Breakerbox, CallError, Consistency};
use tokio::runtime::{Builder, Runtime};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    run(&mut io::stdout())
}

/// One instance of the function.
struct Instance {
    breakers: Breakerbox,
    /// Runs only while there is an event to handle.
    runtime: Runtime,
}

impl Instance {
    /// Starts an instance. The platform does this once for each.
    fn start(store: &Arc<MemoryStore>) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let store = Arc::clone(store);
        // Strict mode: a frozen instance's knowledge is outdated. Each call reads the store.
        let breakers = runtime
            .block_on(async { Breakerbox::builder().store(store).consistency(Consistency::Strict).build() });
        Ok(Self { breakers, runtime })
    }

    /// Handles one event. The platform calls this for each.
    fn handle(&self) -> Result<&'static str> {
        self.runtime.block_on(async {
            let circuit = self.breakers.circuit("acme https://hooks.acme.example/in")?;
            let result = circuit.call(deliver()).await;
            // Flush before the answer: afterwards the instance is frozen.
            self.breakers.flush().await?;
            Ok(match result {
                Ok(()) => "delivered",
                Err(CallError::Refused(_)) => "not sent: the circuit is open",
                Err(_) => "sent, and failed",
            })
        })
    }
}

/// Makes the call. Its destination is down.
async fn deliver() -> std::result::Result<(), &'static str> {
    Err("connection refused")
}

/// Handles seven events by three instances, and writes the results.
pub fn run(out: &mut impl Write) -> Result<()> {
    let store = Arc::new(MemoryStore::new());
    let instances = [Instance::start(&store)?, Instance::start(&store)?, Instance::start(&store)?];
    for (event, instance) in (1..=7).zip(instances.iter().cycle()) {
        writeln!(out, "event {event}: {}", instance.handle()?)?;
    }
    Ok(())
}
