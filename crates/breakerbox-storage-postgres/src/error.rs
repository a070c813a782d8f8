//! Converts errors of the client library to errors of the queue.

use std::error::Error;
use std::sync::Arc;

use breakerbox::store::StoreError;
use breakerbox_storage::QueueError;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Error as SqlError, Row};

/// An error of a statement, or of the connection. The message contains its causes.
#[derive(Debug, thiserror::Error)]
#[error("{}", whole(.0))]
pub struct DatabaseError(SqlError);

/// Another process changed something between two statements of a transaction, which has to be repeated.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("another process changed what the transaction needs")]
struct Overtaken;

/// Returns the error of a transaction that has to be repeated, because of what another process did meanwhile.
pub(crate) fn overtaken() -> QueueError {
    QueueError::Database(Arc::new(Overtaken))
}

/// Converts an error of a statement.
pub(crate) fn failed(error: SqlError) -> QueueError {
    match error.code() {
        Some(&SqlState::DISK_FULL) => QueueError::DiskFull,
        _ => QueueError::Database(Arc::new(DatabaseError(error))),
    }
}

/// Converts the error of a connection attempt.
pub(crate) fn not_connected(error: StoreError) -> QueueError {
    QueueError::Database(Arc::new(error))
}

/// Returns the SQL state of an error, if the server reported one.
#[must_use]
pub fn sql_state(error: &QueueError) -> Option<&SqlState> {
    let QueueError::Database(error) = error else { return None };
    error.downcast_ref::<DatabaseError>()?.0.code()
}

/// Returns whether another attempt may succeed at once: the transaction was rolled back because of other transactions.
pub(crate) fn is_transient(error: &QueueError) -> bool {
    let is_overtaken = matches!(error, QueueError::Database(error) if error.is::<Overtaken>());
    is_overtaken
        || matches!(
            sql_state(error),
            Some(&SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE)
        )
}

/// Returns whether the error concerns the values of a statement, and so perhaps only one of several jobs.
pub(crate) fn is_of_values(error: &QueueError) -> bool {
    // Class 22: data exceptions. Class 23: violated constraints.
    sql_state(error).is_some_and(|state| state.code().starts_with("22") || state.code().starts_with("23"))
}

/// Reads a column of a row.
pub(crate) fn get<'r, T: tokio_postgres::types::FromSql<'r>>(
    row: &'r Row,
    column: usize,
) -> Result<T, QueueError> {
    row.try_get(column).map_err(failed)
}

/// Returns the messages of an error and all its causes, on one line.
fn whole(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if text == "db error" {
            text = cause_text;
        } else if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
