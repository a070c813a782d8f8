//! API keys and their scopes. A key is shown once, when it is created; only its hash is stored.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use breakerbox_core::Timestamp;
use sha2::{Digest, Sha256};

use super::{ApiKeyId, TenantId};

/// The prefix of every API key, so that people and secret scanners recognize it.
const PREFIX: &str = "bbx_";

/// An API key in clear text: 32 random bytes. `Debug` hides it.
///
/// A plain SHA-256 is enough for storage: 256 random bits can't be guessed, even though the hash is fast.
#[derive(Clone)]
pub struct ApiKeyText([u8; 32]);

impl ApiKeyText {
    /// Creates a random key.
    #[must_use]
    pub fn random() -> Self {
        Self(rand::random())
    }

    /// Returns the key as the string that clients send. Show it once, to its holder only.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(self.0))
    }

    /// Returns the key's hash, which is stored instead of the key.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256::digest(self.0).into())
    }
}

impl fmt::Debug for ApiKeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKeyText(hidden)")
    }
}

/// The string is not an API key. The error message never repeats the string.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be `{PREFIX}` and 43 characters of a-z, A-Z, 0-9, `-` and `_`")]
pub struct ApiKeyTextError;

impl FromStr for ApiKeyText {
    type Err = ApiKeyTextError;

    fn from_str(text: &str) -> Result<Self, ApiKeyTextError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(ApiKeyTextError)?;
        let mut bytes = [0; 32];
        match URL_SAFE_NO_PAD.decode_slice(encoded, &mut bytes) {
            Ok(32) => Ok(Self(bytes)),
            _ => Err(ApiKeyTextError),
        }
    }
}

/// The SHA-256 hash of an API key. The key itself is not stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyHash(pub [u8; 32]);

/// An API key as it is stored, without its secret.
#[derive(Clone, PartialEq, Debug)]
pub struct ApiKey {
    /// The key's id, `key_...`. It is not secret.
    pub id: ApiKeyId,
    /// The SHA-256 hash of the key. The hash of a key that a client sends is compared with it.
    pub hash: KeyHash,
    /// A human-readable description, set by the key's creator.
    pub name: String,
    /// The operations that the key allows.
    pub scopes: Scopes,
    /// The tenant that the key is bound to. `None`: the key may act for all tenants.
    pub tenant: Option<TenantId>,
    /// When the key was created.
    pub created_at: Timestamp,
    /// When the key expires. `None`: it never expires.
    pub expires_at: Option<Timestamp>,
    /// When the key was revoked. `None`: it is not revoked.
    pub revoked_at: Option<Timestamp>,
}

/// A permission that an API key grants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// Allows all operations, including changes to policies, limits and API keys.
    Admin,
    /// Allows changes to endpoints, resends of deliveries and overrides of circuits.
    Manage,
    /// Allows all read operations, but no changes.
    Read,
    /// Allows submitting events.
    Send,
}

impl Scope {
    /// All scopes, in alphabetical order.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Manage, Self::Read, Self::Send];

    /// Returns the scope's name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Manage => "manage",
            Self::Read => "read",
            Self::Send => "send",
        }
    }
}

/// A key's set of scopes. `Admin` includes all others, and `Manage` includes `Read`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// Creates a set with these scopes.
    #[must_use]
    pub fn of(scopes: &[Scope]) -> Self {
        Self(scopes.iter().fold(0, |bits, scope| bits | 1 << *scope as u8))
    }

    /// Creates a set from its bits in the database.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0b1111)
    }

    /// Returns the set as bits, for storage in the database.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Iterates over the scopes that were granted explicitly, without the implied ones.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & 1 << *scope as u8 != 0)
    }

    /// Returns whether the set allows this scope, either granted or implied.
    #[must_use]
    pub fn allow(self, wanted: Scope) -> bool {
        self.iter().any(|scope| {
            scope == wanted || scope == Scope::Admin || (scope == Scope::Manage && wanted == Scope::Read)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back_and_hide() {
        let key = ApiKeyText::random();
        let text = key.reveal();
        assert_eq!((text.len(), &text[..4]), (47, "bbx_"));
        assert_eq!(text.parse::<ApiKeyText>().unwrap().hash(), key.hash());
        assert_ne!(ApiKeyText::random().hash(), key.hash());
        assert!(!format!("{key:?}").contains(&text[4..]));
        for wrong in ["", "bbx_", &text[4..], &text[..46], &format!("{text}A"), &text.replace("bbx_", "bbx-")]
        {
            assert_eq!(wrong.parse::<ApiKeyText>().err(), Some(ApiKeyTextError), "{wrong}");
        }
    }

    #[test]
    fn admin_includes_all_and_manage_includes_read() {
        use Scope::{Admin, Manage, Read, Send};
        for (given, allowed) in [
            (&[Admin][..], &[Admin, Manage, Read, Send][..]),
            (&[Manage], &[Manage, Read]),
            (&[Read, Send], &[Read, Send]),
            (&[], &[]),
        ] {
            let scopes = Scopes::of(given);
            for wanted in Scope::ALL {
                assert_eq!(scopes.allow(wanted), allowed.contains(&wanted), "{given:?} {wanted:?}");
            }
            assert_eq!(Scopes::from_bits(scopes.bits()), scopes);
            assert_eq!(scopes.iter().collect::<Vec<_>>(), given);
        }
    }
}
