//! Errors in settings. Each names the key, where it was set, and what is accepted. None contains the value of a secret.

use std::fmt;

use breakerbox_core::DurationError;

use super::layers::Origin;
use super::size::SizeError;

/// One error in the settings.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{}", place(origin, key))]
pub struct ConfigError {
    /// The setting's key, as written in the file.
    pub key: String,
    /// Where the value was set: in a file, a variable or a flag, or by default.
    pub origin: Origin,
    /// What is wrong with the value or the key.
    #[source]
    pub reason: Wrong,
}

impl ConfigError {
    /// Formats the error in one line: the source, the problem, and what is accepted.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{self}: {}", self.reason)
    }
}

/// Formats the origin, and the key unless the origin already contains it.
fn place(origin: &Origin, key: &str) -> String {
    match origin {
        Origin::Environment(_) | Origin::Flag(_) => origin.to_string(),
        _ if key.is_empty() => origin.to_string(),
        Origin::File { path, line } => format!("{}: line {line}: {key}", path.display()),
        Origin::Default => key.to_owned(),
    }
}

/// All errors, in the order in which they were found. There is at least one.
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

/// What is wrong with a value or a key.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Wrong {
    /// The value has the wrong type.
    #[error("must be {expected}, but is {found}")]
    Type {
        /// The type that the setting accepts.
        expected: String,
        /// The type or value that was given instead.
        found: String,
    },
    /// The value is out of range.
    #[error("must be {least} to {most}, but is {found}")]
    Range {
        /// The minimum value that the setting accepts.
        least: String,
        /// The maximum value that the setting accepts.
        most: String,
        /// The value that was given.
        found: String,
    },
    /// The string is not a valid duration.
    #[error("{found:?} {error}")]
    Duration {
        /// The string that was given.
        found: String,
        /// The parser's error.
        error: DurationError,
    },
    /// The string is not a valid size.
    #[error("{found:?} {error}")]
    Size {
        /// The string that was given.
        found: String,
        /// The parser's error.
        error: SizeError,
    },
    /// The string can't be parsed as a value of the setting's type.
    #[error("{found:?} is not {expected}")]
    Unreadable {
        /// The string that was given.
        found: String,
        /// A description of the accepted values.
        expected: String,
    },
    /// An item of a list is invalid.
    #[error("item {number}: {wrong}")]
    Item {
        /// The position of the item, starting at 1.
        number: usize,
        /// What is wrong with the item.
        wrong: Box<Wrong>,
    },
    /// The list has too many items.
    #[error("must have at most {most} items, but has {found}")]
    TooMany {
        /// The maximum number of items that the setting accepts.
        most: usize,
        /// The number of items that were given.
        found: usize,
    },
    /// A secret is set where others could read it.
    #[error("is a secret; set the environment variable {variable} instead")]
    SecretHere {
        /// The environment variable to set instead.
        variable: String,
    },
    /// The name of the setting is unknown.
    #[error("is not a setting{}", DidYouMean(nearest))]
    Unknown {
        /// The closest known name. `None` if none is close.
        nearest: Option<String>,
    },
    /// The value is above that of another setting, which is its limit.
    #[error("must be at most {other} ({bound}), but is {found}")]
    Above {
        /// The key of the setting that limits this one.
        other: &'static str,
        /// The value of the setting that limits this one.
        bound: String,
        /// The value that was given.
        found: String,
    },
    /// The value is below that of another setting, which is its limit.
    #[error("must be at least {other} ({bound}), but is {found}")]
    Below {
        /// The key of the setting that limits this one.
        other: &'static str,
        /// The value of the setting that limits this one.
        bound: String,
        /// The value that was given.
        found: String,
    },
    /// The value is not allowed for another reason, which the string states.
    #[error("{0}")]
    Refused(String),
    /// The file is not valid TOML. The string is the parser's message.
    #[error("{0}")]
    Syntax(String),
    /// The file can't be read. The string is the system's message.
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
