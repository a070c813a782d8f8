//! The errors of connecting, with instructions, and the conversion of server errors to store errors.

use std::time::Duration;

use breakerbox::store::StoreError;
use redis::{ErrorKind, RedisError};

/// The reason why a store can't connect. The messages never contain a password.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is invalid.
    #[error("url: {reason}")]
    Url {
        /// The reason why the URL is invalid, and how to fix it.
        reason: String,
    },
    /// The namespace contains characters that are not allowed in key names, is too long, or is empty.
    #[error("namespace: must be 1 to 64 letters, digits, '-', '_', '.' or ':', but is {namespace:?}")]
    Namespace {
        /// The namespace that was set.
        namespace: String,
    },
    /// The request timeout is zero.
    #[error("time_limit: must be longer than nothing")]
    TimeLimit,
    /// The root certificate is invalid.
    #[error("root_certificate: {reason}; it takes PEM, and a URL that begins with rediss")]
    Certificate {
        /// The parser's error message.
        reason: String,
    },
    /// The server can't be reached.
    #[error("{address}: can't connect: {reason}; check the address in the URL, and that the server is up")]
    Unreachable {
        /// The address of the server.
        address: String,
        /// The operating system's error message.
        reason: String,
    },
    /// The server did not respond in time.
    #[error(
        "{address}: no answer within {limit:?}; check that the server is up, that nothing drops its packets, and that it \
         speaks TLS if and only if the URL begins with rediss"
    )]
    TimedOut {
        /// The address of the server.
        address: String,
        /// The timeout that expired.
        limit: Duration,
    },
    /// The login failed, or the user lacks permissions.
    #[error(
        "{address}: the server refused us: {reason}; check the user and the password in the URL, and the user's rights"
    )]
    Denied {
        /// The address of the server.
        address: String,
        /// The server's error message.
        reason: String,
    },
    /// The server is of a different kind than the URL specifies.
    #[error("{address}: this is {found}; the URL must begin with {scheme}")]
    Kind {
        /// The address of the server.
        address: String,
        /// The kind of server that responded.
        found: &'static str,
        /// The URL scheme for the kind of server that responded.
        scheme: &'static str,
    },
    /// The server is a replica, which does not accept writes.
    #[error(
        "{address}: this is a replica; give the address of its master, or of its sentinels (redis+sentinel://)"
    )]
    Replica {
        /// The address of the server.
        address: String,
    },
    /// The server's version is too old, because required commands are missing.
    #[error("{address}: version {version} is too old; Redis 7, Valkey 7.2, or a later one is needed")]
    TooOld {
        /// The address of the server.
        address: String,
        /// The version that the server reports.
        version: String,
    },
    /// The sentinels don't know a master with the name in the URL.
    #[error("{master}: no sentinel knows a master of this name that is up; check master= in the URL")]
    Master {
        /// The name of the master in the URL.
        master: String,
    },
    /// No node in the cluster owns this hash slot.
    #[error("no node of the cluster has slot {slot}; check `redis-cli --cluster check`")]
    Slot {
        /// The hash slot, 0 to 16,383.
        slot: u16,
    },
    /// The tokio runtime on which the store was connected has ended, and with it the store's connections.
    #[error(
        "the tokio runtime that this store was connected on has ended; connect the store on a runtime that lives as long \
         as the store, such as the one of `main`"
    )]
    Ended,
}

impl ConnectError {
    /// Converts a client error that occurred while connecting to an address.
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

/// The reason why a request has no valid response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The connection ended before the response arrived. Whether the request was executed is unknown.
    #[error("{address}: the connection was lost before the answer")]
    Lost { address: String, source: RedisError },
    /// The server rejected the request.
    #[error("{address}: the server refused")]
    Refused { address: String, source: RedisError },
    /// The cluster redirected the request too many times.
    #[error("the cluster is being rearranged")]
    Rearranged { source: RedisError },
    /// The response does not have the format that the scripts use.
    #[error("an answer that no script of this version gives; is another program using these keys?")]
    InvalidResponse,
    /// The cursor was not created by this store.
    #[error("after: not a cursor of this store; begin without one")]
    Cursor,
}

impl From<CallError> for StoreError {
    fn from(error: CallError) -> Self {
        Self::Unavailable(Box::new(error))
    }
}
