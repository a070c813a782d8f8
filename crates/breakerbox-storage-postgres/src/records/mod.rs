//! Records in the shared database. Tenants, endpoints and API keys are read from the [`Directory`] in memory, everything
//! else from the database.
//!
//! | part | task |
//! | --- | --- |
//! | `load` | loads the directory, and applies changes to it |
//! | `follow` | follows the changes of other processes |
//! | `work` | a transaction that changes records, and its effects in memory |
//! | `rows` | reads rows; leaves those out that can't be read |
//! | `reseal` | reseals everything with the newest master key |
//! | `tenants`, `endpoints`, `api_keys` | operations on tenants, endpoints and API keys |
//! | `deliveries`, `events`, `scan` | listings of events, deliveries and attempts |
//! | `lanes` | the unfinished deliveries of lanes |
//! | `cancel_and_resend` | cancels waiting deliveries, and makes finished ones pending again |
//! | `reminders` | operations on reminders |
//! | `requests` | idempotent requests |
//! | `resends` | resends by filter, as background jobs |
//! | `history` | the history of circuits |
//! | `notifications` | notifications and their results |
//! | `permits` | the decision API's settled permits |
//!
//! **Visibility.** A change of a tenant, an endpoint or an API key is in the directory of the process that made it when
//! the method returns, and in those of the others as soon as they are notified, at the latest after
//! [`POLL_EVERY`]. A process that does not know an object looks into the database before it reports it as missing.

mod api_keys;
mod cancel_and_resend;
mod deliveries;
mod endpoints;
mod events;
mod follow;
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
mod work;

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use breakerbox_model::objects::Revision;
use breakerbox_postgres::connections::Task;
use breakerbox_storage::secrets::Keyring;
use breakerbox_storage::stored::LoadError;
use breakerbox_storage::{Defaults, Directory, QueueError, RecordsError};

use self::follow::Follower;
use self::load::Loader;
pub use self::reseal::Resealed;
use self::work::Work;
use crate::database::Database;
use crate::error::get;

/// How often a process looks for changes of the directory, in case that it was not notified.
pub const POLL_EVERY: Duration = Duration::from_secs(5);

/// The records in a Postgres database.
#[derive(Clone)]
pub struct PostgresRecords {
    database: Database,
    directory: Arc<Directory>,
    keyring: Arc<Keyring>,
    follower: Follower,
    /// The id of the resend job that had the latest turn.
    last_resend: Arc<AtomicI64>,
    /// Follows the changes of other processes, until the last clone is dropped.
    _following: Arc<Task>,
}

impl PostgresRecords {
    /// Opens the records, loads tenants, endpoints and API keys into the directory, and starts to follow the changes that
    /// other processes make to them.
    ///
    /// # Errors
    /// Returns an error if a master key that is needed is missing, a row can't be read, or the database fails.
    pub async fn open(database: Database, keyring: Keyring, defaults: Defaults) -> Result<Self, LoadError> {
        let keyring = Arc::new(keyring);
        let directory = Arc::new(Directory::new(defaults));
        let loader = Loader { directory: Arc::clone(&directory), keyring: Arc::clone(&keyring) };
        let transaction = database.begin_read().await?;
        let version = loader.load_all(&transaction).await?;
        transaction.commit().await?;
        let follower = Follower::new(database.clone(), loader, version);
        let following = Arc::new(follower.start());
        Ok(Self {
            database,
            directory,
            keyring,
            follower,
            last_resend: Arc::default(),
            _following: following,
        })
    }

    /// Applies the changes that other processes have made to tenants, endpoints and API keys. This also happens by itself,
    /// as soon as they are announced.
    ///
    /// # Errors
    /// Returns an error if the database fails. In that case, the directory may lack changes, but is consistent.
    pub async fn update_directory(&self) -> Result<(), QueueError> {
        self.follower.update().await
    }

    /// Returns whether the database contains sealed (encrypted) values. If so, the master key is required at startup.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn anything_sealed(database: &Database) -> Result<bool, QueueError> {
        let rows = database.read(include_str!("../sql/records/anything_sealed.sql"), &[]).await?;
        rows.first().map_or(Ok(false), |row| get(row, 0))
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

    /// Looks an object up in the directory. If it is missing, another process may have just created it: the directory is
    /// brought up to date first.
    async fn look_up<T>(
        &self,
        find: impl Fn(&Directory) -> Option<T> + Send,
    ) -> Result<Option<T>, QueueError> {
        if let Some(found) = find(&self.directory) {
            return Ok(Some(found));
        }
        self.update_directory().await?;
        Ok(find(&self.directory))
    }

    /// Begins a transaction that changes records.
    async fn begin(&self) -> Result<Work, QueueError> {
        Work::begin(self).await
    }

    /// Begins a transaction that changes tenants, endpoints or API keys.
    async fn begin_change(&self) -> Result<Work, QueueError> {
        Work::begin_change(self).await
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
