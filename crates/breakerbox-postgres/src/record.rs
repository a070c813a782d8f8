//! Records, keys and tokens as the tables have them.

use std::sync::Arc;

use breakerbox::Record;
use breakerbox::store::{Readable, StoreError, Unreadable};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::{unavailable, whole};

/// The longest key, in bytes. An index can't hold a much longer one.
pub(crate) const MAX_KEY_LENGTH: usize = 2_048;

/// A key that the tables can hold.
pub(crate) fn key(key: &str) -> Result<&[u8], StoreError> {
    if key.len() > MAX_KEY_LENGTH {
        return Err(unavailable(format!(
            "key: must be at most {MAX_KEY_LENGTH} bytes, but is {}",
            key.len()
        )));
    }
    Ok(key.as_bytes())
}

/// A key that comes back.
pub(crate) fn read_key(bytes: Vec<u8>) -> Result<Arc<str>, StoreError> {
    let unreadable = |error: std::string::FromUtf8Error| Unreadable {
        key: String::from_utf8_lossy(error.as_bytes()).into_owned(),
        reason: "its key is not text".to_owned(),
    };
    Ok(String::from_utf8(bytes).map(Into::into).map_err(unreadable)?)
}

/// The written form of a record.
pub(crate) fn write(key: &str, record: &Record) -> Result<Vec<u8>, StoreError> {
    let unreadable = |error: serde_json::Error| Unreadable { key: key.to_owned(), reason: error.to_string() };
    Ok(serde_json::to_vec(record).map_err(unreadable)?)
}

/// A record from its written form.
pub(crate) fn read(key: &str, text: Option<&[u8]>) -> Readable<Option<Record>> {
    let unreadable = |error: serde_json::Error| Unreadable { key: key.to_owned(), reason: error.to_string() };
    text.map(serde_json::from_slice).transpose().map_err(unreadable)
}

/// A column of an answer.
pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, StoreError> {
    row.try_get(name).map_err(|error| unavailable(whole(&error)))
}
