//! The error of a service behind throttles.

use breakerbox_core::KeyError;
use breakerbox_core::throttle::Shed;

use crate::http::BoxError;
use crate::throttle::NotAdmitted;

/// The reason why there is no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request was not sent: the throttle shed it. Do not retry it at once.
    #[error("the throttle kept the request back")]
    Shed(#[source] Shed),
    /// The request was not sent: it has no valid key.
    #[error("no throttle for this request")]
    Key(#[source] KeyError),
    /// The inner service failed, or was not ready and never will be.
    #[error("the service behind the throttle failed")]
    Inner(#[source] BoxError),
}

impl Error {
    /// Returns the reason why the request was shed; none if it was not.
    #[must_use]
    pub const fn shed(&self) -> Option<&Shed> {
        match self {
            Self::Shed(shed) => Some(shed),
            Self::Key(_) | Self::Inner(_) => None,
        }
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
