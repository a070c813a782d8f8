//! Reads rows. A row that can't be read is left out of a listing, and never blocks others.

use std::error::Error;
use std::str::FromStr;
use std::sync::Arc;

use breakerbox_core::Timestamp;
use breakerbox_model::delivery::{Fault, LastAttempt};
use breakerbox_storage::stored::codes::time;
use breakerbox_storage::stored::{Unreadable, parsed};
use breakerbox_storage::{QueueError, RecordsError};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// Reads a column.
pub(crate) fn column<'r, T: FromSql<'r>>(row: &'r Row, name: &str) -> Result<T, Unreadable> {
    row.try_get(name).map_err(Unreadable::new)
}

/// Reads a column with a number that fits another type.
pub(crate) fn small<T: TryFrom<i64>>(row: &Row, name: &str) -> Result<T, Unreadable>
where
    T::Error: Error + Send + Sync + 'static,
{
    T::try_from(column::<i64>(row, name)?).map_err(Unreadable::new)
}

/// Reads a column with a time.
pub(crate) fn at(row: &Row, name: &str) -> Result<Timestamp, Unreadable> {
    column(row, name).map(time)
}

/// Reads a column with a time or NULL.
pub(crate) fn maybe_at(row: &Row, name: &str) -> Result<Option<Timestamp>, Unreadable> {
    Ok(column::<Option<i64>>(row, name)?.map(time))
}

/// Reads a column with text that was validated before it was stored.
pub(crate) fn parsed_column<T: FromStr>(row: &Row, name: &str) -> Result<T, Unreadable>
where
    T::Err: Error + Send + Sync + 'static,
{
    parsed(column(row, name)?)
}

/// Reads the columns of an attempt that people are shown: the start, the status, the fault and its detail.
pub(crate) fn last_attempt(row: &Row) -> Result<LastAttempt, Unreadable> {
    let status: Option<i64> = column(row, "status")?;
    Ok(LastAttempt {
        started_at: at(row, "started_at")?,
        status: status.map(u16::try_from).transpose().map_err(Unreadable::new)?,
        fault: column::<Option<&str>>(row, "fault")?.map(fault_of),
        detail: column::<Option<&str>>(row, "detail")?.map(Arc::from),
    })
}

/// Returns the fault with this name. A fault that only a newer version knows is shown as the most general one.
pub(crate) fn fault_of(name: &str) -> Fault {
    Fault::ALL.into_iter().find(|fault| fault.name() == name).unwrap_or(Fault::Protocol)
}

/// Converts the result of a query for one row. Returns [`Missing`](RecordsError::Missing) if there is no row, and
/// [`Unreadable`](RecordsError::Unreadable) if the row can't be read.
pub(crate) fn readable<T>(
    found: Option<Result<T, Unreadable>>,
    what: &'static str,
    name: impl ToString,
) -> Result<T, RecordsError> {
    match found {
        Some(Ok(found)) => Ok(found),
        None => Err(RecordsError::missing(what, name)),
        Some(Err(error)) => {
            let name = name.to_string();
            tracing::error!(what, name, %error, "can't read a stored row");
            Err(RecordsError::Unreadable { what, name })
        }
    }
}

/// Returns a row of a listing, or `None` if the row can't be read, so that the other rows are still listed.
pub(crate) fn listed<T>(row: Result<T, Unreadable>, what: &'static str, id: impl ToString) -> Option<T> {
    row.map_err(|error| {
        tracing::error!(what, id = id.to_string(), %error, "can't read a stored row; it is missing in a listing");
    })
    .ok()
}

/// Converts the error of a row that a listing can't do without.
pub(crate) fn unreadable(error: Unreadable) -> QueueError {
    QueueError::Database(Arc::new(error))
}
