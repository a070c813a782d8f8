//! Master keys: 32 random bytes that encrypt all other secrets.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The length of a key id, in bytes.
pub(super) const ID_LENGTH: usize = 8;

/// A master key. `Debug` shows only its id.
#[derive(Clone)]
pub struct MasterKey([u8; 32]);

impl MasterKey {
    /// Creates a random key.
    #[must_use]
    pub fn random() -> Self {
        Self(rand::random())
    }

    /// Parses a base64 key, or returns `None` if the string is not a key.
    #[must_use]
    pub fn from_base64(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.trim()).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// Returns the key in base64, as key files contain it. Never show it.
    #[must_use]
    pub fn reveal(&self) -> String {
        STANDARD.encode(self.0)
    }

    /// Returns the key's id. It is derived from the key, but does not reveal it.
    #[must_use]
    pub fn id(&self) -> KeyId {
        let digest = Sha256::new().chain_update(b"breakerbox master key").chain_update(self.0).finalize();
        KeyId(*digest.first_chunk().expect("SHA-256 has 32 bytes"))
    }

    pub(super) const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.id())
    }
}

/// The id of a master key, which is not secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId(pub [u8; ID_LENGTH]);

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
