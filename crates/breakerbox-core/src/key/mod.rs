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

#[cfg(feature = "url")]
mod of_url;

use alloc::boxed::Box;
use core::fmt;

use sha2::{Digest, Sha256};

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
    /// The key needs a tenant, and the request carries none.
    #[error(
        "tenant: the request carries none; give it a `Tenant` as an extension, or set one with `or_tenant`"
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
    #[error("url: {reason}")]
    Url {
        /// What is wrong with the URL.
        reason: &'static str,
    },
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
}
