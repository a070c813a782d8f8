//! Why there is no connection, with what to do about it; and how a server's errors become the store's.

use std::time::Duration;

use breakerbox::store::StoreError;
use redis::{ErrorKind, RedisError};

/// Why a store can't be connected. No message has a password in it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL says something that can't be.
    #[error("url: {reason}")]
    Url {
        /// What is wrong with it, and how it should be.
        reason: String,
    },
    /// The namespace can't be used in the names of keys.
    #[error("namespace: must be 1 to 64 letters, digits, '-', '_', '.' or ':', but is {namespace:?}")]
    Namespace {
        /// What was given.
        namespace: String,
    },
    /// The time limit leaves no time.
    #[error("time_limit: must be longer than nothing")]
    TimeLimit,
    /// The certificate can't be used.
    #[error("root_certificate: {reason}; it takes PEM, and a URL that begins with rediss")]
    Certificate {
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody is there.
    #[error("{address}: can't connect: {reason}; check the address in the URL, and that the server is up")]
    Unreachable {
        /// Where.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// Somebody is there, and says nothing.
    #[error(
        "{address}: no answer within {limit:?}; check that the server is up, that nothing drops its packets, and that it \
         speaks TLS if and only if the URL begins with rediss"
    )]
    TimedOut {
        /// Where.
        address: String,
        /// The limit.
        limit: Duration,
    },
    /// The login failed, or the user may not do what is needed.
    #[error(
        "{address}: the server refused us: {reason}; check the user and the password in the URL, and the user's rights"
    )]
    Denied {
        /// Where.
        address: String,
        /// What the server said.
        reason: String,
    },
    /// It is another kind of server than the URL says.
    #[error("{address}: this is {found}; the URL must begin with {scheme}")]
    Kind {
        /// Where.
        address: String,
        /// What is there.
        found: &'static str,
        /// How the URL must begin.
        scheme: &'static str,
    },
    /// It is a replica, which takes no writes.
    #[error(
        "{address}: this is a replica; give the address of its master, or of its sentinels (redis+sentinel://)"
    )]
    Replica {
        /// Where.
        address: String,
    },
    /// It lacks commands that are needed.
    #[error("{address}: version {version} is too old; Redis 7, Valkey 7.2, or a later one is needed")]
    TooOld {
        /// Where.
        address: String,
        /// What it says it is.
        version: String,
    },
    /// The sentinels know no such master.
    #[error("{master}: no sentinel knows a master of this name that is up; check master= in the URL")]
    Master {
        /// The name.
        master: String,
    },
    /// Nobody has a part of the cluster.
    #[error("no node of the cluster has slot {slot}; check `redis-cli --cluster check`")]
    Slot {
        /// Which one.
        slot: u16,
    },
    /// The tokio runtime that the store was connected on has ended, and the store's connections with it.
    #[error(
        "the tokio runtime that this store was connected on has ended; connect the store on a runtime that lives as long \
         as the store, such as the one of `main`"
    )]
    Ended,
}

impl ConnectError {
    /// What the client said, while it tried to connect to an address.
    pub(crate) fn of(error: &RedisError, address: &str) -> Self {
        let (address, reason) = (address.to_owned(), error.to_string());
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Denied { address, reason },
            ErrorKind::RESP3NotSupported => Self::TooOld { address, version: "below 6".to_owned() },
            _ => match error.code() {
                Some("WRONGPASS" | "NOAUTH" | "NOPERM") => Self::Denied { address, reason },
                _ => Self::Unreachable { address, reason },
            },
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

/// Why an answer is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// The connection ended before the answer. Whether the request was done, nobody knows.
    #[error("{address}: the connection was lost before the answer")]
    Lost { address: String, source: RedisError },
    /// The server refused.
    #[error("{address}: the server refused")]
    Refused { address: String, source: RedisError },
    /// It sent us elsewhere, again and again.
    #[error("the cluster is being rearranged")]
    Rearranged { source: RedisError },
    /// It is not what the scripts answer.
    #[error("an answer that no script of this version gives; is another program using these keys?")]
    Nonsense,
    /// It is no cursor of this store.
    #[error("after: not a cursor of this store; begin without one")]
    Cursor,
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        Self::Unavailable(Box::new(trouble))
    }
}
