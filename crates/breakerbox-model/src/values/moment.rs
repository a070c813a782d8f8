//! Times as the API writes them: RFC 3339 in UTC, to the millisecond.

use std::fmt;
use std::str::FromStr;

use breakerbox_core::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time that is written as RFC 3339 in UTC, to the millisecond.
///
/// ```
/// use breakerbox_model::objects::Moment;
///
/// let moment: Moment = "2026-01-31T12:00:00.25+02:00".parse()?;
/// assert_eq!(moment.to_string(), "2026-01-31T10:00:00.250Z");
/// # Ok::<(), breakerbox_model::objects::MomentError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub struct Moment(pub Timestamp);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = i64::try_from(self.0.as_micros()).unwrap_or(i64::MAX);
        match jiff::Timestamp::from_microsecond(micros) {
            Ok(moment) => write!(f, "{moment:.3}"),
            Err(_) => f.write_str("9999-12-30T22:00:00.000Z"),
        }
    }
}

/// The string is not an RFC 3339 time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be a time such as \"2026-01-31T12:00:00Z\"")]
pub struct MomentError;

impl FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Self, MomentError> {
        // A longer string can't be a time.
        if text.len() > 64 {
            return Err(MomentError);
        }
        let moment: jiff::Timestamp = text.parse().map_err(|_| MomentError)?;
        // No stored time is before 1970, so all earlier times have the same effect.
        Ok(Self(Timestamp::from_micros(u64::try_from(moment.as_microsecond()).unwrap_or(0))))
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_back() {
        let table = [
            ("2026-01-31T12:00:00Z", Ok("2026-01-31T12:00:00.000Z")),
            ("2026-01-31T12:00:00.25+02:00", Ok("2026-01-31T10:00:00.250Z")),
            ("1970-01-01T00:00:00Z", Ok("1970-01-01T00:00:00.000Z")),
            ("0016-07-27T07:18:57Z", Ok("1970-01-01T00:00:00.000Z")),
            ("2026-01-31", Err(MomentError)),
            ("tomorrow", Err(MomentError)),
            ("", Err(MomentError)),
        ];
        for (text, expected) in table {
            assert_eq!(
                text.parse().map(|moment: Moment| moment.to_string()),
                expected.map(String::from),
                "{text}"
            );
        }
        assert_eq!(Moment(Timestamp::from_micros(u64::MAX)).to_string(), "9999-12-30T22:00:00.000Z");
    }
}
