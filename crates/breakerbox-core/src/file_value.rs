//! Values from a policy file, kept so that an error can show the value that was found.

use alloc::string::String;
use core::fmt;

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

impl FileValue {
    /// Returns the value with a long text shortened, so that no error contains megabytes.
    pub(crate) fn shortened(self) -> Self {
        match self {
            Self::Text(text) => Self::Text(shortened(&text)),
            other => other,
        }
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
