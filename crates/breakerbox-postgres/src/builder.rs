//! The settings for a Postgres store, their defaults, and connecting with them.

use std::fmt;
use std::time::Duration;

use crate::database::Database;
use crate::error::ConnectError;
use crate::store::{PostgresStore, Start};

/// The default schema for the store's tables.
pub const DEFAULT_SCHEMA: &str = "breakerbox";

/// The default timeout for an operation. It leaves ample time, because a nearby server responds in a
/// millisecond or two.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_millis(400);

// If they were equal, which of the two timeouts expires first, and which error is reported, would be random.
const _: () = assert!(DEFAULT_TIME_LIMIT.as_millis() < breakerbox::DEFAULT_STORE_TIMEOUT.as_millis());

/// The default maximum number of connections per process, not counting the connection that listens for changes.
pub const DEFAULT_CONNECTIONS: usize = 4;

/// The maximum length of a schema name, in bytes. The name of the notification channel contains the schema
/// name, and Postgres allows 63 bytes for it.
const MAX_SCHEMA_LENGTH: usize = 48;

/// Builds a [`PostgresStore`] with settings other than the defaults.
///
/// ```
/// use breakerbox_postgres::PostgresStore;
/// use std::time::Duration;
///
/// # let server = breakerbox_testkit::servers::PostgresServer::start()?;
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let url = "postgres://fleet:secret@db.example/shop?sslmode=verify-full";
/// # let url = &server.url();
/// let store = PostgresStore::builder(url)
///     .schema("breakers")
///     .time_limit(Duration::from_millis(250))
///     .connections(8)
///     .connect()
///     .await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct PostgresStoreBuilder {
    url: Url,
    database: Option<Database>,
    schema: String,
    time_limit: Duration,
    connections: usize,
    start_within: Duration,
    heartbeat_every: Duration,
    clean_every: Duration,
}

/// A URL that may contain a password, so its `Debug` output must not show it.
#[derive(Clone)]
struct Url(String);

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

impl PostgresStoreBuilder {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: Url(url.to_owned()),
            database: None,
            schema: DEFAULT_SCHEMA.to_owned(),
            time_limit: DEFAULT_TIME_LIMIT,
            connections: DEFAULT_CONNECTIONS,
            start_within: Duration::from_secs(10),
            heartbeat_every: Duration::from_secs(5),
            clean_every: Duration::from_secs(1),
        }
    }

    /// Sets the schema for the store's tables. Default: [`DEFAULT_SCHEMA`]. Fleets that share a database must
    /// use different schemas.
    pub fn schema(mut self, schema: &str) -> Self {
        schema.clone_into(&mut self.schema);
        self
    }

    /// Sets the timeout for an operation, including the wait for a connection. Default: [`DEFAULT_TIME_LIMIT`].
    /// A statement that takes longer is cancelled.
    pub fn time_limit(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }

    /// Sets the maximum number of connections per process, not counting the connection that listens for
    /// changes. Default: [`DEFAULT_CONNECTIONS`].
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets the timeout for connecting for the first time, including the creation of the tables. Default: 10 s.
    pub fn start_within(mut self, start_within: Duration) -> Self {
        self.start_within = start_within;
        self
    }

    /// Sets the interval at which the listening connection is tested. Default: 5 s. If a test gets no response
    /// within this interval, the connection is replaced, and listeners are notified that they may have missed
    /// changes.
    pub fn heartbeat_every(mut self, heartbeat_every: Duration) -> Self {
        self.heartbeat_every = heartbeat_every;
        self
    }

    /// Sets the interval at which one process in the fleet examines a thousand rows and deletes those that have
    /// expired. Default: 1 s. After all rows have been examined, the process pauses for sixty intervals.
    pub fn clean_every(mut self, clean_every: Duration) -> Self {
        self.clean_every = clean_every;
        self
    }

    /// Uses the connections of an existing [`Database`], which the program also uses for other purposes,
    /// instead of opening separate ones.
    pub fn on(mut self, database: Database) -> Self {
        self.database = Some(database);
        self
    }

    /// Limits the store to one separate connection, even if a shared database was set.
    pub(crate) fn alone(mut self) -> Self {
        self.database = None;
        self.connections = 1;
        self
    }

    /// Returns the database that the URL names, for programs that use it for other purposes as well. Does not
    /// connect yet.
    ///
    /// # Errors
    /// Returns a [`ConnectError`] if the URL or a setting is invalid.
    pub fn database(&self) -> Result<Database, ConnectError> {
        self.check()?;
        match &self.database {
            Some(database) => Ok(database.clone()),
            None => Database::new(&self.url.0, self.connections, self.time_limit, self.session_settings()),
        }
    }

    /// Connects, creates missing tables, and returns when the store listens for all changes.
    ///
    /// # Errors
    /// Returns a [`ConnectError`], which states what to do, if the store can't connect.
    pub async fn connect(self) -> Result<PostgresStore, ConnectError> {
        let (database, limit) = (self.database()?, self.start_within);
        PostgresStore::connected(database, self.into_start(), limit).await
    }

    /// Creates a store that connects in the background, for a service that must start even if Postgres is down.
    /// Operations fail until the store is connected. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Returns a [`ConnectError`] if the URL or a setting is invalid.
    pub fn open(self) -> Result<PostgresStore, ConnectError> {
        Ok(PostgresStore::opened(self.database()?, self.into_start()))
    }

    fn into_start(self) -> Start {
        let again = self.clone().alone();
        Start {
            schema: self.schema,
            heartbeat_every: self.heartbeat_every,
            clean_every: self.clean_every,
            // These settings have been validated already, so opening the store again succeeds.
            reopen: Box::new(move || again.clone().open().ok()),
        }
    }

    /// Returns the SQL that each new connection executes.
    ///
    /// The server's timeout is slightly shorter than the client's, so that usually the server ends a statement
    /// and the connection stays usable. The server also ends the transaction of a process that stalls in the
    /// middle of a swap, which releases its locks. Query plans are made once, possibly while the tables are
    /// empty. They always use an index, so that they remain good when the tables are full. They are not
    /// JIT-compiled.
    #[must_use]
    pub fn session_settings(&self) -> String {
        let limit = (self.time_limit.as_millis() * 9 / 10).max(1);
        format!(
            "SET statement_timeout = {limit}; SET idle_in_transaction_session_timeout = {limit}; \
             SET default_transaction_isolation = 'read committed'; SET plan_cache_mode = 'force_generic_plan'; \
             SET enable_seqscan = off; SET jit = off"
        )
    }

    /// Validates all settings.
    fn check(&self) -> Result<(), ConnectError> {
        let wrong = |setting, reason: &str| Err(ConnectError::Setting { setting, reason: reason.to_owned() });
        let mut characters = self.schema.chars();
        let begins_well = characters.next().is_some_and(|first| first.is_ascii_lowercase() || first == '_');
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !begins_well || !characters.all(allowed) || self.schema.starts_with("pg_") {
            return wrong(
                "schema",
                "must be lower-case letters, digits and _, and not begin with a digit or with pg_",
            );
        }
        if self.schema.len() > MAX_SCHEMA_LENGTH {
            return wrong("schema", "must be at most 48 bytes");
        }
        if self.connections == 0 {
            return wrong("connections", "must be at least 1");
        }
        for (setting, duration) in [
            ("time_limit", self.time_limit),
            ("start_within", self.start_within),
            ("heartbeat_every", self.heartbeat_every),
            ("clean_every", self.clean_every),
        ] {
            if duration < Duration::from_millis(1) || duration > Duration::from_secs(3_600) {
                return wrong(setting, "must be between 1 ms and 1 h");
            }
        }
        Ok(())
    }
}

impl PostgresStore {
    /// Creates a store with the default settings that connects in the background and creates missing tables. If
    /// Postgres is down when a service starts, the service starts degraded, and joins the fleet when Postgres
    /// is up. Must be called within a tokio runtime that lives as long as the store.
    ///
    /// # Errors
    /// Returns a [`ConnectError`] if the URL is invalid. All other problems are reported as the store's health.
    pub fn open(url: &str) -> Result<Self, ConnectError> {
        Self::builder(url).open()
    }

    /// Connects to the database that the URL names, with the default settings, and creates missing tables. To
    /// start even if the server is down, use [`open`](Self::open).
    ///
    /// # Errors
    /// Returns a [`ConnectError`], which states what to do, if the store can't connect.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder(url).connect().await
    }

    /// Returns a builder for settings other than the defaults.
    pub fn builder(url: &str) -> PostgresStoreBuilder {
        PostgresStoreBuilder::new(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder() -> PostgresStoreBuilder {
        PostgresStoreBuilder::new("postgres://user:secret@host/db")
    }

    #[test]
    fn a_setting_out_of_range_is_named() {
        assert_eq!(builder().check(), Ok(()));
        assert_eq!(builder().schema("_my_2nd").check(), Ok(()));
        let zero = Duration::ZERO;
        for (builder, setting) in [
            (builder().schema(""), "schema"),
            (builder().schema("Upper"), "schema"),
            (builder().schema("2nd"), "schema"),
            (builder().schema("a\"; DROP TABLE x; --"), "schema"),
            (builder().schema("pg_mine"), "schema"),
            (builder().schema(&"x".repeat(49)), "schema"),
            (builder().connections(0), "connections"),
            (builder().time_limit(zero), "time_limit"),
            (builder().start_within(zero), "start_within"),
            (builder().heartbeat_every(zero), "heartbeat_every"),
            (builder().clean_every(Duration::MAX), "clean_every"),
        ] {
            let error = builder.database().unwrap_err().to_string();
            assert!(error.starts_with(setting), "{error}");
        }
    }

    #[test]
    fn nothing_shows_a_password() {
        let builder = builder();
        let shown = format!("{builder:?} {:?}", builder.database().unwrap());
        assert!(shown.contains("host") && !shown.contains("secret"), "{shown}");
    }
}
