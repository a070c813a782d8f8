//! Types for single fields: parsed strings, durations, and changes to optional fields.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use breakerbox_core::{DurationError, parse_duration};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

pub(in crate::api) use breakerbox_model::objects::Moment;

/// A string that is parsed as a `T`. An invalid string gets the error of `T`'s parser.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::api) struct Text<T>(pub(in crate::api) T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parse<T>(PhantomData<T>);

        impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Parse<T> {
            type Value = Text<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<T>, E> {
                text.parse().map(Text).map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Parse(PhantomData))
    }
}

/// A change to an optional field: absent, `null`, or a new value.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(in crate::api) enum Change<T> {
    /// The field is absent, so the value is kept.
    #[default]
    Keep,
    /// The field is `null`, so the default is restored.
    Clear,
    /// The field has a new value.
    Set(T),
}

impl<T> Change<T> {
    /// Returns the field's value with the change applied.
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

    /// Maps the new value, if there is one.
    pub(in crate::api) fn map<U>(self, map: impl FnOnce(T) -> U) -> Change<U> {
        match self {
            Self::Keep => Change::Keep,
            Self::Clear => Change::Clear,
            Self::Set(value) => Change::Set(map(value)),
        }
    }

    /// Maps the new value, if there is one, with a function that may fail.
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

/// A `T` that is parsed only from a JSON object. Serde's derived code would also accept an array of the field values.
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

/// Returns the reason why a string is not a single line of an allowed length. `None` if it is.
pub(in crate::api) fn fault_of_line(text: &str, lengths: RangeInclusive<usize>) -> Option<String> {
    let length = text.chars().count();
    if !lengths.contains(&length) {
        let (least, most) = lengths.into_inner();
        let allowed = if least == 0 { format!("at most {most}") } else { format!("{least} to {most}") };
        return Some(format!("must have {allowed} characters, but has {length}"));
    }
    let place = text.chars().position(char::is_control)?;
    let place = place + 1;
    Some(format!("must be one line without control characters, but character {place} is one"))
}

/// A duration such as `30s`, longer than zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::api) struct Span(pub(in crate::api) Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parse;

        impl Visitor<'_> for Parse {
            type Value = Span;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                match parse_duration(text) {
                    Ok(Duration::ZERO) => Err(E::custom("must be longer than zero, such as \"30s\"")),
                    Ok(span) => Ok(Span(span)),
                    Err(why) => Err(E::custom(why)),
                }
            }

            /// Explains which string to write instead of a number.
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Span, E> {
                Err(E::custom(DurationError::NumberOnly(number)))
            }
        }

        deserializer.deserialize_any(Parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_refused_for_what_is_wrong_with_it() {
        assert_eq!(fault_of_line("hello\u{e9}", 1..=6), None);
        assert_eq!(fault_of_line("", 0..=6), None);
        for (text, lengths, expected) in [
            ("", 1..=6, "must have 1 to 6 characters, but has 0"),
            ("1234567", 0..=6, "must have at most 6 characters, but has 7"),
            ("a\nb", 0..=6, "must be one line without control characters, but character 2 is one"),
            ("\u{e9}\u{1b}", 1..=6, "must be one line without control characters, but character 2 is one"),
        ] {
            assert_eq!(fault_of_line(text, lengths).as_deref(), Some(expected), "{text:?}");
        }
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
