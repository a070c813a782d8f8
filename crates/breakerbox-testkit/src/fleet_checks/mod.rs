//! Fleet checks over a real server, for the tests of every shared store.
//!
//! The conformance suite checks a store's operations one by one. These checks run the library over the store:
//! processes that exit after one call, a server that refuses writes, a store whose runtime has ended. The
//! caller connects to the server and injects its faults, which differ from server to server.
//!
//! | file | checks |
//! | --- | --- |
//! | `jobs` | processes that make one call and exit: their outcomes count |
//! | `refused_writes` | a server that answers reads and refuses writes is treated as lost until it accepts writes again |
//! | `runtime_end` | a store whose runtime has ended reports it |

mod jobs;
mod refused_writes;
mod runtime_end;

use std::error::Error;
use std::time::Duration;

use tokio::time::Instant;

pub use self::jobs::one_call_jobs_count;
pub use self::refused_writes::{Process, outlasts_refused_writes};
pub use self::runtime_end::says_that_its_runtime_has_ended;

/// The key of the circuit that these checks use.
pub const KEY: &str = "acme https://hooks.acme.example/in";

/// The maximum time that a check waits for an expected event, on a busy machine.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Waits until `holds` returns `true`. Panics with `what` if this takes longer than [`WAIT_LIMIT`].
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + WAIT_LIMIT;
    while !holds().await {
        assert!(Instant::now() < limit, "{what}: not within {WAIT_LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns the messages of an error and of its sources, separated by colons.
fn message(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", message(source)),
        None => error.to_string(),
    }
}
