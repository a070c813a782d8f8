//! Converts the arguments and responses of scripts to and from strings ("words").
//!
//! Lua's numbers are exact only up to 2^53. Times and durations in microseconds stay below that for centuries;
//! larger ones are capped, and so are counts. Versions, nonces and epochs are compared as strings.

use std::time::Duration;

use breakerbox::store::{Readable, Unreadable};
use breakerbox::{Record, Timestamp};
use redis::Value;

use crate::error::CallError;
use crate::layout::Layout;

/// The largest integer that Lua scripts can represent exactly.
const MAX_NUMBER: u64 = (1 << 53) - 1;

/// The maximum time to live, in milliseconds: a hundred years.
const MAX_EXPIRY_MS: u128 = 100 * 366 * 24 * 60 * 60 * 1_000;

/// Encodes a duration in microseconds.
pub(crate) fn micros(duration: Duration) -> Vec<u8> {
    word(duration.as_micros().min(MAX_NUMBER.into()))
}

/// Encodes a point in time in microseconds.
pub(crate) fn time(time: Timestamp) -> Vec<u8> {
    word(time.as_micros().min(MAX_NUMBER))
}

/// Encodes a time to live in milliseconds, rounded up.
pub(crate) fn expiry(duration: Duration) -> Vec<u8> {
    word(duration.as_micros().div_ceil(1_000).min(MAX_EXPIRY_MS))
}

/// Encodes a count, capped at the largest integer that Lua scripts can represent exactly.
pub(crate) fn count(count: u64) -> Vec<u8> {
    word(count.min(MAX_NUMBER))
}

/// Encodes any other value as a string.
pub(crate) fn word(value: impl ToString) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// A script's response, read word by word.
pub(crate) struct Response(std::vec::IntoIter<Vec<u8>>);

impl Response {
    pub(crate) fn new(value: Value) -> Result<Self, CallError> {
        let Value::Array(encoding) = value else { return Err(CallError::InvalidResponse) };
        let bytes = |word| match word {
            Value::BulkString(bytes) => Ok(bytes),
            _ => Err(CallError::InvalidResponse),
        };
        Ok(Self(encoding.into_iter().map(bytes).collect::<Result<Vec<_>, _>>()?.into_iter()))
    }

    fn bytes(&mut self) -> Result<Vec<u8>, CallError> {
        self.0.next().ok_or(CallError::InvalidResponse)
    }

    pub(crate) fn word(&mut self) -> Result<String, CallError> {
        String::from_utf8(self.bytes()?).map_err(|_| CallError::InvalidResponse)
    }

    /// Returns the next word as a number, saturating at the maximum.
    pub(crate) fn number(&mut self) -> Result<u64, CallError> {
        let number: u128 = self.word()?.parse().map_err(|_| CallError::InvalidResponse)?;
        Ok(u64::try_from(number).unwrap_or(u64::MAX))
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, CallError> {
        self.number().map(Timestamp::from_micros)
    }

    /// Returns the next word as a point in time; `None` if the word is empty.
    pub(crate) fn maybe_time(&mut self) -> Result<Option<Timestamp>, CallError> {
        let word = self.word()?;
        if word.is_empty() {
            return Ok(None);
        }
        word.parse()
            .map(|micros| Some(Timestamp::from_micros(micros)))
            .map_err(|_| CallError::InvalidResponse)
    }

    /// Returns the next word as a record; `None` if the word is empty. If the record can't be read, returns the
    /// reason.
    pub(crate) fn maybe_record(
        &mut self,
        layout: &Layout,
        key: &str,
    ) -> Result<Readable<Option<Record>>, CallError> {
        let bytes = self.bytes()?;
        if bytes.is_empty() {
            return Ok(Ok(None));
        }
        Ok(serde_json::from_slice(&bytes).map(Some).map_err(|error| Unreadable {
            key: key.to_owned(),
            reason: format!("{error} (it is field \"record\" of {:?})", layout.record(key)),
        }))
    }

    /// Returns all remaining words of the response.
    pub(crate) fn rest(mut self) -> Result<Vec<String>, CallError> {
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
        assert_eq!(expiry(Duration::from_micros(1_001)), b"2");
        assert_eq!(expiry(Duration::MAX), b"3162240000000");
        assert_eq!(count(u64::MAX), b"9007199254740991");
    }

    #[test]
    fn answers_are_read_word_by_word() {
        let encoding =
            ["7", "36893488147419103232", "", "x", "rest"].map(|word| Value::BulkString(word.into()));
        let mut response = Response::new(Value::Array(encoding.to_vec())).unwrap();
        assert_eq!(response.time().unwrap(), Timestamp::from_micros(7));
        assert_eq!(response.number().unwrap(), u64::MAX);
        assert_eq!(response.maybe_time().unwrap(), None);
        assert!(response.number().is_err());
        assert_eq!(response.rest().unwrap(), ["rest"]);
        for nonsense in [Value::Okay, Value::Array(vec![Value::Int(1)])] {
            assert!(Response::new(nonsense).is_err());
        }
    }
}
