//! Records in the queue's file. Tenants, endpoints and API keys are read from the [`Directory`], the rest by readers;
//! changes go through the writer, and from there into the directory.
//!
//! | part | task |
//! | --- | --- |
//! | `load` | fills the directory at the start |
//! | `stored` | the form of tenants and endpoints in their rows |
//! | `reseal` | seals everything with the newest master key |
//! | `tenants`, `endpoints`, `api_keys` | operations on tenants, endpoints and API keys |
//! | `deliveries`, `scan` | listings of events, deliveries and attempts |
//! | `cancel_and_resend` | cancels waiting deliveries, and makes finished ones pending again |
//! | `reminders` | operations on reminders |
//! | `requests` | idempotent requests: each creation with its idempotency key |
//! | `resends` | resends by filter, as background jobs |
//! | `history` | the history of circuits |
//! | `notifications` | notifications and their results |
//! | `permits` | the settled permits of the decision API |
//! | `routes` | the directory as the writer sees it |
//! | `cursors` | the end of a page, as text |

mod api_keys;
mod cancel_and_resend;
mod cursors;
mod deliveries;
mod endpoints;
mod history;
mod load;
mod notifications;
mod permits;
mod reminders;
mod requests;
mod reseal;
mod resends;
mod routes;
mod scan;
mod stored;
mod stored_target;
mod tenants;

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use breakerbox_model::objects::Revision;
use breakerbox_storage::secrets::Keyring;
use breakerbox_storage::{Defaults, Directory, QueueError, RecordsError};

pub use self::load::LoadError;
pub use self::reseal::Resealed;
use super::Database;
use super::columns::is_unreadable;
use crate::error::JobError;

/// Records in the queue's file.
#[derive(Clone)]
pub struct SqliteRecords {
    database: Database,
    directory: Arc<Directory>,
    keyring: Arc<Keyring>,
    /// The resend job that was continued last.
    last_resend: Arc<AtomicI64>,
}

impl SqliteRecords {
    /// Loads tenants, endpoints and API keys from an open file.
    ///
    /// # Errors
    /// If a master key is missing that a value is sealed with, a row can't be read, or the database fails.
    pub async fn open(database: Database, keyring: Keyring, defaults: Defaults) -> Result<Self, LoadError> {
        let keyring = Arc::new(keyring);
        let directory = Arc::new(Directory::new(defaults));
        load::fill(&database, &directory, &keyring).await?;
        Ok(Self { database, directory, keyring, last_resend: Arc::default() })
    }

    /// Returns whether a file holds any sealed values. If so, its master key must be available at the start.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn anything_sealed(database: &Database) -> Result<bool, QueueError> {
        let question = "SELECT EXISTS (SELECT 1 FROM tenants WHERE deleted_at IS NULL)";
        database.read(move |connection| Ok(connection.query_row(question, [], |row| row.get(0))?)).await
    }

    /// Returns the keys that seal and open values.
    #[must_use]
    pub const fn keyring(&self) -> &Arc<Keyring> {
        &self.keyring
    }

    /// Returns the directory.
    #[must_use]
    pub const fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }
}

/// Returns the result of a query for one row. It distinguishes a row that can't be read from a failed database.
fn readable<T>(
    found: rusqlite::Result<Option<T>>,
    what: &'static str,
    name: impl ToString,
) -> Result<T, JobError<RecordsError>> {
    match found {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(RecordsError::missing(what, name).into()),
        Err(error) if is_unreadable(&error) => {
            let name = name.to_string();
            tracing::error!(what, name, %error, "can't read a stored row");
            Err(RecordsError::Unreadable { what, name }.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns a row of a listing. A row that can't be read is left out, so that the others are shown.
fn listed<T>(row: rusqlite::Result<T>, what: &'static str, id: impl ToString) -> rusqlite::Result<Option<T>> {
    match row {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_unreadable(&error) => {
            tracing::error!(what, id = id.to_string(), %error, "can't read a stored row; it is missing in a listing");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Checks that the revision is still the given one.
fn unchanged(
    now: Revision,
    seen: Option<Revision>,
    what: &'static str,
    name: &impl ToString,
) -> Result<(), RecordsError> {
    match seen {
        Some(seen) if seen != now => Err(RecordsError::Changed { what, name: name.to_string() }),
        _ => Ok(()),
    }
}
