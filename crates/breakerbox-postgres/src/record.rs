//! Converts records, keys and tokens to and from the table columns.

use std::sync::Arc;

use breakerbox::Record;
use breakerbox::store::{Readable, StoreError, Unreadable};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::{unavailable, whole};

/// The maximum length of a key, in bytes. A Postgres index can't contain much longer keys.
pub(crate) const MAX_KEY_LENGTH: usize = 2_048;

/// Converts a key to bytes. Returns an error if the key is too long for the tables.
pub(crate) fn key(key: &str) -> Result<&[u8], StoreError> {
    if key.len() > MAX_KEY_LENGTH {
        return Err(unavailable(format!(
            "key: must be at most {MAX_KEY_LENGTH} bytes, but is {}",
            key.len()
        )));
    }
    Ok(key.as_bytes())
}

/// Converts a key from bytes. Returns an error if the key is not UTF-8.
pub(crate) fn read_key(bytes: Vec<u8>) -> Result<Arc<str>, StoreError> {
    let unreadable = |error: std::string::FromUtf8Error| Unreadable {
        key: String::from_utf8_lossy(error.as_bytes()).into_owned(),
        reason: "its key is not text".to_owned(),
    };
    Ok(String::from_utf8(bytes).map(Into::into).map_err(unreadable)?)
}

/// Encodes a record as JSON.
pub(crate) fn write(key: &str, record: &Record) -> Result<Vec<u8>, StoreError> {
    let unreadable = |error: serde_json::Error| Unreadable { key: key.to_owned(), reason: error.to_string() };
    Ok(serde_json::to_vec(record).map_err(unreadable)?)
}

/// Decodes a record; `None` if the circuit has no record.
pub(crate) fn read(key: &str, text: Option<&[u8]>) -> Readable<Option<Record>> {
    let unreadable = |error: serde_json::Error| Unreadable { key: key.to_owned(), reason: error.to_string() };
    text.map(serde_json::from_slice).transpose().map_err(unreadable)
}

/// Returns the value of a row's column, or an error if the value does not have this type.
pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, StoreError> {
    row.try_get(name).map_err(|error| unavailable(whole(&error)))
}
