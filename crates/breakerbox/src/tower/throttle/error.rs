//! The error that a service behind throttles returns.

use breakerbox_core::KeyError;
use breakerbox_core::throttle::Shed;

use crate::http::BoxError;
use crate::throttle::NotAdmitted;

/// The reason why a throttle service returned no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The throttle shed the request, so it was not sent. Do not retry at once.
    #[error("the throttle kept the request back")]
    Shed(#[source] Shed),
    /// The request has no valid key, so it was not sent.
    #[error("no throttle for this request")]
    Key(#[source] KeyError),
    /// The inner service failed, or failed to become ready.
    #[error("the service behind the throttle failed")]
    Inner(#[source] BoxError),
}

impl Error {
    /// Returns the reason why the request was shed; `None` if it was not shed.
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
