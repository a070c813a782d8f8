//! The clean-up: one process of the fleet deletes what has expired, a little at a time.
//!
//! What has expired is not read any more, so nothing depends on this but the size of the tables. It looks at all rows in turn,
//! a thousand at a time, and then rests: the same work on a good and on a bad day. An index of what expires would be cheaper
//! here, and would make every merge write to it.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::Nonce;
use breakerbox::store::StoreError;

use crate::verbs::{Table, Verbs};

/// The office of whoever cleans.
const OFFICE: &str = "breakerbox clean-up";

/// How many steps a rest is as long as.
const REST: u32 = 60;

/// How many steps a term lasts.
const TERM: u32 = 3 * REST;

/// Cleans until it is dropped.
pub(crate) async fn clean_for_ever(verbs: Arc<Verbs>, every: Duration) {
    let me = Nonce(rand::random());
    loop {
        // Whatever goes wrong is tried again after the rest; whoever uses the store hears of it from the verbs.
        let _ = sweep(&verbs, me, every).await;
        tokio::time::sleep(every * REST).await;
    }
}

/// Looks at every row once, as long as this process leads.
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
