//! The error of a service behind circuits.

use breakerbox_core::{Key, KeyError, Refusal};

use crate::http::BoxError;
use crate::probe_timeout::ProbeTimeout;

/// The reason why there is no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request was not sent: the circuit refused it.
    #[error("{key}: refused ({})", .refusal.name())]
    Refused {
        /// The key of the circuit.
        key: Key,
        /// The reason, and when to acquire again.
        #[source]
        refusal: Refusal,
    },
    /// The request was not sent: it has no valid key.
    #[error("no circuit for this request")]
    Key(#[source] KeyError),
    /// The request was a probe that exceeded its timeout. It was aborted.
    #[error("{key}: given up")]
    ProbeTimedOut {
        /// The key of the circuit.
        key: Key,
        /// The timeout, as the source of this error.
        #[source]
        timeout: ProbeTimeout,
    },
    /// The inner service failed, or was not ready and never will be.
    #[error("the service behind the circuit failed")]
    Inner(#[source] BoxError),
}

impl Error {
    /// Returns the refusal, if the circuit refused the request.
    #[must_use]
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal),
            Self::Key(_) | Self::ProbeTimedOut { .. } | Self::Inner(_) => None,
        }
    }
}
