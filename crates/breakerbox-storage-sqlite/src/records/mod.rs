//! Records in the queue's database. Tenants, endpoints and API keys are read from the [`Directory`], everything else
//! on the reader threads. The writer applies changes, and updates the directory after the commit.
//!
//! | part | task |
//! | --- | --- |
//! | `load` | loads the directory at startup |
//! | `reseal` | reseals everything with the newest master key |
//! | `tenants`, `endpoints`, `api_keys` | operations on tenants, endpoints and API keys |
//! | `deliveries`, `scan` | listings of events, deliveries and attempts |
//! | `lanes` | the unfinished deliveries of lanes |
//! | `cancel_and_resend` | cancels waiting deliveries, and makes finished ones pending again |
//! | `reminders` | operations on reminders |
//! | `requests` | idempotent requests |
//! | `resends` | resends by filter, as background jobs |
//! | `history` | the history of circuits |
//! | `notifications` | notifications and their results |
//! | `permits` | the decision API's settled permits |

mod api_keys;
mod cancel_and_resend;
mod deliveries;
mod endpoints;
mod events;
mod history;
mod lanes;
mod load;
mod notifications;
mod permits;
mod reminders;
mod requests;
mod reseal;
mod resends;
mod scan;
mod tenants;

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use breakerbox_model::objects::Revision;
use breakerbox_storage::secrets::Keyring;
use breakerbox_storage::stored::LoadError;
use breakerbox_storage::{Defaults, Directory, QueueError, RecordsError};

pub use self::reseal::Resealed;
use super::Database;
use super::columns::is_unreadable;
use crate::error::JobError;

/// The records in an SQLite database.
#[derive(Clone)]
pub struct SqliteRecords {
    database: Database,
    directory: Arc<Directory>,
    keyring: Arc<Keyring>,
    /// The id of the resend job that had the latest turn.
    last_resend: Arc<AtomicI64>,
}

impl SqliteRecords {
    /// Opens the records, and loads tenants, endpoints and API keys into the directory.
    ///
    /// # Errors
    /// Returns an error if a master key that is needed is missing, a row can't be read, or the database fails.
    pub async fn open(database: Database, keyring: Keyring, defaults: Defaults) -> Result<Self, LoadError> {
        let keyring = Arc::new(keyring);
        let directory = Arc::new(Directory::new(defaults));
        load::fill(&database, &directory, &keyring).await?;
        Ok(Self { database, directory, keyring, last_resend: Arc::default() })
    }

    /// Returns whether the database contains sealed (encrypted) values. If so, the master key is required at startup.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn anything_sealed(database: &Database) -> Result<bool, QueueError> {
        let question = "SELECT EXISTS (SELECT 1 FROM tenants WHERE deleted_at IS NULL)";
        database.read(move |connection| Ok(connection.query_row(question, [], |row| row.get(0))?)).await
    }

    /// Returns the master keys that seal and open secrets.
    #[must_use]
    pub const fn keyring(&self) -> &Arc<Keyring> {
        &self.keyring
    }

    /// Returns the directory that these records keep up to date.
    #[must_use]
    pub const fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }
}

/// Converts the result of a query for one row. Returns [`Missing`](RecordsError::Missing) if there is no row,
/// [`Unreadable`](RecordsError::Unreadable) if the row can't be read, or a database error.
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

/// Returns a row of a listing, or `None` if the row can't be read, so that the other rows are still listed.
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

/// Checks that the object still has the revision that the client has seen. Without `seen`, any revision is
/// accepted.
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
