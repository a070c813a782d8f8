//! Signing secrets and their rotation. `Debug` hides them, so that they are never shown by accident.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use breakerbox_core::Timestamp;

/// The prefix of a written secret, as defined by Standard Webhooks.
const PREFIX: &str = "whsec_";

/// A signing secret: 24 to 64 bytes, as Standard Webhooks requires.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Creates a secret from these bytes.
    ///
    /// # Errors
    /// Returns an error if there are too few or too many bytes.
    pub fn new(bytes: Vec<u8>) -> Result<Self, SecretError> {
        if (24..=64).contains(&bytes.len()) { Ok(Self(bytes)) } else { Err(SecretError) }
    }

    /// Creates a random secret.
    #[must_use]
    pub fn random() -> Self {
        Self(rand::random::<[u8; 32]>().to_vec())
    }

    /// Returns the secret's bytes, for signing.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the secret as a string, `whsec_` and base64. Show it to its owner only.
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

/// The string or the bytes are not a valid secret. The error message never repeats them.
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

/// A secret and the period in which it signs requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SigningSecret {
    /// The key that requests are signed with.
    pub secret: Secret,
    /// The time at which signing with the secret begins.
    pub since: Timestamp,
    /// The time at which signing with the secret ends. `None`: it ends when the secret is replaced.
    pub until: Option<Timestamp>,
}

/// The secrets that requests are signed with: one, and during a rotation also the previous one until it expires.
/// Receivers accept either signature, so they can switch to the new secret at any time during the rotation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SigningSecrets {
    current: SigningSecret,
    previous: Option<SigningSecret>,
}

impl SigningSecrets {
    /// Creates a set with one secret, valid starting now.
    #[must_use]
    pub const fn new(secret: Secret, now: Timestamp) -> Self {
        Self { current: SigningSecret { secret, since: now, until: None }, previous: None }
    }

    /// Creates the set from stored secrets, newest first, or returns `None` if there are none.
    #[must_use]
    pub fn from_newest_first(secrets: impl IntoIterator<Item = SigningSecret>) -> Option<Self> {
        let mut secrets = secrets.into_iter();
        Some(Self { current: secrets.next()?, previous: secrets.next() })
    }

    /// Iterates over all secrets with their periods, newest first, including expired ones.
    pub fn iter(&self) -> impl Iterator<Item = &SigningSecret> {
        std::iter::once(&self.current).chain(&self.previous)
    }

    /// Iterates over the secrets that sign a request now, newest first: one or two.
    pub fn active(&self, now: Timestamp) -> impl Iterator<Item = &Secret> {
        let has_time = move |one: &&SigningSecret| one.until.is_none_or(|until| now < until);
        self.iter().filter(has_time).map(|one| &one.secret)
    }

    /// Returns the secrets after a rotation to a new one. The previous secret stays valid for `overlap`. A secret
    /// that was already being replaced is dropped at once, so that at most two are valid. If `overlap` is zero, only
    /// the new secret remains; use this after a leak.
    #[must_use]
    pub fn rotated(&self, secret: Secret, overlap: Duration, now: Timestamp) -> Self {
        let previous = SigningSecret { until: Some(now + overlap), ..self.current.clone() };
        Self { previous: (!overlap.is_zero()).then_some(previous), ..Self::new(secret, now) }
    }

    /// Returns the set with only the newest secret, which ends a rotation early.
    #[must_use]
    pub fn newest_only(&self) -> Self {
        Self { current: self.current.clone(), previous: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(byte: u8) -> Secret {
        Secret::new(vec![byte; 32]).unwrap()
    }

    fn active(secrets: &SigningSecrets, seconds: u64) -> Vec<u8> {
        secrets.active(Timestamp::from_millis(seconds * 1_000)).map(|secret| secret.bytes()[0]).collect()
    }

    #[test]
    fn two_sign_during_a_rotation_and_never_three() {
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1_000);
        let first = SigningSecrets::new(secret(1), at(0));
        assert_eq!(active(&first, 1_000_000), [1]);
        let second = first.rotated(secret(2), Duration::from_secs(60), at(100));
        assert_eq!((active(&second, 159), active(&second, 160)), (vec![2, 1], vec![2]));
        let third = second.rotated(secret(3), Duration::from_secs(60), at(110));
        assert_eq!((active(&third, 111), active(&third, 170)), (vec![3, 2], vec![3]));
        assert_eq!(active(&third.rotated(secret(4), Duration::ZERO, at(120)), 120), [4]);
        assert_eq!(active(&third.newest_only(), 111), [3]);
    }

    #[test]
    fn secrets_are_read_back_and_hide() {
        let secret = Secret::random();
        assert_eq!(secret.reveal().parse().as_ref(), Ok(&secret));
        let shown = format!("{:?}", SigningSecrets::new(secret.clone(), Timestamp::ZERO));
        assert!(shown.contains("hidden") && !shown.contains(&STANDARD.encode(secret.bytes())));
        for text in ["", "whsec_", "whsec_AAAA", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "whsec_%%%"]
        {
            assert_eq!(text.parse::<Secret>(), Err(SecretError), "{text}");
        }
    }
}
