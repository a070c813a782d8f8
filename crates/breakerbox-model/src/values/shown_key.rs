//! A circuit's key as it appears in logs and notifications.
//!
//! The path of a URL may be a secret (a capability URL), and logs and chat rooms have many readers. So a key with a
//! URL is shown as its owner, the URL's origin and a fingerprint; `GET /v1/circuits` lists both the fingerprint and
//! the key.

use std::fmt;

use breakerbox_core::KeyId;

/// The number of fingerprint characters that are shown: enough to distinguish a tenant's circuits.
const FINGERPRINT: usize = 12;

/// A circuit's key without the secret parts of its URL: `acme https://hooks.example.com/... #3f2a9c1b8d02`.
///
/// Keys without a URL, for a host or a whole tenant, are shown unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShownKey<'k>(pub &'k str);

impl ShownKey<'_> {
    /// Returns whether the key contains a URL.
    #[must_use]
    pub fn has_url(&self) -> bool {
        self.0.contains("://")
    }

    /// Returns the destination that the circuit protects: the URL's origin and `/...`, or the host. `None` if the
    /// circuit is for a whole tenant.
    #[must_use]
    pub fn destination(&self) -> Option<String> {
        let (_, place) = self.0.split_once(' ')?;
        let Some((scheme, rest)) = place.split_once("://") else { return Some(place.to_owned()) };
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let path = if rest.len() > host.len() + 1 { "/..." } else { "" };
        Some(format!("{scheme}://{host}{path}"))
    }

    /// Returns the first characters of the key's hash, which identify the circuit.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut text = KeyId::of(self.0).to_string();
        text.truncate(FINGERPRINT);
        text
    }
}

impl fmt::Display for ShownKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.has_url() {
            return f.write_str(self.0);
        }
        let owner = self.0.split(' ').next().unwrap_or_default();
        write!(f, "{owner} {} #{}", self.destination().unwrap_or_default(), self.fingerprint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_url_no_more_than_its_origin_is_shown() {
        for (key, shown) in [
            ("acme", "acme"),
            ("acme/reminders", "acme/reminders"),
            ("acme hooks.example.com", "acme hooks.example.com"),
            ("acme https://hooks.example.com", "acme https://hooks.example.com #"),
            ("acme https://hooks.example.com/T0/s3cret", "acme https://hooks.example.com/... #"),
            ("acme/reminders http://[::1]:9/s3cret/x", "acme/reminders http://[::1]:9/... #"),
            ("acme https://a.example?s3cret", "acme https://a.example/... #"),
        ] {
            let text = ShownKey(key).to_string();
            assert!(!text.contains("s3cret"), "{text}");
            let (before, fingerprint) = text.split_at(shown.len());
            assert_eq!(before, shown);
            assert_eq!(fingerprint.len(), if shown.ends_with('#') { FINGERPRINT } else { 0 }, "{text}");
        }
        let of = |path: &str| ShownKey(&format!("acme https://a.example/{path}")).to_string();
        assert_ne!(of("x"), of("y"), "two circuits of one host are told apart");
    }
}
