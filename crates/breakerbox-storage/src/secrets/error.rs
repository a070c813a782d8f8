//! What can go wrong with keys and what they sealed. Nothing secret is ever repeated.

use std::io;
use std::path::PathBuf;

use super::KeyId;

/// Why a secret can't be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretsError {
    /// A key is needed and was not given.
    #[error(
        "the {what} {name} is sealed with the master key {key}, which was not given; add that key after the newest one, or \
         restore the key file that belongs to this database"
    )]
    KeyMissing {
        /// What is sealed.
        what: &'static str,
        /// Its name.
        name: String,
        /// Which key.
        key: KeyId,
    },
    /// What was sealed was changed, or belongs to something else.
    #[error(
        "what is kept of the {what} {name} was damaged, or moved here from another row; restore it from a backup"
    )]
    Damaged {
        /// What was sealed.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// There is no key at all.
    #[error("{place}: holds no master key; put the base64 of 32 random bytes there")]
    NoKey {
        /// Where one was looked for.
        place: String,
    },
    /// Something that is no key.
    #[error("{place}: key {number} is no master key; each must be the base64 of 32 random bytes")]
    Malformed {
        /// Where it was found.
        place: String,
        /// Which one, from 1 on.
        number: usize,
    },
    /// Others can read the file, or write to it.
    #[error(
        "{} can be read or written by others (mode {mode:03o}); run `chmod 600` on it, and replace the key if somebody did",
        path.display()
    )]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// Not a plain file.
    #[error("{} is not a plain file", path.display())]
    NotAFile {
        /// What.
        path: PathBuf,
    },
    /// There are sealed secrets, and the file that should hold their key is not there.
    #[error(
        "{} is not there, but the database holds sealed secrets; restore the key file, or name it in the configuration",
        path.display()
    )]
    FileMissing {
        /// Which file.
        path: PathBuf,
    },
    /// The file can't be read or made.
    #[error("can't use the key file {}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
}
