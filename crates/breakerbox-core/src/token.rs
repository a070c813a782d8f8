//! Tokens that identify writes and leases, and the epochs of circuits.
//!
//! The core generates no random numbers. A caller passes one [`RandomBits`] into every step that may write; versions,
//! nonces and the jitter of a cool-off are derived from it.

use core::fmt;

use crate::time::Timestamp;

/// 128 bits from the caller's random source. Pass new bits to every step.
///
/// A caller that needs neither secrecy nor jitter, such as a replay or a test, may pass a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RandomBits(pub u128);

impl RandomBits {
    pub(crate) const fn version(self) -> Version {
        Version(self.0)
    }

    /// Returns these bits as a nonce. The same bits may also be used as a version, because a nonce must be unique only
    /// among nonces.
    pub(crate) const fn nonce(self) -> Nonce {
        Nonce(self.0)
    }

    /// Returns a number in [0, 1), for a random choice.
    pub(crate) fn unit(self) -> f64 {
        const BITS: u32 = 53;
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // 53 bits fit both.
        let unit = ((self.0 >> (128 - BITS)) as u64) as f64 / (1_u64 << BITS) as f64;
        unit
    }

    /// Returns a number in [-1, 1), for jitter.
    pub(crate) fn signed_unit(self) -> f64 {
        self.unit() * 2.0 - 1.0
    }
}

/// The number of the period between two of a circuit's transitions. Epochs only increase; an outcome from an earlier
/// epoch is late.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Epoch(pub u64);

impl Epoch {
    /// Returns the next epoch. It is greater than this epoch, and at least the current time in microseconds, so that a
    /// store that lost its records does not assign an epoch that was used before.
    #[must_use]
    pub(crate) fn next(self, now: Timestamp) -> Self {
        Self(self.0.saturating_add(1).max(now.as_micros()))
    }
}

/// The token that identifies one write of a record. It is random, so that a retried write is not mistaken for an
/// earlier write that was lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Version(#[cfg_attr(feature = "serde", serde(with = "hex"))] pub u128);

/// The token that identifies one probe's lease or one slot in a ramp.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Nonce(#[cfg_attr(feature = "serde", serde(with = "hex"))] pub u128);

/// Serializes tokens as 32 hexadecimal digits, because some formats lose digits of 128-bit numbers.
#[cfg(feature = "serde")]
mod hex {
    use alloc::string::String;

    use serde::de::{Deserialize, Deserializer, Error as _};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(token: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{token:032x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map_err(|_| D::Error::custom("a token is 32 hexadecimal digits"))
    }
}

/// Displays the epoch as a decimal number.
impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Displays the token as 32 hexadecimal digits, as in JSON.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Displays the token as 32 hexadecimal digits, as in JSON.
impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({:032x})", self.0)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({:032x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_covers_the_signed_unit_interval() {
        assert_eq!(RandomBits(0).signed_unit(), -1.0);
        assert_eq!(RandomBits(1 << 127).signed_unit(), 0.0);
        let top = RandomBits(u128::MAX).signed_unit();
        assert!(top < 1.0 && top > 0.999_999);
    }

    #[test]
    fn tokens_are_shown_as_they_are_written() {
        assert_eq!(std::format!("{:>5}|{}", Epoch(42), Epoch(7)), "   42|7");
        let (version, nonce) = (Version(0xbeef), Nonce(1 << 127));
        assert_eq!(std::format!("\"{version}\""), serde_json::to_string(&version).unwrap());
        assert_eq!(std::format!("\"{nonce}\""), serde_json::to_string(&nonce).unwrap());
    }

    #[test]
    fn an_epoch_grows_with_the_clock_and_without_it() {
        let at = Timestamp::from_micros;
        assert_eq!(Epoch(7).next(at(100)), Epoch(100));
        assert_eq!(Epoch(100).next(at(100)), Epoch(101));
        assert_eq!(Epoch(100).next(at(3)), Epoch(101), "a clock that stepped back");
    }
}
