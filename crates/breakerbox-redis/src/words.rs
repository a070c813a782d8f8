//! Words: the arguments of scripts and their responses, as text.
//!
//! Lua's numbers are exact only up to 2^53. Times and durations in microseconds stay below that for centuries; larger
//! ones are capped, and so are counts. Versions, nonces and epochs are compared as text.

use std::time::Duration;

use breakerbox::store::{Readable, Unreadable};
use breakerbox::{Record, Timestamp};
use redis::Value;

use crate::error::Trouble;
use crate::layout::Layout;

/// The largest number that scripts compute with.
const MOST: u64 = (1 << 53) - 1;

/// The maximum expiry: a hundred years, in milliseconds.
const LONGEST_KEPT_MS: u128 = 100 * 366 * 24 * 60 * 60 * 1_000;

/// A duration in microseconds.
pub(crate) fn micros(duration: Duration) -> Vec<u8> {
    word(duration.as_micros().min(MOST.into()))
}

/// A point in time in microseconds.
pub(crate) fn time(time: Timestamp) -> Vec<u8> {
    word(time.as_micros().min(MOST))
}

/// An expiry in milliseconds, rounded up.
pub(crate) fn kept(duration: Duration) -> Vec<u8> {
    word(duration.as_micros().div_ceil(1_000).min(LONGEST_KEPT_MS))
}

/// A count, capped at the maximum of scripts.
pub(crate) fn count(count: u64) -> Vec<u8> {
    word(count.min(MOST))
}

/// Any value, as its text.
pub(crate) fn word(value: impl ToString) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// A script's response, word by word.
pub(crate) struct Answered(std::vec::IntoIter<Vec<u8>>);

impl Answered {
    pub(crate) fn new(value: Value) -> Result<Self, Trouble> {
        let Value::Array(words) = value else { return Err(Trouble::Nonsense) };
        let bytes = |word| match word {
            Value::BulkString(bytes) => Ok(bytes),
            _ => Err(Trouble::Nonsense),
        };
        Ok(Self(words.into_iter().map(bytes).collect::<Result<Vec<_>, _>>()?.into_iter()))
    }

    fn bytes(&mut self) -> Result<Vec<u8>, Trouble> {
        self.0.next().ok_or(Trouble::Nonsense)
    }

    pub(crate) fn word(&mut self) -> Result<String, Trouble> {
        String::from_utf8(self.bytes()?).map_err(|_| Trouble::Nonsense)
    }

    /// Returns a number; one that does not fit becomes the maximum.
    pub(crate) fn number(&mut self) -> Result<u64, Trouble> {
        let number: u128 = self.word()?.parse().map_err(|_| Trouble::Nonsense)?;
        Ok(u64::try_from(number).unwrap_or(u64::MAX))
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, Trouble> {
        self.number().map(Timestamp::from_micros)
    }

    /// Returns a point in time, or none.
    pub(crate) fn maybe_time(&mut self) -> Result<Option<Timestamp>, Trouble> {
        let word = self.word()?;
        if word.is_empty() {
            return Ok(None);
        }
        word.parse().map(|micros| Some(Timestamp::from_micros(micros))).map_err(|_| Trouble::Nonsense)
    }

    /// Returns a record, none, or the reason why it can't be read.
    pub(crate) fn maybe_record(
        &mut self,
        layout: &Layout,
        key: &str,
    ) -> Result<Readable<Option<Record>>, Trouble> {
        let bytes = self.bytes()?;
        if bytes.is_empty() {
            return Ok(Ok(None));
        }
        Ok(serde_json::from_slice(&bytes).map(Some).map_err(|error| Unreadable {
            key: key.to_owned(),
            reason: format!("{error} (it is field \"record\" of {:?})", layout.record(key)),
        }))
    }

    /// Returns all remaining words.
    pub(crate) fn rest(mut self) -> Result<Vec<String>, Trouble> {
        (0..self.0.len()).map(|_| self.word()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_brought_down() {
        assert_eq!(micros(Duration::from_micros(7)), b"7");
        assert_eq!(micros(Duration::MAX), b"9007199254740991");
        assert_eq!(time(Timestamp::from_micros(u64::MAX)), b"9007199254740991");
        assert_eq!(kept(Duration::from_micros(1_001)), b"2");
        assert_eq!(kept(Duration::MAX), b"3162240000000");
        assert_eq!(count(u64::MAX), b"9007199254740991");
    }

    #[test]
    fn answers_are_read_word_by_word() {
        let words = ["7", "36893488147419103232", "", "x", "rest"].map(|word| Value::BulkString(word.into()));
        let mut answered = Answered::new(Value::Array(words.to_vec())).unwrap();
        assert_eq!(answered.time().unwrap(), Timestamp::from_micros(7));
        assert_eq!(answered.number().unwrap(), u64::MAX);
        assert_eq!(answered.maybe_time().unwrap(), None);
        assert!(answered.number().is_err());
        assert_eq!(answered.rest().unwrap(), ["rest"]);
        for nonsense in [Value::Okay, Value::Array(vec![Value::Int(1)])] {
            assert!(Answered::new(nonsense).is_err());
        }
    }
}
