//! The reasons why a gateway does not start. Each message states what to do.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use breakerbox_core::{KeyError, PolicyError};
use breakerbox_egress::{ProxyError, TrustError};
use breakerbox_model::objects::ApiKeyTextError;
use breakerbox_storage::QueueError;
use breakerbox_storage::records::RecordsError;
use breakerbox_storage::secrets::SecretsError;
use breakerbox_storage::stored::LoadError;
use breakerbox_storage_sqlite::OpenError;

use crate::notifications::MailError;

/// The reason why a gateway did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The data directory can't be created.
    #[error("data: can't create {}: {error}; choose another directory with --data", path.display())]
    Folder {
        /// The path of the data directory.
        path: PathBuf,
        /// The file system's error.
        error: io::Error,
    },
    /// The API can't listen on its address.
    #[error("listen: can't listen on {address}: {error}; choose another address with --listen")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The error from the socket.
        error: io::Error,
    },
    /// The database can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The stored data can't be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A master key is missing or can't be used.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The admin key created by the first start can't be printed.
    #[error(
        "the admin key of the first start can't be printed: {0}; write it to a file with --admin-key-file PATH"
    )]
    AdminKey(#[source] io::Error),
    /// The initial admin key is not a valid API key.
    #[error("{place}: is not an API key; it {error}")]
    NotAnApiKey {
        /// The setting or the file that contains the key.
        place: String,
        /// What is wrong with the key.
        error: ApiKeyTextError,
    },
    /// The policy in the settings is invalid.
    #[error("policy.{0}")]
    Policy(#[from] PolicyError),
    /// The certificate authorities can't be read.
    #[error("egress.ca_files: {0}")]
    Trust(#[from] TrustError),
    /// The proxy URL is invalid.
    #[error("egress.proxy: {0}")]
    Proxy(#[from] ProxyError),
    /// The mail settings are invalid.
    #[error(transparent)]
    Mail(#[from] MailError),
    /// A tenant's name can't be the prefix of a circuit key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The stored records can't be read or written.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// The database returned an error.
    #[error(transparent)]
    Queue(#[from] QueueError),
}
