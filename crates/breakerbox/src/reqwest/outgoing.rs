//! The extractors' input: a request that is about to be sent.

use breakerbox_core::throttle::Priority;
use breakerbox_core::{Key, KeyError};

use crate::extract::{ExtractKey, ExtractPriority};
use crate::http::{KeyFromUrl, PriorityFromExtension};

/// A request that is about to be sent, as the input for extractors.
///
/// ```
/// use breakerbox::reqwest::Outgoing;
/// use breakerbox::{ExtractKey, Key, KeyError};
///
/// let by_method = |outgoing: &Outgoing<'_>| Key::new(outgoing.request.method().as_str());
///
/// let request = reqwest::Request::new(http::Method::PUT, "https://api.example.com/orders/17".parse()?);
/// let extensions = http::Extensions::new();
/// let outgoing = Outgoing::new(&request, &extensions);
/// assert_eq!(by_method.key(&outgoing)?.text(), "PUT");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Outgoing<'a> {
    /// The request to be sent.
    pub request: &'a reqwest::Request,
    /// The request's extensions, such as its [`Tenant`](crate::http::Tenant).
    pub extensions: &'a http::Extensions,
}

impl<'a> Outgoing<'a> {
    /// Creates the extractors' input from a request and its extensions.
    #[must_use]
    pub const fn new(request: &'a reqwest::Request, extensions: &'a http::Extensions) -> Self {
        Self { request, extensions }
    }
}

impl ExtractKey<Outgoing<'_>> for KeyFromUrl {
    fn key(&self, outgoing: &Outgoing<'_>) -> Result<Key, KeyError> {
        self.of(outgoing.extensions, outgoing.request.url().as_str())
    }
}

impl ExtractPriority<Outgoing<'_>> for PriorityFromExtension {
    fn priority(&self, outgoing: &Outgoing<'_>) -> Option<Priority> {
        outgoing.extensions.get().copied()
    }
}
