//! What can go wrong with the file, and how an error of SQLite becomes one of the storage traits.

use std::path::PathBuf;
use std::sync::Arc;

use breakerbox_core::{KeyError, Timestamp};
use breakerbox_model::objects::Moment;
use breakerbox_storage::records::Refused;
use breakerbox_storage::{QueueError, RecordsError};
use rusqlite::ErrorCode;

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

/// An error of a job of [`Database::write`](super::Database::write) or [`read`](super::Database::read), which return the error
/// inside.
///
/// The errors of the storage traits are defined in another crate, so an error of SQLite can't become one with `?`. It can become
/// this, and so can they.
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

/// What the queue calls an error of SQLite.
pub(super) fn queue_error(error: rusqlite::Error) -> QueueError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => QueueError::DiskFull,
        _ => QueueError::Database(Arc::new(error)),
    }
}
