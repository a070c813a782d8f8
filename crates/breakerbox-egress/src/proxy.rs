//! The proxy for all outgoing requests, if the operator configures one.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use url::Url;

/// A proxy that supports CONNECT, such as `http://user:password@proxy.internal:3128`.
///
/// ```
/// use breakerbox_egress::Proxy;
///
/// let proxy: Proxy = "http://me:secret@proxy.internal:3128".parse()?;
/// assert_eq!(proxy.to_string(), "http://proxy.internal:3128/", "without the password");
/// # Ok::<(), breakerbox_egress::ProxyError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proxy {
    uri: Uri,
    /// The value of the `Proxy-Authorization` header. `Debug` hides it.
    credentials: Option<HeaderValue>,
}

/// The error for an invalid proxy URL. It does not contain the URL, which may include a password.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "proxy: must be a URL such as http://proxy.internal:3128, with or without user:password@ before the host"
)]
pub struct ProxyError;

impl Proxy {
    /// Creates a proxy from its URL, which may include a user and a password.
    ///
    /// # Errors
    /// Returns an error if the scheme is not `http`, or the URL has a path or a query.
    pub fn new(url: &Url) -> Result<Self, ProxyError> {
        let host = url.host_str().ok_or(ProxyError)?;
        if url.scheme() != "http" || !matches!(url.path(), "" | "/") || url.query().is_some() {
            return Err(ProxyError);
        }
        let port = url.port().unwrap_or(80);
        let uri = format!("http://{host}:{port}/").parse().map_err(|_| ProxyError)?;
        let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
        let credentials = if url.username().is_empty() && url.password().is_none() {
            None
        } else {
            let pair = [decoded(url.username()), decoded(url.password().unwrap_or_default())].join(&b':');
            let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))
                .expect("base64 is fit for a header");
            value.set_sensitive(true);
            Some(value)
        };
        Ok(Self { uri, credentials })
    }

    pub(super) const fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(super) const fn credentials(&self) -> Option<&HeaderValue> {
        self.credentials.as_ref()
    }
}

impl FromStr for Proxy {
    type Err = ProxyError;

    fn from_str(text: &str) -> Result<Self, ProxyError> {
        Self::new(&Url::parse(text).map_err(|_| ProxyError)?)
    }
}

/// Formats the URL without the credentials.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_kept_apart_and_hidden() {
        let proxy: Proxy = "http://me:s%40cret@Proxy.internal".parse().unwrap();
        assert_eq!(proxy.uri(), "http://proxy.internal:80/");
        assert_eq!(proxy.credentials().unwrap(), &format!("Basic {}", STANDARD.encode("me:s@cret")));
        assert!(!format!("{proxy:?} {proxy}").contains("cret"));
        assert_eq!("http://[::1]:3128".parse::<Proxy>().unwrap().credentials(), None);
    }

    #[test]
    fn what_is_no_proxy_is_refused() {
        for text in
            ["", "proxy:3128", "https://proxy:3128", "socks5://proxy", "http://", "http://p/x", "http://p?x"]
        {
            assert_eq!(text.parse::<Proxy>(), Err(ProxyError), "{text}");
        }
    }
}
