//! Errors from opening the database, and the conversion of SQLite errors to those of the storage traits.

use std::path::PathBuf;
use std::sync::Arc;

use breakerbox_core::{KeyError, Timestamp};
use breakerbox_model::objects::Moment;
use breakerbox_storage::records::Refused;
use breakerbox_storage::{QueueError, RecordsError};
use rusqlite::ErrorCode;

/// Why a database can't be opened.
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
        /// The id of the process that has the file open, according to its lock file.
        holder: String,
    },
    /// A newer version of this program has written the file.
    #[error(
        "{} has schema {found}, but this version knows schemas up to {known}; use a newer version of breakerbox",
        path.display()
    )]
    TooNew {
        /// The path of the file.
        path: PathBuf,
        /// The schema version of the file.
        found: u32,
        /// The newest schema version that this program knows.
        known: u32,
    },
    /// The file is another program's database.
    #[error("{} is a database of another program; choose another file", path.display())]
    Foreign {
        /// The path of the file.
        path: PathBuf,
    },
    /// The directory can't be created, or the file can't be locked.
    #[error("can't open {}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The underlying I/O error.
        #[source]
        error: std::io::Error,
    },
    /// A migration failed and was rolled back.
    #[error("{}: migration {number} failed; nothing of it was written", path.display())]
    Migration {
        /// The path of the file.
        path: PathBuf,
        /// The number of the failed migration.
        number: u32,
        /// The error returned by SQLite.
        #[source]
        error: rusqlite::Error,
    },
    /// The newest time stored in the file is more than a day ahead of the clock.
    #[error(
        "{}: the newest stored time is {}, but the clock shows {}; either the clock of this machine is behind, or it was ahead at \
         an earlier start; check the clock, and if it is correct, start once with --accept-clock-step",
        path.display(), Moment(*newest), Moment(*now)
    )]
    ClockAhead {
        /// The path of the file.
        path: PathBuf,
        /// The newest time stored in the file.
        newest: Timestamp,
        /// The current time according to the clock.
        now: Timestamp,
    },
    /// SQLite can't open the file.
    #[error("can't open the database {}", path.display())]
    Database {
        /// The path of the file.
        path: PathBuf,
        /// The error returned by SQLite.
        #[source]
        error: rusqlite::Error,
    },
}

/// An error in a job run by [`Database::write`](super::Database::write) or [`read`](super::Database::read), which
/// return the inner error.
///
/// The storage traits' errors are defined in another crate, so `?` can't convert SQLite errors to them. It can
/// convert both to this type.
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

/// Converts an SQLite error to a queue error.
pub(super) fn queue_error(error: rusqlite::Error) -> QueueError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => QueueError::DiskFull,
        _ => QueueError::Database(Arc::new(error)),
    }
}
