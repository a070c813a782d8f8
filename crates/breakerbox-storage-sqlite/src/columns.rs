//! The conversion of values from and to columns, and errors that concern one row only.

use std::error::Error;
use std::str::FromStr;

use breakerbox_storage::stored::Unreadable;
pub(crate) use breakerbox_storage::stored::codes::*;
use rusqlite::types::Type;

/// Parses text that was validated before it was stored.
pub(crate) fn parsed<T: FromStr>(column: usize, text: &str) -> rusqlite::Result<T>
where
    T::Err: Error + Send + Sync + 'static,
{
    text.parse()
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

/// Returns whether the error concerns only the values of one row, which means that the database itself works.
pub(crate) fn is_unreadable(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::Utf8Error(..)
    )
}

/// Converts the error of a column whose text can't be decoded.
pub(crate) fn unreadable(column: usize) -> impl Fn(Unreadable) -> rusqlite::Error {
    move |error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}
