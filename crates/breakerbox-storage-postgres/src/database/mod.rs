//! The database of a fleet of gateways: opens it, migrates its schema, registers this process, and hands out transactions.

mod presence;
mod transaction;

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use breakerbox::Clock;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::Id;
use breakerbox_postgres::ConnectError;
use breakerbox_postgres::connections::{Database as Connections, Migrations, Task};
use breakerbox_storage::QueueError;
use tokio::sync::broadcast;
use tokio_postgres::Row;

use super::error::{get, not_connected};
use super::ids::Ids;
use super::listen::{Heard, Listener};
use super::migrations;
use super::server_clock::ServerClock;
use super::values::Value;

pub use transaction::Transaction;

/// The number of slots over which counters are spread.
const SLOTS: i64 = 8;

/// Returns the number of free bytes on the disk of the database server, or `None` if it is not known.
pub type FreeSpace = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// Options for opening a database.
#[derive(Clone)]
pub struct Options {
    /// The schema of the gateway's tables: lower-case letters, digits and `_`.
    pub schema: String,
    /// The name of this process, which is the same after a restart and differs from those of all other processes. When it
    /// opens the database, the leases that a process of this name left behind are void.
    pub worker: String,
    /// The maximum number of connections, not counting the one that listens.
    pub connections: usize,
    /// The URL for the connection that listens, if the other one leads to a pooler in transaction mode. `None`: the same.
    pub listen_url: Option<String>,
    /// The timeout for a transaction, including the wait for a connection.
    pub time_limit: Duration,
    /// The clock for leases, due times and ids. `None`: the clock of the database server, which is the only one that the
    /// processes of a fleet have in common.
    pub clock: Option<Arc<dyn Clock>>,
    /// The source of the number of free bytes on the server's disk. `None`: not known.
    pub free_space: Option<FreeSpace>,
    /// The number of bytes on the server's disk that are reserved for settlements.
    pub reserve: u64,
    /// The maximum number of jobs that may wait for each writer.
    pub waiting_jobs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            schema: "breakerbox_gateway".to_owned(),
            worker: format!("worker-{:016x}", rand::random::<u64>()),
            connections: 8,
            listen_url: None,
            time_limit: Duration::from_secs(10),
            clock: None,
            free_space: None,
            reserve: 512 << 20,
            waiting_jobs: 4_096,
        }
    }
}

/// Why a database can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no connection, or the tables can't be created.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The schema's name is invalid.
    #[error("schema: must be lower-case letters, digits and _, and not begin with a digit or with pg_")]
    Schema,
    /// The tables can't be read or written.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// An open database, which all clones share.
#[derive(Clone)]
pub struct Database(Arc<Open>);

struct Open {
    connections: Connections,
    /// The connections for the one that listens.
    direct: Connections,
    listener: OnceLock<Listener>,
    presence: OnceLock<Task>,
    schema: String,
    begin: String,
    begin_read: String,
    time_limit: Duration,
    clock: ServerClock,
    ids: Ids,
    worker: i64,
    free_space: Option<FreeSpace>,
    reserve: u64,
    waiting_jobs: usize,
}

impl Database {
    /// Opens the database that a URL names, migrates its schema to the newest version, and registers this process.
    ///
    /// # Errors
    /// Returns an error if the database can't be reached or migrated.
    pub async fn open(url: &str, options: Options) -> Result<Self, OpenError> {
        let schema = options.schema;
        if !is_valid(&schema) {
            return Err(OpenError::Schema);
        }
        let connections =
            Connections::without_session_settings(url, options.connections, options.time_limit)?;
        let direct = match &options.listen_url {
            Some(url) => Connections::without_session_settings(url, 1, options.time_limit)?,
            None => connections.clone(),
        };
        let texts = migrations::texts(&schema);
        let migrations = Migrations { schema: &schema, tables: &migrations::TABLES, texts: &texts };
        let limit = options.time_limit.max(Duration::from_secs(60));
        match tokio::time::timeout(limit, connections.set_up(&migrations)).await {
            Ok(result) => result?,
            Err(_) => return Err(connections.too_slow(limit).into()),
        }
        let clock = ServerClock::new(options.clock);
        // The names in the SQL files have no schema. Plans always use an index, also while the tables are still empty and
        // have no statistics.
        let settings = format!(
            "SET LOCAL search_path = \"{schema}\"; SET LOCAL statement_timeout = {}; \
             SET LOCAL enable_seqscan = off; SET LOCAL jit = off",
            options.time_limit.as_millis().max(1)
        );
        let mut open = Open {
            connections,
            direct,
            listener: OnceLock::new(),
            presence: OnceLock::new(),
            begin: format!("BEGIN ISOLATION LEVEL READ COMMITTED; {settings}"),
            // A page goes along an index, also if the server expects few rows and would rather gather and sort them: it
            // may be wrong about the number.
            begin_read: format!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {settings}; \
                 SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off"
            ),
            schema,
            time_limit: options.time_limit,
            clock,
            ids: Ids::new(0),
            worker: 0,
            free_space: options.free_space,
            reserve: options.reserve,
            waiting_jobs: options.waiting_jobs,
        };
        let (worker, is_durable) = Self(Arc::new(open.unregistered())).register(&options.worker).await?;
        open.worker = worker;
        if !is_durable {
            tracing::warn!(
                "synchronous_commit is off in this database; the gateway's commits wait for the disk nevertheless"
            );
            open.begin.push_str("; SET LOCAL synchronous_commit = on");
        }
        open.ids = Ids::new(open.worker);
        let database = Self(Arc::new(open));
        let weak = WeakDatabase(Arc::downgrade(&database.0));
        database.0.presence.get_or_init(|| presence::start(weak));
        Ok(database)
    }

    /// Registers this process, and voids the leases that it left behind. Returns its number, and whether commits wait for the
    /// disk.
    async fn register(&self, name: &str) -> Result<(i64, bool), QueueError> {
        let transaction = self.begin().await?;
        let asked = Instant::now();
        let rows = transaction
            .query(
                include_str!("../sql/register_worker.sql"),
                &[&self.given_now(), &name, &env!("CARGO_PKG_VERSION")],
            )
            .await?;
        let row = rows.first().ok_or(QueueError::Closed)?;
        self.0.clock.set(get(row, 1)?, asked, Instant::now());
        let number: i64 = get(row, 0)?;
        transaction.execute(include_str!("../sql/void_leases_of_worker.sql"), &[&name, &number]).await?;
        let is_durable = get::<&str>(row, 2)? != "off";
        transaction.commit().await?;
        Ok((number, is_durable))
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// Returns an error if there is no connection.
    pub async fn begin(&self) -> Result<Transaction, QueueError> {
        let transaction = self.lend().await?;
        transaction.run(&self.0.begin).await?;
        Ok(transaction)
    }

    /// Begins a read-only transaction, which sees one snapshot of the committed data.
    ///
    /// # Errors
    /// Returns an error if there is no connection.
    pub async fn begin_read(&self) -> Result<Transaction, QueueError> {
        let transaction = self.lend().await?;
        transaction.run(&self.0.begin_read).await?;
        Ok(transaction)
    }

    /// Runs one query in a read-only transaction, in one round trip.
    ///
    /// # Errors
    /// Returns an error if the query fails, or takes too long.
    pub async fn read(&self, sql: &str, parameters: &[&dyn Value]) -> Result<Vec<Row>, QueueError> {
        self.within(async {
            let mut transaction = self.lend().await?;
            let (begun, rows, ended) = tokio::join!(
                biased;
                transaction.run(&self.0.begin_read),
                transaction.query(sql, parameters),
                transaction.send_commit(),
            );
            begun?;
            // If the query failed, the server has ended the transaction nevertheless.
            let rows = rows.inspect_err(|_| transaction_ended(&mut transaction, &ended))?;
            ended?;
            transaction.give_back();
            Ok(rows)
        })
        .await
    }

    /// Takes a connection, on which no transaction has begun yet.
    pub(crate) async fn lend(&self) -> Result<Transaction, QueueError> {
        let loan = tokio::time::timeout(self.0.time_limit, self.0.connections.lend());
        let loan = loan.await.map_err(|_| QueueError::Busy)?.map_err(not_connected)?;
        Ok(Transaction::new(self.clone(), loan))
    }

    /// Returns the SQL that begins a transaction.
    pub(crate) fn begin_sql(&self) -> &str {
        &self.0.begin
    }

    /// Runs an operation with the timeout. If it takes longer, its transaction is rolled back, unless its commit was
    /// already sent.
    pub(crate) async fn within<T, E: From<QueueError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        match tokio::time::timeout(self.0.time_limit, work).await {
            Ok(result) => result,
            Err(_) => Err(QueueError::Busy.into()),
        }
    }

    /// Returns the current time of the database's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Returns the time for statements to use instead of the server's own clock. `None`: they use the server's.
    pub(crate) fn given_now(&self) -> Option<i64> {
        self.0.clock.given()
    }

    /// Generates a new id.
    #[must_use]
    pub fn next_id(&self) -> Id {
        self.next_ids(1)
    }

    /// Reserves consecutive ids, at most [`MAX_RANGE`](super::ids::MAX_RANGE), and returns the first.
    pub(crate) fn next_ids(&self, count: u32) -> Id {
        self.0.ids.next(count, self.now())
    }

    /// Continues with other ids, because one was used twice.
    pub(crate) async fn renumber_ids(&self) -> Result<(), QueueError> {
        let transaction = self.begin().await?;
        let row = transaction.query_opt("SELECT nextval('worker_numbers')", &[]).await?;
        transaction.commit().await?;
        self.0.ids.renumber(row.map_or(Ok(0), |row| get(&row, 0))?);
        Ok(())
    }

    /// Returns the timeout for a statement.
    pub(crate) fn time_limit(&self) -> Duration {
        self.0.time_limit
    }

    /// Returns the number of this process.
    #[must_use]
    pub fn worker(&self) -> i64 {
        self.0.worker
    }

    /// Returns the slot of the counters that this process adds to.
    #[must_use]
    pub fn slot(&self) -> i16 {
        i16::try_from(self.0.worker.rem_euclid(SLOTS)).unwrap_or(0)
    }

    /// Returns the schema of the gateway's tables.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.0.schema
    }

    /// Returns a receiver of what other processes say from now on. The first call starts a connection that listens. Must
    /// be called within a tokio runtime.
    #[must_use]
    pub fn hear(&self) -> broadcast::Receiver<Heard> {
        let start = || Listener::start(self.0.direct.clone(), &self.0.schema, self.0.worker);
        self.0.listener.get_or_init(start).subscribe()
    }

    /// Records the server's time, which it reported between two instants.
    pub(crate) fn set_clock(&self, micros: i64, asked: Instant, answered: Instant) {
        self.0.clock.set(micros, asked, answered);
    }

    pub(crate) fn waiting_jobs(&self) -> usize {
        self.0.waiting_jobs
    }

    /// Returns the free and the reserved bytes if the server's disk has no room for this many more.
    pub(crate) fn below_reserve(&self, bytes: u64) -> Option<(u64, u64)> {
        let free = self.0.free_space.as_ref()?()?;
        (free.saturating_sub(bytes) < self.0.reserve).then_some((free, self.0.reserve))
    }
}

/// A database that may have been closed.
pub(crate) struct WeakDatabase(Weak<Open>);

impl WeakDatabase {
    pub(crate) fn upgrade(&self) -> Option<Database> {
        self.0.upgrade().map(Database)
    }
}

impl Open {
    /// Returns a copy that serves to register this process.
    fn unregistered(&self) -> Self {
        Self {
            connections: self.connections.clone(),
            direct: self.direct.clone(),
            listener: OnceLock::new(),
            presence: OnceLock::new(),
            schema: self.schema.clone(),
            begin: self.begin.clone(),
            begin_read: self.begin_read.clone(),
            time_limit: self.time_limit,
            clock: self.clock.clone(),
            ids: Ids::new(0),
            worker: 0,
            free_space: None,
            reserve: 0,
            waiting_jobs: 0,
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("connections", &self.0.connections)
            .field("schema", &self.0.schema)
            .finish_non_exhaustive()
    }
}

/// Gives the connection back after a statement failed, if the transaction has ended nevertheless.
pub(crate) fn transaction_ended(transaction: &mut Transaction, ended: &Result<(), QueueError>) {
    if ended.is_ok() {
        transaction.give_back();
    }
}

fn is_valid(schema: &str) -> bool {
    let mut characters = schema.chars();
    let begins_well = characters.next().is_some_and(|first| first.is_ascii_lowercase() || first == '_');
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    begins_well && characters.all(allowed) && !schema.starts_with("pg_") && schema.len() <= 48
}
