//! Signing secrets, and how one follows another. They are never shown by accident: `Debug` hides them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use breakerbox_core::Timestamp;

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

/// A secret in its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SigningSecret {
    /// The secret.
    pub secret: Secret,
    /// Since when requests are signed with it.
    pub since: Timestamp,
    /// Until when; none: until it is replaced.
    pub until: Option<Timestamp>,
}

/// What requests are signed with: one secret, and during a rotation the one before it too, until that one's time is over.
/// Receivers accept either signature, so they can change over at any moment in between.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SigningSecrets {
    current: SigningSecret,
    previous: Option<SigningSecret>,
}

impl SigningSecrets {
    /// One secret from now on.
    #[must_use]
    pub const fn new(secret: Secret, now: Timestamp) -> Self {
        Self { current: SigningSecret { secret, since: now, until: None }, previous: None }
    }

    /// As they were kept, the newest first; none if there is no newest.
    #[must_use]
    pub fn from_newest_first(secrets: impl IntoIterator<Item = SigningSecret>) -> Option<Self> {
        let mut secrets = secrets.into_iter();
        Some(Self { current: secrets.next()?, previous: secrets.next() })
    }

    /// All of them with their times, the newest first, those whose time is over included.
    pub fn iter(&self) -> impl Iterator<Item = &SigningSecret> {
        std::iter::once(&self.current).chain(&self.previous)
    }

    /// What a request is signed with now, the newest first: one or two.
    pub fn active(&self, now: Timestamp) -> impl Iterator<Item = &Secret> {
        let has_time = move |one: &&SigningSecret| one.until.is_none_or(|until| now < until);
        self.iter().filter(has_time).map(|one| &one.secret)
    }

    /// With a new one from now on. The one before stays for the overlap; one that was already on its way out is dropped at
    /// once, so that there are never more than two. Without an overlap the new one is alone, as after a leak.
    #[must_use]
    pub fn rotated(&self, secret: Secret, overlap: Duration, now: Timestamp) -> Self {
        let previous = SigningSecret { until: Some(now + overlap), ..self.current.clone() };
        Self { previous: (!overlap.is_zero()).then_some(previous), ..Self::new(secret, now) }
    }

    /// Only the newest: ends a rotation before its time.
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
