//! Changes that are merged into what is stored.

use std::error::Error;

/// Makes the new value from the stored one. It runs in the transaction that writes the value, so two edits of different fields
/// that come at once both hold, and neither has to be tried again. It must be quick: the writer waits for it.
pub type Edit<T, S> = Box<dyn FnOnce(&T) -> Result<S, Refused> + Send>;

/// The reason why an edit was refused, as the author of the edit states it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Refused(pub Box<dyn Error + Send + Sync>);
