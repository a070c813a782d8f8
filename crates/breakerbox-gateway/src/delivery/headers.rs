//! Headers that an endpoint's owner may set.

/// Headers sent with each request of an endpoint.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CustomHeaders(Vec<(http::HeaderName, http::HeaderValue)>);

/// Why a header is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The gateway sets it, or HTTP does.
    #[error("headers.{name}: can't be set; it belongs to the gateway or to HTTP itself")]
    Reserved {
        /// Which.
        name: String,
    },
}

impl CustomHeaders {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &(http::HeaderName, http::HeaderValue)> {
        self.0.iter()
    }
}
