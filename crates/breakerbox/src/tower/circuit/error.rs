//! Why there is no response.

use breakerbox_core::{Key, KeyError, Refusal};

use crate::http::BoxError;
use crate::probe_timeout::ProbeTimeout;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request was not sent: the circuit refused it.
    #[error("{key}: refused ({})", .refusal.name())]
    Refused {
        /// Whose circuit.
        key: Key,
        /// Why, and when to ask again.
        #[source]
        refusal: Refusal,
    },
    /// The request was not sent: no key can be made of it.
    #[error("no circuit for this request")]
    Key(#[source] KeyError),
    /// The request was a probe and was not answered in time. It was given up.
    #[error("{key}: given up")]
    ProbeTimedOut {
        /// Whose circuit.
        key: Key,
        /// Why.
        #[source]
        timeout: ProbeTimeout,
    },
    /// The service inside failed, or was not ready and never will be.
    #[error("the service behind the circuit failed")]
    Inner(#[source] BoxError),
}

impl Error {
    /// The refusal, if the circuit refused the request.
    #[must_use]
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal),
            Self::Key(_) | Self::ProbeTimedOut { .. } | Self::Inner(_) => None,
        }
    }
}
