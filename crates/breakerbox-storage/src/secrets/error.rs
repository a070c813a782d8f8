//! Errors concerning master keys and sealed (encrypted) values. Their messages never contain a secret.

use std::io;
use std::path::PathBuf;

use super::KeyId;

/// Why a secret is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretsError {
    /// The value is sealed with a key that was not provided.
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
    /// The sealed value was modified, or belongs to another object.
    #[error(
        "the encrypted data of the {what} {name} is damaged, or was copied from another row; restore it from a backup"
    )]
    Damaged {
        /// The kind of object that the value belongs to.
        what: &'static str,
        /// The id or name of the object.
        name: String,
    },
    /// No key was found.
    #[error("{place}: contains no master key; write the base64 of 32 random bytes to it")]
    NoKey {
        /// The source that was searched: the variable's name or the file's path.
        place: String,
    },
    /// An entry in the source is not a valid key.
    #[error("{place}: key {number} is not a master key; each must be the base64 of 32 random bytes")]
    Malformed {
        /// The source: the variable's name or the file's path.
        place: String,
        /// The position of the invalid entry; the first is 1.
        number: usize,
    },
    /// Other users can read or write the key file.
    #[error(
        "{} is accessible to other users (mode {mode:03o}); run `chmod 600` on it, and replace the key if it was read",
        path.display()
    )]
    Exposed {
        /// The path of the key file.
        path: PathBuf,
        /// The file's permission bits.
        mode: u32,
    },
    /// The path is not a regular file.
    #[error("{} is not a regular file", path.display())]
    NotAFile {
        /// The path that was given for the key file.
        path: PathBuf,
    },
    /// The database contains sealed secrets, but the key file is missing.
    #[error(
        "{} does not exist, but the database contains encrypted secrets; restore the key file, or set its path in the configuration",
        path.display()
    )]
    FileMissing {
        /// The path of the key file.
        path: PathBuf,
    },
    /// The key file can't be read or created.
    #[error("can't use the key file {}", path.display())]
    File {
        /// The path of the key file.
        path: PathBuf,
        /// The underlying I/O error.
        #[source]
        error: io::Error,
    },
}
