//! What can go wrong with the file, and what the queue calls it.

use std::path::PathBuf;
use std::sync::Arc;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::Moment;
use rusqlite::ErrorCode;

use crate::queue::QueueError;

/// Why a file is not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open.
    #[error(
        "{} is in use by process {holder}; stop that one, or name another file",
        path.display()
    )]
    InUse {
        /// Which file.
        path: PathBuf,
        /// Who has it, as far as it said.
        holder: String,
    },
    /// A newer version of this program wrote it.
    #[error(
        "{} has schema {found}, but this version knows schemas up to {known}; use a newer version of breakerbox",
        path.display()
    )]
    TooNew {
        /// Which file.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// It belongs to another program.
    #[error("{} is a database of another program; name another file", path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
    },
    /// The folder can't be made, or the file not locked.
    #[error("can't open {}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// A migration failed. Nothing of it was written.
    #[error("{}: migration {number} failed; nothing of it was written", path.display())]
    Migration {
        /// Which file.
        path: PathBuf,
        /// Which migration.
        number: u32,
        /// Why.
        #[source]
        error: rusqlite::Error,
    },
    /// Its newest time is more than a day ahead of the clock.
    #[error(
        "{}: its newest time is {}, but the clock says {}; either the clock of this machine is behind, or it was ahead at an \
         earlier start; check the machine's time, and if it is right start once with --accept-clock-step",
        path.display(), Moment(*newest), Moment(*now)
    )]
    ClockAhead {
        /// Which file.
        path: PathBuf,
        /// The newest time in it.
        newest: Timestamp,
        /// The time by the clock.
        now: Timestamp,
    },
    /// SQLite can't open it.
    #[error("can't open the database {}", path.display())]
    Database {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        error: rusqlite::Error,
    },
}

impl From<rusqlite::Error> for QueueError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            _ => Self::Database(Arc::new(error)),
        }
    }
}
