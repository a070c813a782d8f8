//! Errors of the file, and the conversion of SQLite errors to those of the storage traits.

use std::path::PathBuf;
use std::sync::Arc;

use breakerbox_core::{KeyError, Timestamp};
use breakerbox_model::objects::Moment;
use breakerbox_storage::records::Refused;
use breakerbox_storage::{QueueError, RecordsError};
use rusqlite::ErrorCode;

/// Why a file can't be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has the file open.
    #[error(
        "{} is in use by process {holder}; stop that process, or choose another file",
        path.display()
    )]
    InUse {
        /// The path of the file.
        path: PathBuf,
        /// The process that has it open, as its lock file states it.
        holder: String,
    },
    /// A newer version of this program wrote the file.
    #[error(
        "{} has schema {found}, but this version knows schemas up to {known}; use a newer version of breakerbox",
        path.display()
    )]
    TooNew {
        /// The path of the file.
        path: PathBuf,
        /// The schema of the file.
        found: u32,
        /// The newest schema that this version knows.
        known: u32,
    },
    /// The file belongs to another program.
    #[error("{} is a database of another program; choose another file", path.display())]
    Foreign {
        /// The path of the file.
        path: PathBuf,
    },
    /// The folder can't be created, or the file can't be locked.
    #[error("can't open {}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: std::io::Error,
    },
    /// A migration failed. Nothing of it was written.
    #[error("{}: migration {number} failed; nothing of it was written", path.display())]
    Migration {
        /// The path of the file.
        path: PathBuf,
        /// The number of the migration.
        number: u32,
        /// The cause.
        #[source]
        error: rusqlite::Error,
    },
    /// The newest time in the file is more than a day ahead of the clock.
    #[error(
        "{}: the newest stored time is {}, but the clock shows {}; either the clock of this machine is behind, or it was ahead at \
         an earlier start; check the clock, and if it is correct, start once with --accept-clock-step",
        path.display(), Moment(*newest), Moment(*now)
    )]
    ClockAhead {
        /// The path of the file.
        path: PathBuf,
        /// The newest time in the file.
        newest: Timestamp,
        /// The time by the clock.
        now: Timestamp,
    },
    /// SQLite can't open the file.
    #[error("can't open the database {}", path.display())]
    Database {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        #[source]
        error: rusqlite::Error,
    },
}

/// An error of a job of [`Database::write`](super::Database::write) or [`read`](super::Database::read), which return
/// the error inside.
///
/// The errors of the storage traits are defined in another crate, so an error of SQLite can't be converted to one with
/// `?`. It can be converted to this type, and so can they.
#[derive(Debug)]
pub struct JobError<E>(pub(crate) E);

impl<E> From<E> for JobError<E> {
    fn from(error: E) -> Self {
        Self(error)
    }
}

impl From<rusqlite::Error> for JobError<QueueError> {
    fn from(error: rusqlite::Error) -> Self {
        Self(queue_error(error))
    }
}

impl From<rusqlite::Error> for JobError<RecordsError> {
    fn from(error: rusqlite::Error) -> Self {
        Self(queue_error(error).into())
    }
}

impl From<QueueError> for JobError<RecordsError> {
    fn from(error: QueueError) -> Self {
        Self(error.into())
    }
}

impl From<KeyError> for JobError<RecordsError> {
    fn from(error: KeyError) -> Self {
        Self(error.into())
    }
}

impl From<Refused> for JobError<RecordsError> {
    fn from(error: Refused) -> Self {
        Self(error.into())
    }
}

impl From<JobError<Self>> for QueueError {
    fn from(JobError(error): JobError<Self>) -> Self {
        error
    }
}

impl From<JobError<Self>> for RecordsError {
    fn from(JobError(error): JobError<Self>) -> Self {
        error
    }
}

impl From<JobError<QueueError>> for JobError<RecordsError> {
    fn from(JobError(error): JobError<QueueError>) -> Self {
        error.into()
    }
}

/// Converts an error of SQLite to one of the queue.
pub(super) fn queue_error(error: rusqlite::Error) -> QueueError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => QueueError::DiskFull,
        _ => QueueError::Database(Arc::new(error)),
    }
}
