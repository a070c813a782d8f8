//! The cleanup: one process of the fleet deletes expired rows, a few at a time.
//!
//! Expired rows are not read any more, so only the size of the tables depends on this. It examines all rows in turn, a
//! thousand at a time, and then pauses: the load is always the same. An index on the expiry would be cheaper here, but
//! every merge would have to write to it.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::Nonce;
use breakerbox::store::StoreError;

use crate::operations::{Operations, Table};

/// The name of the leader election for the cleanup.
const ELECTION: &str = "breakerbox clean-up";

/// The pause after a sweep, in steps.
const PAUSE_STEPS: u32 = 60;

/// The length of a term, in steps.
const TERM_STEPS: u32 = 3 * PAUSE_STEPS;

/// Cleans up until it is dropped.
pub(crate) async fn clean_for_ever(operations: Arc<Operations>, every: Duration) {
    let me = Nonce(rand::random());
    loop {
        // After an error it tries again after the pause; operations report the problem to the users of the store.
        let _ = sweep(&operations, me, every).await;
        tokio::time::sleep(every * PAUSE_STEPS).await;
    }
}

/// Examines every row once, for as long as this process leads.
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
