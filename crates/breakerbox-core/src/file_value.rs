//! Values from a policy file, kept so that an error can show the value that was found.

use alloc::string::String;
use core::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Any value in a TOML or JSON file.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum FileValue {
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// A number with a fraction.
    Float(f64),
    /// A string. A long string is shortened, because errors include it.
    Text(String),
    /// A list.
    List,
    /// A table.
    Table,
    /// JSON's null.
    Null,
}

impl fmt::Display for FileValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(value) => write!(f, "the text {value:?}"),
            Self::List => f.write_str("a list"),
            Self::Table => f.write_str("a table"),
            Self::Null => f.write_str("null"),
        }
    }
}

impl<'de> Deserialize<'de> for FileValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = FileValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_bool<E>(self, value: bool) -> Result<FileValue, E> {
                Ok(FileValue::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<FileValue, E> {
                Ok(FileValue::Integer(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<FileValue, E> {
                Ok(FileValue::Integer(value.into()))
            }

            fn visit_i128<E>(self, value: i128) -> Result<FileValue, E> {
                Ok(FileValue::Integer(value))
            }

            #[allow(clippy::cast_precision_loss)] // Too large for anything; only shown.
            fn visit_u128<E>(self, value: u128) -> Result<FileValue, E> {
                Ok(i128::try_from(value).map_or(FileValue::Float(value as f64), FileValue::Integer))
            }

            fn visit_f64<E>(self, value: f64) -> Result<FileValue, E> {
                Ok(FileValue::Float(value))
            }

            fn visit_str<E>(self, value: &str) -> Result<FileValue, E> {
                Ok(FileValue::Text(shortened(value)))
            }

            fn visit_unit<E>(self) -> Result<FileValue, E> {
                Ok(FileValue::Null)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<FileValue, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(FileValue::List)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FileValue, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(FileValue::Table)
            }
        }

        deserializer.deserialize_any(Any)
    }
}

/// Shortens a string that is longer than any valid value, so that no error contains megabytes.
pub(crate) fn shortened(text: &str) -> String {
    const LONGEST: usize = 64;
    if text.chars().nth(LONGEST).is_none() {
        return String::from(text);
    }
    text.chars().take(LONGEST).chain(['…']).collect()
}
