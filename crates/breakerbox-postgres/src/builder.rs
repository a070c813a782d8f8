//! Connecting a store that is not all defaults: what can be chosen, and what is chosen if nobody does.

use std::fmt;
use std::time::Duration;

use crate::database::Database;
use crate::error::ConnectError;
use crate::store::PostgresStore;

/// The schema that the tables are in.
pub const DEFAULT_SCHEMA: &str = "breakerbox";

/// How long a verb may take. A server next door answers in a millisecond or two.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_millis(400);

// Else it would be a matter of luck which of the two gives up first, and what the error says.
const _: () = assert!(DEFAULT_TIME_LIMIT.as_millis() < breakerbox::DEFAULT_STORE_TIMEOUT.as_millis());

/// How many connections a process has at the most, apart from the one that listens.
pub const DEFAULT_CONNECTIONS: usize = 4;

/// The longest name of a schema: Postgres allows 63 bytes, and the name of the channel is longer than the schema's.
const MAX_SCHEMA_LENGTH: usize = 48;

/// Connects a store that is not all defaults.
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
pub struct Builder {
    url: Url,
    database: Option<Database>,
    pub(crate) schema: String,
    pub(crate) time_limit: Duration,
    pub(crate) connections: usize,
    pub(crate) start_within: Duration,
    pub(crate) ask_every: Duration,
    pub(crate) clean_every: Duration,
}

/// Text with a password in it, perhaps.
#[derive(Clone)]
struct Url(String);

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

impl Builder {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: Url(url.to_owned()),
            database: None,
            schema: DEFAULT_SCHEMA.to_owned(),
            time_limit: DEFAULT_TIME_LIMIT,
            connections: DEFAULT_CONNECTIONS,
            start_within: Duration::from_secs(10),
            ask_every: Duration::from_secs(5),
            clean_every: Duration::from_secs(1),
        }
    }

    /// The schema that the tables are in, [`DEFAULT_SCHEMA`] by default. Fleets that share a database need one each.
    pub fn schema(mut self, schema: &str) -> Self {
        schema.clone_into(&mut self.schema);
        self
    }

    /// How long a verb may take, with the wait for a connection, [`DEFAULT_TIME_LIMIT`] by default. A statement that takes
    /// longer is cancelled.
    pub fn time_limit(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }

    /// How many connections a process has at the most, apart from the one that listens, [`DEFAULT_CONNECTIONS`] by default.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// How long connecting for the first time may take, with creating the tables; 10 s by default.
    pub fn start_within(mut self, start_within: Duration) -> Self {
        self.start_within = start_within;
        self
    }

    /// How often the connection that listens is asked whether it is still there; every 5 s by default. One that does not answer
    /// for as long again is replaced, and whoever listens hears that changes may have been missed.
    pub fn ask_every(mut self, ask_every: Duration) -> Self {
        self.ask_every = ask_every;
        self
    }

    /// How often one process of the fleet looks at a thousand rows and deletes those that have expired; every second by
    /// default, with a rest of a minute once all have been looked at.
    pub fn clean_every(mut self, clean_every: Duration) -> Self {
        self.clean_every = clean_every;
        self
    }

    /// Uses the connections of a database that is used for other things too, in place of its own.
    pub fn on(mut self, database: Database) -> Self {
        self.database = Some(database);
        self
    }

    /// With one connection of its own, whoever else uses the database.
    pub(crate) fn alone(mut self) -> Self {
        self.database = None;
        self.connections = 1;
        self
    }

    /// The database of the URL, for those who use it for other things too. Nothing is connected yet.
    ///
    /// # Errors
    /// If the URL or a setting is wrong.
    pub fn database(&self) -> Result<Database, ConnectError> {
        self.check()?;
        match &self.database {
            Some(database) => Ok(database.clone()),
            None => Database::new(&self.url.0, self),
        }
    }

    /// Connects, and creates the tables if they are missing. Afterwards all changes are heard.
    ///
    /// # Errors
    /// If that can't be. The error says what to do.
    pub async fn connect(self) -> Result<PostgresStore, ConnectError> {
        PostgresStore::connected(self.database()?, &self).await
    }

    /// Makes a store that connects in the background, for a service that must start without it. Until it is connected, verbs
    /// say that it is not. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the URL or a setting is wrong.
    pub fn open(self) -> Result<PostgresStore, ConnectError> {
        Ok(PostgresStore::opened(self.database()?, &self))
    }

    /// What each connection is told first; for a pool of your own, see [`Database::with_pool`].
    ///
    /// The server's limit is a little shorter than ours, so that usually the server ends a statement, and the connection can be
    /// used again. A process that stops in the middle of a swap loses its lock. Plans are made once, perhaps when the tables
    /// are still empty, and must be right when they are full: always by index. They are not compiled.
    #[must_use]
    pub fn session_settings(&self) -> String {
        let limit = (self.time_limit.as_millis() * 9 / 10).max(1);
        format!(
            "SET statement_timeout = {limit}; SET idle_in_transaction_session_timeout = {limit}; \
             SET default_transaction_isolation = 'read committed'; SET plan_cache_mode = 'force_generic_plan'; \
             SET enable_seqscan = off; SET jit = off"
        )
    }

    /// Whether every setting makes sense.
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
            ("ask_every", self.ask_every),
            ("clean_every", self.clean_every),
        ] {
            if duration < Duration::from_millis(1) || duration > Duration::from_secs(3_600) {
                return wrong(setting, "must be between 1 ms and 1 h");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder() -> Builder {
        Builder::new("postgres://user:secret@host/db")
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
            (builder().ask_every(zero), "ask_every"),
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
