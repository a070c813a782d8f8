//! Creates missing tables again, if the schema was dropped or a database was restored without it.
//!
//! An operation that finds a table missing reports it here, and a task creates the missing tables, with a
//! growing backoff if that fails. Nothing is ever dropped. The contents of missing tables are lost; the
//! processes in the fleet write the records that they know back to the store.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use breakerbox::store::{Announcer, StoreError, StoreEvent};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::backoff::Backoff;
use crate::database::Database;
use crate::error::{is_table_missing, unavailable, whole};
use crate::tables::set_up;

/// The timeout for creating the tables.
const CREATE_TIMEOUT: Duration = Duration::from_secs(5);

/// Requests to create missing tables, and the result of the last attempt.
#[derive(Debug, Default)]
pub(crate) struct Recreation {
    missing: Notify,
    /// The error from the last attempt to create tables; `None` if it succeeded.
    failed: Mutex<Option<String>>,
}

impl Recreation {
    /// If `error` reports a missing table, requests that the table is created, and adds the reason why the last
    /// attempt to create it failed.
    pub(crate) fn note(&self, error: StoreError) -> StoreError {
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

/// Creates missing tables on request, until the task is aborted.
pub(crate) async fn recreate_for_ever(
    recreation: Arc<Recreation>,
    database: Database,
    schema: String,
    announcer: Arc<Announcer>,
) {
    let mut backoff = Backoff::new();
    loop {
        recreation.missing.notified().await;
        match timeout(CREATE_TIMEOUT, set_up(&database, &schema)).await {
            Ok(Ok(())) => {
                recreation.set_failed(None);
                backoff = Backoff::new();
                // The records that listeners know are no longer in the store.
                announcer.announce(StoreEvent::Missed);
            }
            Ok(Err(error)) => recreation.set_failed(Some(error.to_string())),
            Err(_) => recreation.set_failed(Some(database.too_slow(CREATE_TIMEOUT).to_string())),
        }
        sleep(backoff.wait()).await;
    }
}
