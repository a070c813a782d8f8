//! The database: a small pool of connections for the operations, and the settings for additional connections
//! that listen.
//!
//! Each operation has exclusive use of its connection, so an operation that waits for a lock does not block
//! others, and cancelling it can't hit another operation's statement. Parts of a program that use the same
//! database share one [`Database`].

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::StoreError;
use deadpool_postgres::{Hook, HookError, Manager, Object, Pool, PoolError};
use tokio::sync::Semaphore;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::backoff::Gate;
use crate::error::{ConnectError, address, unavailable};
use crate::loan::{Canceller, Loan};
use crate::migrations::Migrations;
use crate::task::Task;
use crate::{tls, url};

/// The oldest supported server version, in the format of `server_version_num`.
const OLDEST: i32 = 140_000;

/// The I/O half of a `tokio_postgres` connection.
pub type Wire = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// A Postgres database, and the connections to it.
///
/// To use the store, a URL is sufficient. With a `Database`, a store and a [sampler](crate::PostgresSampler) share
/// their connections:
///
/// ```
/// # let server = breakerbox_testkit::servers::PostgresServer::start()?;
/// # let url = &server.url();
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use breakerbox::sampling::SqlTable;
/// use breakerbox_postgres::{PostgresSampler, PostgresStore};
///
/// let builder = PostgresStore::builder(url).connections(8);
/// let database = builder.database()?;
/// let store = builder.on(database.clone()).connect().await?;
/// let attempts = SqlTable::new("attempts")
///     .key_column("endpoint")
///     .outcome_column("outcome", &["delivered"], &["failed"])
///     .started_at_column("started_at")
///     .finished_at_column("finished_at");
/// let sampler = PostgresSampler::on(database, attempts)?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Database {
    pool: Pool,
    config: Arc<Config>,
    tls: MakeRustlsConnect,
    gate: Arc<Gate>,
    cancels: Arc<Semaphore>,
    time_limit: Duration,
}

impl Database {
    /// Creates the database that a URL names. Does not connect yet.
    ///
    /// Its connections have no settings of their own, and leave none behind, so there may be a connection pooler in
    /// transaction mode in between. Each transaction sets what it needs, including its timeout.
    ///
    /// # Errors
    /// Returns a [`ConnectError`] if the URL or a setting is invalid.
    #[doc(hidden)]
    pub fn without_session_settings(
        url: &str,
        connections: usize,
        time_limit: Duration,
    ) -> Result<Self, ConnectError> {
        Self::new(url, connections, time_limit, String::new())
    }

    /// Creates the database that a URL names. Does not connect yet.
    ///
    /// `settings` is the SQL that each new connection executes.
    pub(crate) fn new(
        url: &str,
        connections: usize,
        time_limit: Duration,
        settings: String,
    ) -> Result<Self, ConnectError> {
        let (mut config, trust) = url::parse(url)?;
        set_defaults(&mut config, time_limit);
        let tls = tls::connector(&trust)?;
        let set = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
            let settings = settings.clone();
            Box::pin(async move {
                if settings.is_empty() {
                    return Ok(());
                }
                client.batch_execute(&settings).await.map_err(HookError::Backend)
            })
        });
        let pool = Pool::builder(Manager::new(config.clone(), tls.clone()))
            .max_size(connections)
            .post_create(set)
            .build()
            .map_err(|error| ConnectError::Failed { reason: error.to_string() })?;
        Ok(Self {
            pool,
            config: Arc::new(config),
            tls,
            gate: Arc::default(),
            cancels: Arc::new(Semaphore::new(connections)),
            time_limit,
        })
    }

    /// Takes a connection from the pool for one operation.
    ///
    /// # Errors
    /// Returns the reason why there is no connection.
    #[doc(hidden)]
    pub async fn lend(&self) -> Result<Loan, StoreError> {
        let status = self.pool.status();
        let would_connect = status.available == 0 && status.size < status.max_size;
        if would_connect && let Some(why) = self.gate.is_shut() {
            return Err(why.into());
        }
        match self.pool.get().await {
            Ok(client) => {
                if Object::metrics(&client).recycle_count == 0 {
                    self.gate.open();
                }
                let canceller = Canceller::new(&client, self.tls.clone(), Arc::clone(&self.cancels));
                Ok(Loan::new(client, canceller, Arc::clone(&self.config), self.time_limit))
            }
            Err(PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error))) => {
                let why = ConnectError::of(&error, &self.config);
                self.gate.shut(&why);
                Err(why.into())
            }
            Err(other) => Err(unavailable(other.to_string())),
        }
    }

    /// Runs an operation with the timeout. An operation that takes longer is cancelled.
    pub(crate) async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let timed_out = Err(StoreError::TimedOut { limit: self.time_limit });
        tokio::time::timeout(self.time_limit, work).await.unwrap_or(timed_out)
    }

    /// Opens a connection outside the pool, such as one that listens.
    ///
    /// # Errors
    /// Returns the reason why there is no connection.
    #[doc(hidden)]
    pub async fn connect(&self) -> Result<(Client, Wire), ConnectError> {
        self.config.connect(self.tls.clone()).await.map_err(|error| ConnectError::of(&error, &self.config))
    }

    /// Checks the server's version, and creates missing tables.
    ///
    /// # Errors
    /// Returns the reason why the tables can't be created or migrated.
    #[doc(hidden)]
    pub async fn set_up(&self, migrations: &Migrations<'_>) -> Result<(), ConnectError> {
        let (client, wire) = self.connect().await?;
        let _driven = Task::spawn(async { drop(wire.await) });
        let done = async {
            let sql = "SELECT current_setting('server_version_num')::int, current_setting('server_version')";
            let row = client.query_one(sql, &[]).await?;
            if row.try_get::<_, i32>(0)? < OLDEST {
                return Ok(Err(ConnectError::TooOld { version: row.try_get(1)? }));
            }
            migrations.apply(&client).await.map(Ok)
        };
        done.await.unwrap_or_else(|error| Err(ConnectError::of(&error, &self.config)))
    }

    /// Converts an error from a connection outside the pool.
    #[must_use]
    #[doc(hidden)]
    pub fn explain(&self, error: &tokio_postgres::Error) -> ConnectError {
        ConnectError::of(error, &self.config)
    }

    /// Returns the error for a connection attempt that exceeded this timeout.
    #[must_use]
    #[doc(hidden)]
    pub fn too_slow(&self, limit: Duration) -> ConnectError {
        ConnectError::TimedOut { address: address(&self.config), limit }
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").field("address", &address(&self.config)).finish_non_exhaustive()
    }
}

/// Sets connection options that the URL does not set.
fn set_defaults(config: &mut Config, time_limit: Duration) {
    if config.get_application_name().is_none() {
        config.application_name("breakerbox");
    }
    // If a host does not respond, there must be time left for the next one.
    let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX);
    if config.get_connect_timeout().is_none() && hosts > 1 {
        config.connect_timeout(time_limit / hosts);
    }
    // A connection to a dead peer is detected in less than half a minute.
    config
        .keepalives_idle(Duration::from_secs(10))
        .keepalives_interval(Duration::from_secs(5))
        .keepalives_retries(3);
}
