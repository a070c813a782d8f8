//! The id of a circuit: its key, encoded for use in URL paths. Decoding it needs no lookup.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use breakerbox_core::MAX_KEY_LENGTH;

use super::CircuitOwner;

const PREFIX: &str = "cir_";

/// The id of a circuit in paths: `cir_`, followed by its key in base64.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CircuitId(Box<str>);

impl CircuitId {
    /// Returns the id of the circuit with this key. The key is not validated.
    #[must_use]
    pub fn of(key: &str) -> Self {
        Self(key.into())
    }

    /// Returns the key that the id encodes.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.0
    }

    /// Returns the tenant and the purpose of the circuit, or `None` if the key can't belong to a tenant.
    #[must_use]
    pub fn owner(&self) -> Option<CircuitOwner> {
        CircuitOwner::of_key(&self.0)
    }
}

impl fmt::Display for CircuitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(self.0.as_bytes()))
    }
}

/// The string is not a circuit id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be `{PREFIX}` and the base64url of the circuit's key")]
pub struct CircuitIdError;

impl FromStr for CircuitId {
    type Err = CircuitIdError;

    fn from_str(text: &str) -> Result<Self, CircuitIdError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(CircuitIdError)?;
        if encoded.len() > MAX_KEY_LENGTH.div_ceil(3) * 4 {
            return Err(CircuitIdError);
        }
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| CircuitIdError)?;
        let key = String::from_utf8(bytes).map_err(|_| CircuitIdError)?;
        let is_clean = !key.is_empty() && key.len() <= MAX_KEY_LENGTH && !key.chars().any(char::is_control);
        if is_clean { Ok(Self(key.into())) } else { Err(CircuitIdError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_back_and_know_their_owner() {
        let id = CircuitId::of("acme https://hooks.example.com/in");
        assert_eq!(id.to_string(), "cir_YWNtZSBodHRwczovL2hvb2tzLmV4YW1wbGUuY29tL2lu");
        assert_eq!(id.to_string().parse(), Ok(id.clone()));
        assert_eq!(id.owner().unwrap().tenant.as_str(), "acme");
        assert_eq!(CircuitId::of("acme/reminders").owner().unwrap().tenant.as_str(), "acme");
        assert_eq!(CircuitId::of("a/b").owner(), None);
        let longest = CircuitId::of(&"k".repeat(MAX_KEY_LENGTH));
        assert_eq!(longest.to_string().parse(), Ok(longest));
    }

    #[test]
    fn what_is_no_id_is_refused() {
        let too_long = CircuitId::of(&"k".repeat(MAX_KEY_LENGTH + 1)).to_string();
        for text in ["", "cir_", "cir_%", "ep_YQ", "cir_YQ==", "cir__w", "cir_Cg", &too_long] {
            assert_eq!(text.parse::<CircuitId>(), Err(CircuitIdError), "{text}");
        }
    }
}
