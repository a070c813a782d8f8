//! The error for a request that was not sent, or was aborted.

use breakerbox_core::throttle::Shed;
use breakerbox_core::{Key, KeyError, Refusal};

use crate::probe_timeout::ProbeTimeout;
use crate::throttle::NotAdmitted;

/// The reason why a request was not sent, or was aborted. The client returns it as a
/// [`reqwest_middleware::Error::Middleware`]. Errors from requests that were sent are passed on unchanged.
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
    /// The throttle shed the request, so it was not sent. Do not retry at once.
    #[error("the throttle kept the request back")]
    Shed(#[source] Shed),
    /// The request has no valid key, so it was not sent.
    #[error("no key for this request")]
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
}

impl Error {
    /// Returns the circuit's or throttle's error that a client's error wraps; `None` if there is none.
    ///
    /// ```
    /// use breakerbox::KeyError;
    /// use breakerbox::reqwest::Error;
    ///
    /// let error = reqwest_middleware::Error::from(Error::Key(KeyError::NoHost));
    /// assert!(matches!(Error::find(&error), Some(Error::Key(KeyError::NoHost))));
    /// ```
    #[must_use]
    pub fn find(error: &reqwest_middleware::Error) -> Option<&Self> {
        match error {
            reqwest_middleware::Error::Middleware(error) => error.downcast_ref(),
            reqwest_middleware::Error::Reqwest(_) => None,
        }
    }
}

impl From<Error> for reqwest_middleware::Error {
    fn from(error: Error) -> Self {
        Self::middleware(error)
    }
}

impl From<NotAdmitted> for Error {
    fn from(why: NotAdmitted) -> Self {
        match why {
            NotAdmitted::Shed(shed) => Self::Shed(shed),
            NotAdmitted::Key(error) => Self::Key(error),
        }
    }
}
