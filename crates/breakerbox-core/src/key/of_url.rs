//! Keys from URLs, by the rules of the [parent module](super). Needs the feature `url`.

use alloc::format;
use alloc::string::String;

use url::Url;

use super::{CircuitBy, Key, KeyError, MAX_URL_LENGTH, check_tenant};

impl Key {
    /// Creates the key for a tenant's destination. For a service without tenants, see [`of_url`](Self::of_url).
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

    /// Creates the key for a destination, for a service whose calls belong to no tenant. Do not mix these keys with
    /// keys of tenants in one registry: a tenant may have the name of a host.
    ///
    /// ```
    /// use breakerbox_core::{CircuitBy, Key};
    ///
    /// let url = "https://API.Example.com:443/orders?page=2";
    /// assert_eq!(Key::of_url(url, CircuitBy::Host)?.text(), "api.example.com");
    /// assert_eq!(Key::of_url(url, CircuitBy::Endpoint)?.text(), "https://api.example.com/orders");
    /// # Ok::<(), breakerbox_core::KeyError>(())
    /// ```
    ///
    /// # Errors
    /// If the URL is not valid, and with [`CircuitBy::Tenant`].
    pub fn of_url(url: &str, by: CircuitBy) -> Result<Self, KeyError> {
        let url = destination(url)?;
        match by {
            CircuitBy::Endpoint => Self::new(&normalised(&url)?),
            CircuitBy::Host => Self::new(url.host_str().ok_or(KeyError::NoHost)?),
            CircuitBy::Tenant => Err(KeyError::NoTenant),
        }
    }

    /// Creates the key `<tenant> <rest>`. The first space always ends the tenant, because tenants, normalised URLs and
    /// hosts contain no spaces.
    fn below(tenant: &str, rest: &str) -> Result<Self, KeyError> {
        check_tenant(tenant)?;
        Self::new(&format!("{tenant} {rest}"))
    }
}

/// Parses a URL, and checks its length, scheme, host and the absence of user information.
fn destination(text: &str) -> Result<Url, KeyError> {
    if text.len() > MAX_URL_LENGTH {
        return Err(KeyError::UrlTooLong { length: text.len() });
    }
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::EmptyHost => KeyError::NoHost,
        url::ParseError::RelativeUrlWithoutBase => KeyError::NoScheme,
        other => KeyError::Url { reason: reason(other) },
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

/// Returns the parser's message as a fixed text, so that the error is not tied to the parser.
const fn reason(error: url::ParseError) -> &'static str {
    match error {
        url::ParseError::InvalidPort => "invalid port number",
        url::ParseError::IdnaError => "invalid international domain name",
        url::ParseError::InvalidIpv4Address => "invalid IPv4 address",
        url::ParseError::InvalidIpv6Address => "invalid IPv6 address",
        url::ParseError::InvalidDomainCharacter => "invalid domain character",
        url::ParseError::Overflow => "too long",
        _ => "is not a URL",
    }
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
            ("https://example.com:99999/", KeyError::Url { reason: "invalid port number" }),
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
    fn a_key_without_a_tenant_is_the_url_or_its_host() {
        let key = |url, by| Key::of_url(url, by).map(|key| key.text().to_string());
        let url = "HTTPS://Hooks.Example.com:443/in/?retry=1";
        assert_eq!(key(url, CircuitBy::Endpoint).as_deref(), Ok("https://hooks.example.com/in"));
        assert_eq!(key(url, CircuitBy::Host).as_deref(), Ok("hooks.example.com"));
        assert_eq!(key(url, CircuitBy::Tenant), Err(KeyError::NoTenant));
        assert_eq!(key("ftp://a.example", CircuitBy::Host), Err(KeyError::Scheme));
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
    fn errors_do_not_repeat_secrets() {
        let error = text("https://user:hunter2@example.com/").unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }
}
