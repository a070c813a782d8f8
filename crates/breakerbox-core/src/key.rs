//! Keys: they identify circuits, and so determine which calls share one.
//!
//! The key of a tenant's destination begins with the tenant, so no tenant can trip another tenant's circuit. A key's
//! text is for people and for lookups within a process. Its id, the first 128 bits of the text's SHA-256, is for
//! stores. The id is computed on demand, because most keys are looked up and dropped.
//!
//! URLs that reach the same destination share a circuit: the case of scheme and host, the default port, a trailing
//! slash, the query and the fragment make no difference. The path's case does. The path is normalised by the URL
//! standard, as HTTP clients send it: `..` is resolved, and characters are percent-encoded where the standard
//! requires it.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;

use sha2::{Digest, Sha256};
use url::Url;

/// The scope of a circuit: an endpoint, a host or a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum CircuitBy {
    /// One circuit for each normalised URL of a tenant.
    #[default]
    Endpoint,
    /// One circuit for each of a tenant's hosts, for all its ports and paths.
    Host,
    /// One circuit for all of a tenant's destinations.
    Tenant,
}

/// The maximum length of a key's text, in bytes.
pub const MAX_KEY_LENGTH: usize = 1_024;

/// The maximum length of a URL, in bytes. A URL may be longer than a key, because a key does not contain the query.
pub const MAX_URL_LENGTH: usize = 8_192;

/// The identity of a circuit.
///
/// ```
/// use breakerbox_core::{CircuitBy, Key};
///
/// let one = Key::of("acme", "HTTPS://Hooks.Example.com:443/in/?retry=1", CircuitBy::Endpoint)?;
/// let other = Key::of("acme", "https://hooks.example.com/in", CircuitBy::Endpoint)?;
/// assert_eq!(one, other);
/// assert_eq!(one.text(), "acme https://hooks.example.com/in");
/// # Ok::<(), breakerbox_core::KeyError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    text: Box<str>,
}

/// The first 128 bits of the SHA-256 of a key's text, by which stores identify circuits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub [u8; 16]);

/// The reason why a string is not a valid key, tenant or URL. The error never includes the string, because a URL may
/// contain secrets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The key is empty.
    #[error("key: must not be empty")]
    Empty,
    /// The key is longer than [`MAX_KEY_LENGTH`].
    #[error("key: must be at most {MAX_KEY_LENGTH} bytes, but is {length}")]
    TooLong {
        /// The key's length, in bytes.
        length: usize,
    },
    /// The tenant's name is empty.
    #[error("tenant: must not be empty")]
    TenantEmpty,
    /// The request has no tenant, and no default tenant is configured.
    #[error(
        "tenant: the request carries none; give it a `Tenant` as an extension, or name the tenant of all such requests \
         with `KeyFromUrl::or_tenant`"
    )]
    NoTenant,
    /// The tenant contains white space or control characters. A tenant with spaces could imitate another tenant's key.
    #[error("tenant: must not contain white space or control characters")]
    TenantCharacter,
    /// The URL is longer than [`MAX_URL_LENGTH`].
    #[error("url: must be at most {MAX_URL_LENGTH} bytes, but is {length}")]
    UrlTooLong {
        /// The URL's length, in bytes.
        length: usize,
    },
    /// The URL cannot be parsed.
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
    /// The URL contains a user name or password, which would end up in logs.
    #[error("url: must not contain a user name or password; send credentials in a header")]
    Userinfo,
}

impl Key {
    /// Creates a key from a string of the caller's choice.
    ///
    /// # Errors
    /// If the string is empty or longer than [`MAX_KEY_LENGTH`].
    pub fn new(text: &str) -> Result<Self, KeyError> {
        if text.is_empty() {
            return Err(KeyError::Empty);
        }
        if text.len() > MAX_KEY_LENGTH {
            return Err(KeyError::TooLong { length: text.len() });
        }
        Ok(Self { text: text.into() })
    }

    /// Creates the key for a tenant's destination.
    ///
    /// # Errors
    /// If the tenant or the URL is not valid. The URL is always checked, even if the key does not contain it.
    pub fn of(tenant: &str, url: &str, by: CircuitBy) -> Result<Self, KeyError> {
        let url = destination(url)?;
        match by {
            CircuitBy::Endpoint => Self::below(tenant, &normalised(&url)?),
            CircuitBy::Host => Self::below(tenant, url.host_str().ok_or(KeyError::NoHost)?),
            CircuitBy::Tenant => Self::of_tenant(tenant),
        }
    }

    /// Creates the key for a whole tenant.
    ///
    /// # Errors
    /// If the tenant is not valid in a key.
    pub fn of_tenant(tenant: &str) -> Result<Self, KeyError> {
        check_tenant(tenant)?;
        Self::new(tenant)
    }

    /// Returns the key's text, for example for logs and reports.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the short, fixed-length id by which stores identify the circuit. Each call computes the id anew, so keep
    /// the result if you need it often.
    #[must_use]
    pub fn id(&self) -> KeyId {
        KeyId::of(&self.text)
    }

    /// Creates the key `<tenant> <rest>`. The first space always ends the tenant, because tenants, normalised URLs and
    /// hosts contain no spaces.
    fn below(tenant: &str, rest: &str) -> Result<Self, KeyError> {
        check_tenant(tenant)?;
        Self::new(&format!("{tenant} {rest}"))
    }
}

fn check_tenant(tenant: &str) -> Result<(), KeyError> {
    if tenant.is_empty() {
        return Err(KeyError::TenantEmpty);
    }
    if tenant.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(KeyError::TenantCharacter);
    }
    Ok(())
}

/// Parses a URL, and checks its length, scheme, host and the absence of user information.
fn destination(text: &str) -> Result<Url, KeyError> {
    if text.len() > MAX_URL_LENGTH {
        return Err(KeyError::UrlTooLong { length: text.len() });
    }
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::EmptyHost => KeyError::NoHost,
        url::ParseError::RelativeUrlWithoutBase => KeyError::NoScheme,
        other => KeyError::Url(other),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        // The host in `localhost:8080` is parsed as a scheme.
        let has_port =
            text.split_once(':').is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
        return Err(if has_port { KeyError::NoScheme } else { KeyError::Scheme });
    }
    if has_userinfo(text) {
        return Err(KeyError::Userinfo);
    }
    if !url.has_host() {
        return Err(KeyError::NoHost);
    }
    Ok(url)
}

/// Whether the URL has an `@` before its path. This includes an empty user name, which the parser would drop silently.
fn has_userinfo(url: &str) -> bool {
    let after_scheme = url.split_once(':').map_or("", |(_, rest)| rest);
    let authority = after_scheme.trim_start_matches(|c: char| c == '/' || c == '\\' || c.is_whitespace());
    authority.split(['/', '\\', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

/// Returns the URL's scheme, host, non-default port, and path without one trailing slash. The parser has already
/// lower-cased the scheme and the host, and dropped a default port.
fn normalised(url: &Url) -> Result<String, KeyError> {
    let scheme = url.scheme();
    let host = url.host_str().ok_or(KeyError::NoHost)?;
    let path = url.path().strip_suffix('/').unwrap_or(url.path());
    Ok(match url.port() {
        Some(port) => format!("{scheme}://{host}:{port}{path}"),
        None => format!("{scheme}://{host}{path}"),
    })
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?})", self.text)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl KeyId {
    /// Returns the id of the key with this text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let digest = Sha256::digest(text.as_bytes());
        Self(*digest.first_chunk().expect("SHA-256 has 32 bytes"))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn text(url: &str) -> Result<String, KeyError> {
        Key::of("t", url, CircuitBy::Endpoint).map(|key| key.text().to_string())
    }

    #[test]
    fn urls_that_reach_the_same_place_are_one_circuit() {
        let table = [
            ("HTTPS://Hooks.Example.com:443/in/?retry=1", "t https://hooks.example.com/in"),
            ("https://hooks.example.com/in#part", "t https://hooks.example.com/in"),
            ("http://example.com", "t http://example.com"),
            ("http://example.com:80/", "t http://example.com"),
            ("http://example.com:443/", "t http://example.com:443"),
            ("https://example.com/In", "t https://example.com/In"),
            ("https://example.com/users/@me", "t https://example.com/users/@me"),
            ("https://example.com/a/../b c", "t https://example.com/b%20c"),
            ("https://example.com/a//", "t https://example.com/a/"),
            ("https://example.com/a%2Fb", "t https://example.com/a%2Fb"),
            ("https://BÜCHER.example/", "t https://xn--bcher-kva.example"),
            ("https://[::1]:8443/x", "t https://[::1]:8443/x"),
        ];
        for (url, expected) in table {
            assert_eq!(text(url).as_deref(), Ok(expected), "{url}");
        }
    }

    #[test]
    fn what_is_no_destination_is_refused() {
        let long = format!("https://example.com/{}", "x".repeat(2_000));
        let huge = "x".repeat(10_000_000);
        let table = [
            ("https://user@example.com/", KeyError::Userinfo),
            ("https://user:secret@example.com/", KeyError::Userinfo),
            ("https://:secret@example.com/", KeyError::Userinfo),
            ("https://@example.com/", KeyError::Userinfo),
            ("https:\\\\:@example.com\\in", KeyError::Userinfo),
            ("ftp://example.com/", KeyError::Scheme),
            ("mailto:someone@example.com", KeyError::Scheme),
            ("https://", KeyError::NoHost),
            ("https:///", KeyError::NoHost),
            ("/in", KeyError::NoScheme),
            ("", KeyError::NoScheme),
            ("example.com/hook", KeyError::NoScheme),
            ("localhost:8080/hook", KeyError::NoScheme),
            ("https://example.com:99999/", KeyError::Url(url::ParseError::InvalidPort)),
            (&long, KeyError::TooLong { length: 2_022 }),
            (&huge, KeyError::UrlTooLong { length: 10_000_000 }),
        ];
        for (url, error) in table {
            assert_eq!(text(url), Err(error), "{}", url.get(..40).unwrap_or(url));
        }
    }

    #[test]
    fn a_long_query_does_not_matter() {
        let url = format!("https://example.com/in?{}", "q".repeat(4_000));
        assert_eq!(text(&url).as_deref(), Ok("t https://example.com/in"));
    }

    #[test]
    fn the_tenant_is_part_of_every_key() {
        let url = "https://example.com/in";
        for by in [CircuitBy::Endpoint, CircuitBy::Host, CircuitBy::Tenant] {
            let (a, b) = (Key::of("a", url, by).unwrap(), Key::of("b", url, by).unwrap());
            assert_ne!(a.id(), b.id(), "{by:?}");
        }
    }

    #[test]
    fn no_tenant_can_pass_for_another() {
        for tenant in ["a https://example.com", "a\n", "a\u{0}", "a\u{a0}b"] {
            let key = Key::of(tenant, "https://example.com/in", CircuitBy::Host);
            assert_eq!(key, Err(KeyError::TenantCharacter), "{tenant:?}");
        }
        assert_eq!(Key::of_tenant(""), Err(KeyError::TenantEmpty));
        let huge = "x".repeat(10_000_000);
        assert_eq!(Key::of_tenant(&huge), Err(KeyError::TooLong { length: 10_000_000 }));
    }

    #[test]
    fn by_host_and_by_tenant() {
        let key = |url, by| Key::of("t", url, by).unwrap().text().to_string();
        assert_eq!(key("https://A.example:8443/in", CircuitBy::Host), "t a.example");
        assert_eq!(key("http://a.example/out", CircuitBy::Host), "t a.example");
        assert_eq!(key("http://a.example/out", CircuitBy::Tenant), "t");
        let refused = Key::of("t", "ftp://a.example", CircuitBy::Tenant);
        assert_eq!(refused, Err(KeyError::Scheme), "a bad URL is refused whatever the circuit is by");
    }

    #[test]
    fn keys_of_ones_own_have_bounds_too() {
        assert_eq!(Key::new(""), Err(KeyError::Empty));
        assert!(Key::new(&"k".repeat(1_024)).is_ok());
        assert_eq!(Key::new(&"k".repeat(1_025)), Err(KeyError::TooLong { length: 1_025 }));
    }

    #[test]
    fn the_id_is_the_first_half_of_sha_256() {
        // The output of `printf abc | sha256sum`.
        let id = Key::new("abc").unwrap().id();
        assert_eq!(id.to_string(), "ba7816bf8f01cfea414140de5dae2223");
    }

    #[test]
    fn a_key_is_its_text_and_no_more() {
        // Every request through a layer creates a key, and none of them needs the id.
        assert_eq!(size_of::<Key>(), size_of::<Box<str>>());
    }

    #[test]
    fn errors_do_not_repeat_secrets() {
        let error = text("https://user:hunter2@example.com/").unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }
}
