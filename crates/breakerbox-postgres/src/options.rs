//! What can be chosen about the store, and what is chosen if nobody does.

use std::time::Duration;

use crate::error::ConnectError;
use crate::{Database, PostgresStore};

/// The longest name of a schema: Postgres allows 63 bytes, and the name of the channel is longer than the schema's.
const MAX_SCHEMA_LENGTH: usize = 48;

/// What can be chosen about the store.
///
/// ```no_run
/// # async fn example() -> Result<(), breakerbox_postgres::ConnectError> {
/// use breakerbox_postgres::Options;
/// use std::time::Duration;
///
/// let options = Options::new().schema("breakers").time_limit(Duration::from_millis(250)).connections(8);
/// let store = options.connect("postgres://user:password@host/database?sslmode=verify-full").await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) schema: String,
    pub(crate) time_limit: Duration,
    pub(crate) connections: usize,
    pub(crate) start_within: Duration,
    pub(crate) ask_every: Duration,
    pub(crate) clean_every: Duration,
}

impl Options {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            schema: "breakerbox".to_owned(),
            time_limit: Duration::from_millis(500),
            connections: 4,
            start_within: Duration::from_secs(10),
            ask_every: Duration::from_secs(5),
            clean_every: Duration::from_secs(1),
        }
    }

    /// The schema that the tables are in. Fleets with different schemas have nothing to do with each other. Default:
    /// `breakerbox`.
    #[must_use]
    pub fn schema(mut self, schema: &str) -> Self {
        schema.clone_into(&mut self.schema);
        self
    }

    /// How long a verb may take, with the wait for a connection. The server ends a statement that takes longer. Default:
    /// 500 ms.
    #[must_use]
    pub fn time_limit(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }

    /// How many connections a process has at the most, apart from the one that listens for changes. Default: 4.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// How long connecting for the first time may take, with creating the tables. Default: 10 s.
    #[must_use]
    pub fn start_within(mut self, start_within: Duration) -> Self {
        self.start_within = start_within;
        self
    }

    /// How often the connection that listens for changes is asked whether it is still there. One that does not answer for as
    /// long again is replaced, and whoever listens hears that changes may have been missed. Default: 5 s.
    #[must_use]
    pub fn ask_every(mut self, ask_every: Duration) -> Self {
        self.ask_every = ask_every;
        self
    }

    /// How often one process of the fleet looks at a thousand rows and deletes those that have expired. Default: every
    /// second, with a rest after all rows have been looked at.
    #[must_use]
    pub fn clean_every(mut self, clean_every: Duration) -> Self {
        self.clean_every = clean_every;
        self
    }

    /// Opens the store, and creates its tables if they are missing.
    ///
    /// # Errors
    /// What is wrong, and what to do about it.
    pub async fn connect(&self, url: &str) -> Result<PostgresStore, ConnectError> {
        PostgresStore::on(Database::new(url, self)?, self).await
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

    /// Whether every option makes sense.
    pub(crate) fn check(&self) -> Result<(), ConnectError> {
        let wrong = |option, reason: &str| Err(ConnectError::Option { option, reason: reason.to_owned() });
        let mut characters = self.schema.chars();
        let begins_well = characters.next().is_some_and(|first| first.is_ascii_lowercase() || first == '_');
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !begins_well || !characters.all(allowed) || self.schema.starts_with("pg_") {
            return wrong(
                "schema",
                "must be lower-case letters, digits and _, not begin with a digit, nor with pg_",
            );
        }
        if self.schema.len() > MAX_SCHEMA_LENGTH {
            return wrong("schema", "must be at most 48 bytes");
        }
        if self.connections == 0 {
            return wrong("connections", "must be at least 1");
        }
        let least = Duration::from_millis(1);
        for (option, duration) in [
            ("time_limit", self.time_limit),
            ("start_within", self.start_within),
            ("ask_every", self.ask_every),
            ("clean_every", self.clean_every),
        ] {
            if duration < least || duration > Duration::from_secs(3_600) {
                return wrong(option, "must be between 1 ms and 1 h");
            }
        }
        Ok(())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_out_of_range_is_named() {
        assert_eq!(Options::new().check(), Ok(()));
        assert_eq!(Options::new().schema("_my_2nd").check(), Ok(()));
        let zero = Duration::ZERO;
        for (options, option) in [
            (Options::new().schema(""), "schema"),
            (Options::new().schema("Upper"), "schema"),
            (Options::new().schema("2nd"), "schema"),
            (Options::new().schema("a\"; DROP TABLE x; --"), "schema"),
            (Options::new().schema("pg_mine"), "schema"),
            (Options::new().schema(&"x".repeat(49)), "schema"),
            (Options::new().connections(0), "connections"),
            (Options::new().time_limit(zero), "time_limit"),
            (Options::new().start_within(zero), "start_within"),
            (Options::new().ask_every(zero), "ask_every"),
            (Options::new().clean_every(Duration::MAX), "clean_every"),
        ] {
            let error = options.check().unwrap_err().to_string();
            assert!(error.starts_with(option), "{error}");
        }
    }
}
