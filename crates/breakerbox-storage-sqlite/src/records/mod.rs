//! Records in the queue's file. What is asked often (tenants, endpoints, API keys) is answered from the
//! [`Directory`], the rest by readers; what changes goes through the writer, and from there into the directory.
//!
//! | part | what it does |
//! | --- | --- |
//! | `load` | fills the directory at the start |
//! | `kept` | how tenants and endpoints are kept in their rows |
//! | `reseal` | seals everything with the newest master key |
//! | `tenants`, `endpoints`, `api_keys` | what people change |
//! | `deliveries`, `scan` | what people look at |
//! | `finished` | cancels what waits, and makes what is finished wait again |
//! | `reminders` | what people do to reminders |
//! | `requests` | what clients may repeat: each creation with its idempotency key |
//! | `resends` | the same for many, as a job |
//! | `history` | what happened to circuits |
//! | `notices`, `notices_sent` | what people were told, and what became of it |
//! | `permits` | which permits of the decision API were settled |
//! | `routes` | the directory as the writer sees it |
//! | `cursors` | where a page ended, as text |

mod api_keys;
mod cursors;
mod deliveries;
mod endpoints;
mod finished;
mod history;
mod kept;
mod kept_target;
mod load;
mod notices;
mod permits;
mod reminders;
mod requests;
mod reseal;
mod resends;
mod routes;
mod scan;
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
    /// The job that was last stepped.
    turn: Arc<AtomicI64>,
}

impl SqliteRecords {
    /// Loads tenants, endpoints and API keys from an open file.
    ///
    /// # Errors
    /// If a master key is missing that something is sealed with, a row can't be read, or the database fails.
    pub async fn open(database: Database, keyring: Keyring, defaults: Defaults) -> Result<Self, LoadError> {
        let keyring = Arc::new(keyring);
        let directory = Arc::new(Directory::new(defaults));
        load::fill(&database, &directory, &keyring).await?;
        Ok(Self { database, directory, keyring, turn: Arc::default() })
    }

    /// Whether a file holds anything that is sealed. If so, its master key must be there at the start.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn anything_sealed(database: &Database) -> Result<bool, QueueError> {
        let question = "SELECT EXISTS (SELECT 1 FROM tenants WHERE deleted_at IS NULL)";
        database.read(move |connection| Ok(connection.query_row(question, [], |row| row.get(0))?)).await
    }

    /// The keys that it seals with.
    #[must_use]
    pub const fn keyring(&self) -> &Arc<Keyring> {
        &self.keyring
    }

    /// What is in memory.
    #[must_use]
    pub const fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }
}

/// What a query for one row found. A row that can't be read is told apart from a database that fails.
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
            tracing::error!(what, name, %error, "a stored row can't be read");
            Err(RecordsError::Unreadable { what, name }.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// A row of a listing. One that can't be read is left out, so that the others are shown.
fn listed<T>(row: rusqlite::Result<T>, what: &'static str, id: impl ToString) -> rusqlite::Result<Option<T>> {
    match row {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_unreadable(&error) => {
            tracing::error!(what, id = id.to_string(), %error, "a stored row can't be read; it is left out of a listing");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether something is still as it was seen.
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
