//! Edits that are merged into the stored value.

use std::error::Error;

/// Computes the new value from the stored one. It runs in the transaction that writes the value, so two concurrent
/// edits of different fields both take effect, and neither has to be retried. It must be quick: the writer waits for
/// it.
pub type Edit<T, S> = Box<dyn FnOnce(&T) -> Result<S, Refused> + Send>;

/// The reason why an edit was refused, as the author of the edit states it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Refused(pub Box<dyn Error + Send + Sync>);
