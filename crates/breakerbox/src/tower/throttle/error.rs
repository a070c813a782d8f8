//! Why there is no response.

use breakerbox_core::KeyError;
use breakerbox_core::throttle::Shed;

use crate::http::BoxError;
use crate::throttle::NotLetThrough;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request was not sent: the throttle shed it. It should not be retried at once.
    #[error("the throttle kept the request back")]
    Shed(#[source] Shed),
    /// The request was not sent: no key can be made of it.
    #[error("no throttle for this request")]
    Key(#[source] KeyError),
    /// The service inside failed, or was not ready and never will be.
    #[error("the service behind the throttle failed")]
    Inner(#[source] BoxError),
}

impl Error {
    /// Why the request was shed, if it was.
    #[must_use]
    pub const fn shed(&self) -> Option<&Shed> {
        match self {
            Self::Shed(shed) => Some(shed),
            Self::Key(_) | Self::Inner(_) => None,
        }
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
