//! Creates the tables again if they are gone: somebody dropped the schema, or restored a database without it.
//!
//! A verb that finds no table says so here, and a task creates what is missing, with waits that grow while that fails. Nothing
//! is created without need, and nothing is ever dropped. What was in the tables is gone; the processes of the fleet publish
//! the records that they know.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use breakerbox::store::{Announcer, Heard, StoreError};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::backoff::Backoff;
use crate::database::Database;
use crate::error::{is_table_missing, unavailable, whole};

/// How long creating the tables may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What verbs say about missing tables, and what came of creating them again.
#[derive(Debug, Default)]
pub(crate) struct Recreation {
    missing: Notify,
    /// Why the last attempt failed.
    failed: Mutex<Option<String>>,
}

impl Recreation {
    /// Notices an error that says that a table is missing, and adds why it could not be created again.
    pub(crate) fn notice(&self, error: StoreError) -> StoreError {
        if !is_table_missing(&error) {
            return error;
        }
        self.missing.notify_one();
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failed {
            Some(failed) => {
                let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), whole);
                unavailable(format!("{reason}; the tables could not be created again: {failed}"))
            }
            None => error,
        }
    }

    fn set_failed(&self, failed: Option<String>) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = failed;
    }
}

/// Creates missing tables until it is dropped.
pub(crate) async fn recreate_for_ever(
    recreation: Arc<Recreation>,
    database: Database,
    schema: String,
    announcer: Arc<Announcer>,
) {
    let mut backoff = Backoff::new();
    loop {
        recreation.missing.notified().await;
        match timeout(PATIENCE, database.set_up(&schema)).await {
            Ok(Ok(())) => {
                recreation.set_failed(None);
                backoff = Backoff::new();
                // Whatever was known of the records does not hold any more.
                announcer.announce(Heard::Missed);
            }
            Ok(Err(error)) => recreation.set_failed(Some(error.to_string())),
            Err(_) => recreation.set_failed(Some(database.too_slow(PATIENCE).to_string())),
        }
        sleep(backoff.wait()).await;
    }
}
