//! The destination of requests. An endpoint's URL is parsed once, not for each request.
//!
//! The host is normalized by the WHATWG URL standard, so that `http://0x7f.1/` means 127.0.0.1 here and in all later
//! checks.

use std::net::IpAddr;
use std::str::FromStr;

use breakerbox_core::MAX_URL_LENGTH;
use http::Uri;
use url::{Host, Url};

/// A URL that requests can be sent to. It is cheap to clone.
///
/// ```
/// use breakerbox_model::delivery::Target;
///
/// let target: Target = "HTTP://0x7f.1:8080/in#part".parse()?;
/// assert_eq!(target.uri(), "http://127.0.0.1:8080/in");
/// assert!("ftp://example.com/".parse::<Target>().is_err());
/// # Ok::<(), breakerbox_model::delivery::TargetError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    uri: Uri,
    literal: Option<IpAddr>,
}

/// Why requests can't be sent to a URL. The error message never repeats the URL, which may contain secrets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The URL is too long: it has this many bytes.
    #[error("url: must be at most {MAX_URL_LENGTH} bytes, but is {0}")]
    TooLong(usize),
    /// The URL can't be parsed.
    #[error("url: {0}")]
    Url(url::ParseError),
    /// The URL has no scheme, such as `example.com/hook`.
    #[error("url: has no scheme; add https:// in front of it")]
    NoScheme,
    /// The scheme is neither `http` nor `https`.
    #[error("url: must begin with http:// or https://")]
    Scheme,
    /// The URL has no host.
    #[error("url: has no host")]
    NoHost,
    /// The URL has a user name or a password, which would end up in logs.
    #[error("url: must not contain a user name or password; send credentials in a header")]
    Userinfo,
    /// The port is 0, on which no server can listen.
    #[error("url: the port must not be 0")]
    Port,
    /// The URL contains characters that a request can't carry.
    #[error("url: has characters that a request can't carry; percent-encode them")]
    Characters,
}

impl Target {
    /// Creates a target from this URL. The fragment is removed, because it is never sent.
    ///
    /// # Errors
    /// Returns an error if requests can't be sent to the URL.
    pub fn new(url: &Url) -> Result<Self, TargetError> {
        if url.as_str().len() > MAX_URL_LENGTH {
            return Err(TargetError::TooLong(url.as_str().len()));
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(TargetError::Scheme);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(TargetError::Userinfo);
        }
        if url.port() == Some(0) {
            return Err(TargetError::Port);
        }
        let literal = match url.host() {
            None => return Err(TargetError::NoHost),
            Some(Host::Domain(_)) => None,
            Some(Host::Ipv4(address)) => Some(address.into()),
            Some(Host::Ipv6(address)) => Some(address.into()),
        };
        let end = url.as_str().find('#').unwrap_or(url.as_str().len());
        let uri: Uri = url.as_str()[..end].parse().map_err(|_| TargetError::Characters)?;
        // The connector uses `uri`, the address check `url`: they must agree.
        if uri.host() != url.host_str() || uri.port_u16() != url.port() {
            return Err(TargetError::Characters);
        }
        Ok(Self { uri, literal })
    }

    /// Returns the URI that requests are sent to.
    #[must_use]
    pub const fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Returns the IP address if the URL contains one instead of a host name.
    #[must_use]
    pub const fn literal(&self) -> Option<IpAddr> {
        self.literal
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        if text.len() > MAX_URL_LENGTH {
            return Err(TargetError::TooLong(text.len()));
        }
        let url = Url::parse(text).map_err(|error| match error {
            url::ParseError::EmptyHost => TargetError::NoHost,
            url::ParseError::RelativeUrlWithoutBase => TargetError::NoScheme,
            other => TargetError::Url(other),
        })?;
        Self::new(&url).map_err(|error| match (error, text.split_once(':')) {
            // The host in `localhost:8080` is parsed as a scheme.
            (TargetError::Scheme, Some((_, rest))) if rest.starts_with(|c: char| c.is_ascii_digit()) => {
                TargetError::NoScheme
            }
            (other, _) => other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_sent_to() {
        let table = [
            ("https://Hooks.Example.com:443/in?a=b#c", "https://hooks.example.com/in?a=b"),
            ("http://example.com", "http://example.com/"),
            ("http://[::1]:8080/x", "http://[::1]:8080/x"),
            ("https://BÜCHER.example/ü", "https://xn--bcher-kva.example/%C3%BC"),
            ("http://example.com/a|b[c]{d}^`", "http://example.com/a|b[c]%7Bd%7D^%60"),
            ("http://under_score.example/", "http://under_score.example/"),
        ];
        for (url, expected) in table {
            assert_eq!(url.parse::<Target>().unwrap().uri(), expected, "{url}");
        }
    }

    #[test]
    fn what_can_not() {
        let long = format!("http://example.com/{}", "a".repeat(MAX_URL_LENGTH));
        let table = [
            ("ftp://example.com/", TargetError::Scheme),
            ("file:///etc/passwd", TargetError::Scheme),
            ("gopher://127.0.0.1:6379/_x", TargetError::Scheme),
            ("http://", TargetError::NoHost),
            ("http://user@example.com/", TargetError::Userinfo),
            ("http://:secret@example.com/", TargetError::Userinfo),
            ("http://example.com:0/", TargetError::Port),
            ("example.com", TargetError::NoScheme),
            ("localhost:8080/in", TargetError::NoScheme),
            ("http://exa mple.com/", TargetError::Url(url::ParseError::IdnaError)),
            (&long, TargetError::TooLong(long.len())),
        ];
        for (url, error) in table {
            assert_eq!(url.parse::<Target>(), Err(error), "{url}");
        }
    }
}
