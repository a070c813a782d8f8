//! The errors of opening the store or a connection: the problem, and how to solve it.
//!
//! The messages never contain a password.

use std::error::Error;
use std::time::Duration;

use breakerbox::store::StoreError;
use tokio_postgres::Config;
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;

/// The reason why the store or a connection can't be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is invalid.
    #[error("url: {reason}")]
    Url {
        /// The reason why the URL is invalid.
        reason: String,
    },
    /// A setting is out of range.
    #[error("{setting}: {reason}")]
    Setting {
        /// The name of the setting.
        setting: &'static str,
        /// The reason why the value is invalid.
        reason: String,
    },
    /// The server can't be reached.
    #[error(
        "no Postgres answers at {address}: {reason}; check host and port in the URL, and whether the server runs"
    )]
    Unreachable {
        /// The address of the server.
        address: String,
        /// The operating system's error message.
        reason: String,
    },
    /// The server did not respond in time.
    #[error(
        "{address} did not answer within {limit:?}; check whether the server is overloaded, or a firewall is in between"
    )]
    TimedOut {
        /// The address of the server.
        address: String,
        /// The timeout that expired.
        limit: Duration,
    },
    /// The server rejected the login.
    #[error(
        "the server refuses user {user:?}: {reason}; check user and password in the URL, and the server's pg_hba.conf"
    )]
    Refused {
        /// The name of the database user.
        user: String,
        /// The server's error message.
        reason: String,
    },
    /// The database does not exist.
    #[error("{reason}; check the name after the last / of the URL, or create it: CREATE DATABASE ...")]
    NoDatabase {
        /// The server's error message.
        reason: String,
    },
    /// All of the server's connections are in use.
    #[error("{reason}; use fewer connections in each process, or raise the server's max_connections")]
    Full {
        /// The server's error message.
        reason: String,
    },
    /// The TLS handshake failed, or a certificate is invalid.
    #[error("tls: {reason}; check sslmode and sslrootcert in the URL")]
    Tls {
        /// The reason why TLS failed.
        reason: String,
    },
    /// The user lacks permissions.
    #[error(
        "{reason}; grant it, or let another user create the tables first: see docs/operating/postgres.md"
    )]
    NotPermitted {
        /// The server's error message.
        reason: String,
    },
    /// The server is read-only.
    #[error(
        "{reason}; connect to the primary, or add target_session_attrs=read-write to a URL with several hosts"
    )]
    ReadOnly {
        /// The server's error message.
        reason: String,
    },
    /// The server's version is too old.
    #[error("this is Postgres {version}; version 14 or later is needed")]
    TooOld {
        /// The version that the server reports.
        version: String,
    },
    /// The tokio runtime on which the store was connected has ended, and with it the store's tasks.
    #[error(
        "the tokio runtime that this store was connected on has ended; connect the store on a runtime that lives as long \
         as the store, such as the one of `main`"
    )]
    Ended,
    /// Any error that has no separate variant.
    #[error("can't connect: {reason}")]
    Failed {
        /// The client's error message.
        reason: String,
    },
}

impl ConnectError {
    /// Converts an error from a connection attempt, or from a statement during setup.
    pub(crate) fn of(error: &tokio_postgres::Error, config: &Config) -> Self {
        let reason = whole(error);
        let Some(code) = error.code() else { return Self::without_code(error, reason, config) };
        match *code {
            SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                Self::Refused { user: user(config), reason }
            }
            SqlState::INVALID_CATALOG_NAME => Self::NoDatabase { reason },
            SqlState::TOO_MANY_CONNECTIONS => Self::Full { reason },
            SqlState::INSUFFICIENT_PRIVILEGE => Self::NotPermitted { reason },
            SqlState::READ_ONLY_SQL_TRANSACTION => Self::ReadOnly { reason },
            SqlState::CANNOT_CONNECT_NOW | SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN => {
                Self::Unreachable { address: address(config), reason }
            }
            _ => Self::Failed { reason },
        }
    }

    /// Converts an error that has no SQL state. Examines the message, because the client library's error kinds
    /// are private.
    fn without_code(error: &tokio_postgres::Error, reason: String, config: &Config) -> Self {
        let kind = error.to_string();
        if kind.contains("TLS") {
            Self::Tls { reason }
        } else if kind.contains("authentication") || reason.contains("password missing") {
            Self::Refused { user: user(config), reason }
        } else if error.is_closed() || kind.contains("connecting") || kind.contains("communicating") {
            Self::Unreachable { address: address(config), reason }
        } else {
            Self::Failed { reason }
        }
    }
}

impl From<ConnectError> for StoreError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::TimedOut { limit, .. } => Self::TimedOut { limit },
            error => Self::Unavailable(Box::new(error)),
        }
    }
}

/// The reason why an SQL statement failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct StatementError {
    reason: String,
    /// Whether the statement failed because a table or the schema does not exist.
    is_table_missing: bool,
}

/// Returns whether an error reports a missing table.
pub(crate) fn is_table_missing(error: &StoreError) -> bool {
    let StoreError::Unavailable(error) = error else { return false };
    error.downcast_ref::<StatementError>().is_some_and(|error| error.is_table_missing)
}

/// Converts a statement's error to a store error.
pub(crate) fn of_statement(error: &tokio_postgres::Error, config: &Config, limit: Duration) -> StoreError {
    match error.code() {
        // The server's own timeout is slightly shorter than the client's.
        Some(&SqlState::QUERY_CANCELED | &SqlState::LOCK_NOT_AVAILABLE) => StoreError::TimedOut { limit },
        Some(
            &SqlState::READ_ONLY_SQL_TRANSACTION | &SqlState::ADMIN_SHUTDOWN | &SqlState::CRASH_SHUTDOWN,
        )
        | None => ConnectError::of(error, config).into(),
        Some(&SqlState::UNDEFINED_TABLE | &SqlState::INVALID_SCHEMA_NAME) => {
            StoreError::Unavailable(Box::new(StatementError { reason: whole(error), is_table_missing: true }))
        }
        Some(_) => unavailable(whole(error)),
    }
}

pub(crate) fn unavailable(reason: impl Into<String>) -> StoreError {
    StoreError::Unavailable(Box::new(StatementError { reason: reason.into(), is_table_missing: false }))
}

/// Returns the messages of an error and all its causes, on one line.
pub(crate) fn whole(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if text == "db error" {
            text = cause_text;
        } else if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Returns the server addresses in a configuration, for error messages.
pub(crate) fn address(config: &Config) -> String {
    let port = |n| config.get_ports().get(n).or(config.get_ports().first()).copied().unwrap_or(5432);
    let hosts = config.get_hosts().iter().enumerate().map(|(n, host)| match host {
        Host::Tcp(name) => format!("{name}:{}", port(n)),
        Host::Unix(path) => path.display().to_string(),
    });
    hosts.collect::<Vec<_>>().join(", ")
}

fn user(config: &Config) -> String {
    config.get_user().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Caused(&'static str, #[source] Option<Box<Caused>>);

    #[test]
    fn an_error_tells_its_causes() {
        let error = Caused(
            "can't connect",
            Some(Box::new(Caused("refused", Some(Box::new(Caused("refused", None)))))),
        );
        assert_eq!(whole(&error), "can't connect: refused");
        assert_eq!(
            whole(&Caused("db error", Some(Box::new(Caused("no such table", None))))),
            "no such table"
        );
    }

    #[test]
    fn an_address_names_every_host_and_no_password() {
        let config: Config = "postgres://user:secret@one:5433,two:5434/db".parse().unwrap();
        assert_eq!(address(&config), "one:5433, two:5434");
    }
}
