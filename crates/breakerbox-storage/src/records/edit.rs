//! Edits that are applied to the stored value within a transaction.

use std::error::Error;

/// A function that computes the new value from the stored one. It runs in the transaction that writes the
/// value, so two concurrent edits of different fields both take effect without retries. It must be fast,
/// because it blocks the writer.
pub type Edit<T, S> = Box<dyn FnOnce(&T) -> Result<S, Refused> + Send>;

/// The error with which an [`Edit`] rejected the stored value.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Refused(pub Box<dyn Error + Send + Sync>);
