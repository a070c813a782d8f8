//! Errors of master keys and sealed values. They never repeat a secret.

use std::io;
use std::path::PathBuf;

use super::KeyId;

/// Why a secret is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretsError {
    /// The value is sealed with a key that was not given.
    #[error(
        "the {what} {name} is encrypted with the master key {key}, which is missing; add that key after the newest one, or \
         restore the key file of this database"
    )]
    KeyMissing {
        /// The kind of object that the value belongs to.
        what: &'static str,
        /// The id or name of the object.
        name: String,
        /// The id of the missing key.
        key: KeyId,
    },
    /// The sealed value was changed, or belongs to another object.
    #[error(
        "the encrypted data of the {what} {name} is damaged, or was copied from another row; restore it from a backup"
    )]
    Damaged {
        /// The kind of object that the value belongs to.
        what: &'static str,
        /// The id or name of the object.
        name: String,
    },
    /// There is no key at all.
    #[error("{place}: contains no master key; write the base64 of 32 random bytes to it")]
    NoKey {
        /// The source that was searched.
        place: String,
    },
    /// A text in the source is not a key.
    #[error("{place}: key {number} is not a master key; each must be the base64 of 32 random bytes")]
    Malformed {
        /// The source.
        place: String,
        /// The position of the text, from 1 on.
        number: usize,
    },
    /// Other users can read or write the file.
    #[error(
        "{} is accessible to other users (mode {mode:03o}); run `chmod 600` on it, and replace the key if it was read",
        path.display()
    )]
    Exposed {
        /// The path of the file.
        path: PathBuf,
        /// The mode of the file.
        mode: u32,
    },
    /// The path is not a regular file.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The database holds sealed secrets, but the file with their key is missing.
    #[error(
        "{} does not exist, but the database contains encrypted secrets; restore the key file, or set its path in the configuration",
        path.display()
    )]
    FileMissing {
        /// The path of the file.
        path: PathBuf,
    },
    /// The file can't be read or created.
    #[error("can't use the key file {}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
}
