//! API keys: who may do what. The key itself is shown once, when it is made, and only its hash is kept.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use breakerbox_core::Timestamp;
use sha2::{Digest, Sha256};

use super::{ApiKeyId, TenantId};

/// How a written key begins, so that people and scanners of repositories know it.
const PREFIX: &str = "bbx_";

/// The key itself: 32 random bytes. `Debug` hides it.
///
/// A plain SHA-256 is enough to keep of it: nobody guesses 256 random bits, however quickly they can be tried.
#[derive(Clone)]
pub struct ApiKeyText([u8; 32]);

impl ApiKeyText {
    /// A new one.
    #[must_use]
    pub fn random() -> Self {
        Self(rand::random())
    }

    /// As its holder writes it. Show it once, to its holder.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(self.0))
    }

    /// What is kept of it.
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

/// Why something is no API key. It is never repeated.
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

/// SHA-256 of a key. The key itself is nowhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyHash(pub [u8; 32]);

/// What is kept of a key.
#[derive(Clone, PartialEq, Debug)]
pub struct ApiKey {
    /// Its name; no secret.
    pub id: ApiKeyId,
    /// How it is known again.
    pub hash: KeyHash,
    /// For people.
    pub name: String,
    /// What it may do.
    pub scopes: Scopes,
    /// For whom; none: for all tenants.
    pub tenant: Option<TenantId>,
    /// When it was created.
    pub created_at: Timestamp,
    /// Until when it is good.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// One thing that a key may do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// Everything, policies, limits and keys included.
    Admin,
    /// Change endpoints, resend, override circuits.
    Manage,
    /// Look.
    Read,
    /// Submit events.
    Send,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Manage, Self::Read, Self::Send];

    /// Its name.
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

/// What a key may do. Admin includes the rest, manage includes read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// These.
    #[must_use]
    pub fn of(scopes: &[Scope]) -> Self {
        Self(scopes.iter().fold(0, |bits, scope| bits | 1 << *scope as u8))
    }

    /// Those of this number, as a database keeps it.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 0b1111)
    }

    /// The number.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Those that were given.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.0 & 1 << *scope as u8 != 0)
    }

    /// Whether they allow this.
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
