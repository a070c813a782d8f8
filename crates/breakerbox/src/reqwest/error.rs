//! Why a request was not sent, or was given up.

use breakerbox_core::throttle::Shed;
use breakerbox_core::{Key, KeyError, Refusal};

use crate::probe_timeout::ProbeTimeout;
use crate::throttle::NotLetThrough;

/// Why a request was not sent, or was given up. It comes inside of a
/// [`reqwest_middleware::Error::Middleware`]; errors of requests that were sent are handed on as they are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It was not sent: the circuit refused it.
    #[error("{key}: refused ({})", .refusal.name())]
    Refused {
        /// Whose circuit.
        key: Key,
        /// Why, and when to ask again.
        #[source]
        refusal: Refusal,
    },
    /// It was not sent: the throttle shed it. It should not be retried at once.
    #[error("the throttle kept the request back")]
    Shed(#[source] Shed),
    /// It was not sent: no key can be made of it.
    #[error("no key for this request")]
    Key(#[source] KeyError),
    /// It was a probe and was not answered in time. It was given up.
    #[error("{key}: given up")]
    ProbeTimedOut {
        /// Whose circuit.
        key: Key,
        /// Why.
        #[source]
        timeout: ProbeTimeout,
    },
}

impl Error {
    /// The error of a circuit or a throttle that a client's error is made of, if it is one.
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

impl From<NotLetThrough> for Error {
    fn from(why: NotLetThrough) -> Self {
        match why {
            NotLetThrough::Shed(shed) => Self::Shed(shed),
            NotLetThrough::Key(error) => Self::Key(error),
        }
    }
}
