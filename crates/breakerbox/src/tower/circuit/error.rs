//! The error that a service behind circuits returns.

use breakerbox_core::{Key, KeyError, Refusal};

use crate::http::BoxError;
use crate::probe_timeout::ProbeTimeout;

/// The reason why a circuit service returned no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The circuit refused the request, so it was not sent.
    #[error("{key}: refused ({})", .refusal.name())]
    Refused {
        /// The circuit's key.
        key: Key,
        /// The reason for the refusal, and when to acquire again.
        #[source]
        refusal: Refusal,
    },
    /// The request has no valid key, so it was not sent.
    #[error("no circuit for this request")]
    Key(#[source] KeyError),
    /// The request was a probe that exceeded its timeout, and was aborted.
    #[error("{key}: given up")]
    ProbeTimedOut {
        /// The circuit's key.
        key: Key,
        /// The timeout error, which is the source of this error.
        #[source]
        timeout: ProbeTimeout,
    },
    /// The inner service failed, or failed to become ready.
    #[error("the service behind the circuit failed")]
    Inner(#[source] BoxError),
}

impl Error {
    /// Returns the refusal if the circuit refused the request.
    #[must_use]
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal),
            Self::Key(_) | Self::ProbeTimedOut { .. } | Self::Inner(_) => None,
        }
    }
}
