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
        "the {what} {name} is sealed with the master key {key}, which was not given; add that key after the newest one, or \
         restore the key file that belongs to this database"
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
        "what is kept of the {what} {name} was damaged, or moved here from another row; restore it from a backup"
    )]
    Damaged {
        /// The kind of object that the value belongs to.
        what: &'static str,
        /// The id or name of the object.
        name: String,
    },
    /// There is no key at all.
    #[error("{place}: holds no master key; put the base64 of 32 random bytes there")]
    NoKey {
        /// The source that was searched.
        place: String,
    },
    /// A text in the source is not a key.
    #[error("{place}: key {number} is no master key; each must be the base64 of 32 random bytes")]
    Malformed {
        /// The source.
        place: String,
        /// The position of the text, from 1 on.
        number: usize,
    },
    /// Other users can read or write the file.
    #[error(
        "{} can be read or written by others (mode {mode:03o}); run `chmod 600` on it, and replace the key if somebody did",
        path.display()
    )]
    Exposed {
        /// The path of the file.
        path: PathBuf,
        /// The mode of the file.
        mode: u32,
    },
    /// The path is not a regular file.
    #[error("{} is not a plain file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The database holds sealed secrets, but the file with their key is missing.
    #[error(
        "{} is not there, but the database holds sealed secrets; restore the key file, or name it in the configuration",
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
