//! Cleanup: one process in the fleet deletes expired rows, a few at a time.
//!
//! Expired rows are never read, so cleanup affects only the size of the tables. It examines all rows in turn, a
//! thousand at a time, and then pauses, so its load is constant. An index on the expiry time would make cleanup
//! cheaper, but every merge would have to update it.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::Nonce;
use breakerbox::store::StoreError;

use crate::operations::{Operations, Table};

/// The name of the leader election that decides which process deletes expired rows.
const ELECTION: &str = "breakerbox clean-up";

/// The pause after all rows have been examined, in cleanup intervals.
const PAUSE_STEPS: u32 = 60;

/// The length of a leader's term, in cleanup intervals.
const TERM_STEPS: u32 = 3 * PAUSE_STEPS;

/// Deletes expired rows until the task is aborted.
pub(crate) async fn clean_for_ever(operations: Arc<Operations>, every: Duration) {
    let me = Nonce(rand::random());
    loop {
        // Cleanup ignores errors and continues after the pause: operations report problems to the store's
        // users.
        let _ = sweep(&operations, me, every).await;
        tokio::time::sleep(every * PAUSE_STEPS).await;
    }
}

/// Examines every row once and deletes the expired rows, as long as this process is the leader.
async fn sweep(operations: &Operations, me: Nonce, every: Duration) -> Result<(), StoreError> {
    for table in [Table::Circuits, Table::Counts, Table::Leases, Table::Ramps] {
        let mut next = Some(Vec::new());
        while let Some(from) = next {
            if !operations.lead(ELECTION, me, every * TERM_STEPS).await?.value.leads {
                return Ok(());
            }
            next = operations.clear(table, &from).await?;
            tokio::time::sleep(every).await;
        }
    }
    Ok(())
}
