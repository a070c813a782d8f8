//! The stored form of values, for all backends: what is in a column, as a number or as JSON. It is the same in every
//! database, so that stored data can be moved from one to another row by row.
//!
//! | part | content |
//! | --- | --- |
//! | [`codes`] | numbers for times, states, reasons and priorities |
//! | [`settings`] | the settings of tenants and endpoints, with the secret parts sealed (encrypted) |
//! | [`reminder`] | the settings and the states of reminders |
//! | [`change`] | the changes of circuits |
//! | [`resend`] | the filters of resend jobs |
//! | [`LoadError`] | why the directory can't be loaded |
//! | [`Unreadable`] | a value that can't be decoded |

pub mod change;
pub mod codes;
pub mod reminder;
pub mod resend;
pub mod settings;
mod target;

use std::error::Error;

use crate::secrets::SecretsError;
use crate::{QueueError, RecordsError};

/// A stored value that can't be decoded: a newer version wrote it, or it is damaged. It concerns one row only.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Unreadable(Box<dyn Error + Send + Sync>);

impl Unreadable {
    /// Wraps the reason why a value can't be decoded.
    pub fn new(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(reason.into())
    }
}

/// Parses text that was validated before it was stored.
///
/// # Errors
/// Returns an error if the text is no longer valid.
pub fn parsed<T: std::str::FromStr>(text: &str) -> Result<T, Unreadable>
where
    T::Err: Error + Send + Sync + 'static,
{
    text.parse().map_err(|error: T::Err| Unreadable::new(error))
}

/// Why the records in a database can't be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A secret can't be decrypted.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// A column of a row can't be read.
    #[error(
        "the {column} of the {what} {name} can't be read; a newer version may have written it, or the file is damaged"
    )]
    Unreadable {
        /// The kind of object, as one word such as `tenant`.
        what: &'static str,
        /// The id or name of the object.
        name: String,
        /// The name of the column that can't be read.
        column: &'static str,
    },
    /// A row is inconsistent with other rows, for example a policy that is invalid in combination with the layers
    /// below it.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// The database failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
}
