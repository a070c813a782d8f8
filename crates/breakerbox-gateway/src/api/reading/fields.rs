//! The types of single fields: texts that are parsed, times, lengths of time, and changes of what may be cleared.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use breakerbox_core::{Timestamp, parse_duration};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};

/// A text that is read as something else. Why it can't be is said by the type.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::api) struct Text<T>(pub(in crate::api) T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parse<T>(PhantomData<T>);

        impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Parse<T> {
            type Value = Text<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<T>, E> {
                text.parse().map(Text).map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Parse(PhantomData))
    }
}

/// A moment, written by RFC 3339, to the millisecond and in UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(in crate::api) struct Moment(pub(in crate::api) Timestamp);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = i64::try_from(self.0.as_micros()).unwrap_or(i64::MAX);
        match jiff::Timestamp::from_microsecond(micros) {
            Ok(moment) => write!(f, "{moment:.3}"),
            Err(_) => f.write_str("9999-12-30T22:00:00.000Z"),
        }
    }
}

/// It is no moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be a time such as \"2026-01-31T12:00:00Z\"")]
pub(in crate::api) struct MomentError;

impl FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Self, MomentError> {
        // What is longer is no time, whatever it is.
        if text.len() > 64 {
            return Err(MomentError);
        }
        let moment: jiff::Timestamp = text.parse().map_err(|_| MomentError)?;
        // Nothing here is older than 1970, so any time before it means the same.
        Ok(Self(Timestamp::from_micros(u64::try_from(moment.as_microsecond()).unwrap_or(0))))
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A change of a field that may be cleared: absent, `null`, or a new value.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(in crate::api) enum Change<T> {
    /// Leave it.
    #[default]
    Keep,
    /// Back to the default.
    Clear,
    /// To this.
    Set(T),
}

impl<T> Change<T> {
    /// The value after the change.
    pub(in crate::api) fn onto(self, before: Option<T>) -> Option<T> {
        match self {
            Self::Keep => before,
            Self::Clear => None,
            Self::Set(value) => Some(value),
        }
    }

    pub(in crate::api) const fn is_keep(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// The same change of another type.
    pub(in crate::api) fn map<U>(self, map: impl FnOnce(T) -> U) -> Change<U> {
        match self {
            Self::Keep => Change::Keep,
            Self::Clear => Change::Clear,
            Self::Set(value) => Change::Set(map(value)),
        }
    }

    /// The same, where that may fail.
    pub(in crate::api) fn try_map<U, E>(self, map: impl FnOnce(T) -> Result<U, E>) -> Result<Change<U>, E> {
        Ok(match self {
            Self::Keep => Change::Keep,
            Self::Clear => Change::Clear,
            Self::Set(value) => Change::Set(map(value)?),
        })
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Change<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Clear, Self::Set))
    }
}

/// A value that is written as an object. By itself a derived type takes a list of its fields as well.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(in crate::api) struct Object<T>(pub(in crate::api) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields)).map(Object)
            }
        }

        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// A length of time, such as `30s`, that is not zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::api) struct Span(pub(in crate::api) Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text::<SpanText>::deserialize(deserializer)?;
        Ok(Self(text.0.0))
    }
}

struct SpanText(Duration);

impl FromStr for SpanText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match parse_duration(text) {
            Ok(Duration::ZERO) => Err("must be longer than zero, such as \"30s\"".to_owned()),
            Ok(span) => Ok(Self(span)),
            Err(why) => Err(why.to_string()),
        }
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

    #[test]
    fn absent_null_and_a_value_are_three_things() {
        #[derive(serde::Deserialize)]
        struct Body {
            #[serde(default)]
            field: Change<u32>,
        }
        for (text, expected) in [("{}", Some(7)), (r#"{"field":null}"#, None), (r#"{"field":3}"#, Some(3))] {
            let body: Body = serde_json::from_str(text).unwrap();
            assert_eq!(body.field.onto(Some(7)), expected, "{text}");
        }
    }
}
