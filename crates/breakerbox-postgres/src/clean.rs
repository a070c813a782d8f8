//! The cleanup: one process of the fleet deletes expired rows, a few at a time.
//!
//! Expired rows are not read any more, so only the size of the tables depends on this. It examines all rows in turn, a
//! thousand at a time, and then pauses: the load is always the same. An index on the expiry would be cheaper here, but
//! every merge would have to write to it.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::Nonce;
use breakerbox::store::StoreError;

use crate::verbs::{Table, Verbs};

/// The name of the leader election for the cleanup.
const OFFICE: &str = "breakerbox clean-up";

/// The pause after a sweep, in steps.
const REST: u32 = 60;

/// The length of a term, in steps.
const TERM: u32 = 3 * REST;

/// Cleans up until it is dropped.
pub(crate) async fn clean_for_ever(verbs: Arc<Verbs>, every: Duration) {
    let me = Nonce(rand::random());
    loop {
        // After an error it tries again after the pause; operations report the problem to the users of the store.
        let _ = sweep(&verbs, me, every).await;
        tokio::time::sleep(every * REST).await;
    }
}

/// Examines every row once, for as long as this process leads.
async fn sweep(verbs: &Verbs, me: Nonce, every: Duration) -> Result<(), StoreError> {
    for table in [Table::Circuits, Table::Counts, Table::Leases, Table::Ramps] {
        let mut next = Some(Vec::new());
        while let Some(from) = next {
            if !verbs.lead(OFFICE, me, every * TERM).await?.value.leads {
                return Ok(());
            }
            next = verbs.clear(table, &from).await?;
            tokio::time::sleep(every).await;
        }
    }
    Ok(())
}
