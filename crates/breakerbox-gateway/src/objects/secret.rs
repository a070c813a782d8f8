//! Signing secrets. They are never shown by accident: `Debug` hides them.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// How a written secret begins, by Standard Webhooks.
const PREFIX: &str = "whsec_";

/// A signing secret: 24 to 64 bytes, as Standard Webhooks asks.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// A secret of these bytes.
    ///
    /// # Errors
    /// If they are too few or too many.
    pub fn new(bytes: Vec<u8>) -> Result<Self, SecretError> {
        if (24..=64).contains(&bytes.len()) { Ok(Self(bytes)) } else { Err(SecretError) }
    }

    /// A new one.
    #[must_use]
    pub fn random() -> Self {
        Self(rand::random::<[u8; 32]>().to_vec())
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// As its owner writes it. Show it to nobody else.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Why something is no secret. It is never repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be `{PREFIX}` and the base64 of 24 to 64 bytes")]
pub struct SecretError;

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(SecretError)?;
        Self::new(STANDARD.decode(encoded).map_err(|_| SecretError)?)
    }
}
