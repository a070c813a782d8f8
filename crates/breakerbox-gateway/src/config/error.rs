//! Errors in settings. Each names the key, where it was set, and what is accepted. None contains the value of a secret.

use std::fmt;

use breakerbox_core::DurationError;

use super::layers::Origin;
use super::size::SizeError;

/// One error in the settings.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{}", place(origin, key))]
pub struct ConfigError {
    /// The key, as the file spells it.
    pub key: String,
    /// Where the value was set.
    pub origin: Origin,
    /// The error of the value or the key.
    #[source]
    pub reason: Wrong,
}

impl ConfigError {
    /// Formats the error as one line: where, what, and what is accepted.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{self}: {}", self.reason)
    }
}

/// Formats the origin, and the key if the origin does not name it already.
fn place(origin: &Origin, key: &str) -> String {
    match origin {
        Origin::Environment(_) | Origin::Flag(_) => origin.to_string(),
        _ if key.is_empty() => origin.to_string(),
        Origin::File { path, line } => format!("{}: line {line}: {key}", path.display()),
        Origin::Default => key.to_owned(),
    }
}

/// All errors, in the order in which they were found. At least one.
#[derive(Clone, PartialEq, Debug)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl ConfigErrors {
    /// Formats each error as one line.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.0.iter().map(ConfigError::line).collect()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}

/// An error of a value or a key.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// The value has the wrong type.
    #[error("must be {expected}, but is {found}")]
    Type {
        /// The accepted type.
        expected: String,
        /// The given type or value.
        found: String,
    },
    /// The value is out of range.
    #[error("must be {least} to {most}, but is {found}")]
    Range {
        /// The minimum.
        least: String,
        /// The maximum.
        most: String,
        /// The given value.
        found: String,
    },
    /// The text is not a duration.
    #[error("{found:?} {error}")]
    Duration {
        /// The given text.
        found: String,
        /// The error of the parser.
        error: DurationError,
    },
    /// The text is not a size.
    #[error("{found:?} {error}")]
    Size {
        /// The given text.
        found: String,
        /// The error of the parser.
        error: SizeError,
    },
    /// The text can't be parsed.
    #[error("{found:?} is not {expected}")]
    Unreadable {
        /// The given text.
        found: String,
        /// The accepted values.
        expected: String,
    },
    /// An item of a list is invalid.
    #[error("item {number}: {wrong}")]
    Item {
        /// The position of the item, from 1.
        number: usize,
        /// The error of the item.
        wrong: Box<Wrong>,
    },
    /// The list has too many items.
    #[error("must have at most {most} items, but has {found}")]
    TooMany {
        /// The maximum number of items.
        most: usize,
        /// The given number of items.
        found: usize,
    },
    /// A secret is set in a place that others can read.
    #[error("is a secret; set the environment variable {variable} instead")]
    SecretHere {
        /// The variable in which to set it instead.
        variable: String,
    },
    /// The name of the setting is unknown.
    #[error("is not a setting{}", DidYouMean(nearest))]
    Unknown {
        /// The closest known name. `None` if none is close.
        nearest: Option<String>,
    },
    /// The value must not be above that of another setting.
    #[error("must be at most {other} ({bound}), but is {found}")]
    Above {
        /// The key of the other setting.
        other: &'static str,
        /// The value of the other setting.
        bound: String,
        /// The given value.
        found: String,
    },
    /// The value must not be below that of another setting.
    #[error("must be at least {other} ({bound}), but is {found}")]
    Below {
        /// The key of the other setting.
        other: &'static str,
        /// The value of the other setting.
        bound: String,
        /// The given value.
        found: String,
    },
    /// The value breaks a rule of its type; the text states which.
    #[error("{0}")]
    Refused(String),
    /// The file is not valid TOML.
    #[error("{0}")]
    Syntax(String),
    /// The file can't be read.
    #[error("can't be read: {0}")]
    NotRead(String),
}

struct DidYouMean<'a>(&'a Option<String>);

impl fmt::Display for DidYouMean<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, "; did you mean {name}?"),
            None => f.write_str("; `breakerbox serve --example-config` lists them all"),
        }
    }
}
