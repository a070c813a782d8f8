//! Deserializes policy files with serde. Needs the feature `serde`.

use alloc::string::String;
use core::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::PolicyBuilder;
use crate::file_value::{FileValue, shortened};

impl<'de> Deserialize<'de> for PolicyBuilder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Table;

        impl<'de> Visitor<'de> for Table {
            type Value = PolicyBuilder;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of policy keys")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PolicyBuilder, A::Error> {
                let mut builder = PolicyBuilder::default();
                while let Some(key) = map.next_key::<String>()? {
                    map.next_value_seed(Entry { builder: &mut builder, key: &key })?;
                }
                Ok(builder)
            }
        }

        deserializer.deserialize_map(Table)
    }
}

/// A value from a policy file, to be stored in the builder. An invalid value is rejected during deserialization, so
/// that the error contains the line number.
struct Entry<'a> {
    builder: &'a mut PolicyBuilder,
    key: &'a str,
}

impl<'de> DeserializeSeed<'de> for Entry<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let value = FileValue::deserialize(deserializer)?;
        self.builder.set(self.key, value).map_err(D::Error::custom)
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
