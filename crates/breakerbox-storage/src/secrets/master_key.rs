//! Master keys: 32 random bytes that seal the rest.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// How many bytes an id has.
pub(super) const ID_LENGTH: usize = 8;

/// A master key. `Debug` shows its id only.
#[derive(Clone)]
pub struct MasterKey([u8; 32]);

impl MasterKey {
    /// A new one.
    #[must_use]
    pub fn random() -> Self {
        Self(rand::random())
    }

    /// The key that is written so; none if that is no key.
    #[must_use]
    pub fn from_base64(text: &str) -> Option<Self> {
        let bytes = STANDARD.decode(text.trim()).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// As it is written into a key file. Show it to nobody.
    #[must_use]
    pub fn reveal(&self) -> String {
        STANDARD.encode(self.0)
    }

    /// Its name, which follows from it and gives nothing away.
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

/// Names a master key.
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
