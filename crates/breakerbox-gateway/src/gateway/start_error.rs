//! Why a gateway did not start. Each says what to do.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use breakerbox_core::{KeyError, PolicyError};
use breakerbox_egress::{ProxyError, TrustError};
use breakerbox_model::objects::ApiKeyTextError;
use breakerbox_storage::QueueError;
use breakerbox_storage::records::RecordsError;
use breakerbox_storage::secrets::SecretsError;
use breakerbox_storage_sqlite::{LoadError, OpenError};

use crate::notifications::MailError;

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The data folder can't be made.
    #[error("data: {} can't be made: {error}; name another folder with --data", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Nothing can be heard there.
    #[error("listen: {address} can't be listened on: {error}; choose another address with --listen")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The database can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What is in it can't be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A master key is missing or of no use.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// The first admin key can't be shown.
    #[error(
        "the admin key of the first start can't be printed: {0}; write it to a file with --admin-key-file PATH"
    )]
    AdminKey(#[source] io::Error),
    /// What was given as the initial admin key is none.
    #[error("{place}: holds no API key; it {error}")]
    NotAnApiKey {
        /// The setting or the file.
        place: String,
        /// What an API key is.
        error: ApiKeyTextError,
    },
    /// The policy can't be used.
    #[error("policy.{0}")]
    Policy(#[from] PolicyError),
    /// Certificates can't be read.
    #[error("egress.ca_files: {0}")]
    Trust(#[from] TrustError),
    /// The proxy can't be used.
    #[error("egress.proxy: {0}")]
    Proxy(#[from] ProxyError),
    /// No mail could be sent.
    #[error(transparent)]
    Mail(#[from] MailError),
    /// A tenant's name can't be the beginning of a key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// What is kept can't be read or written.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// The database fails.
    #[error(transparent)]
    Queue(#[from] QueueError),
}
