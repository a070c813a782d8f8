//! What can be wrong with settings. Each error names the key, where it was said, and what would be right. Never the value
//! of a secret.

use std::fmt;

use breakerbox_core::DurationError;

use super::layers::Origin;
use super::size::SizeError;

/// One thing that is wrong.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{}", place(origin, key))]
pub struct ConfigError {
    /// The key, as the file spells it.
    pub key: String,
    /// Where it was said.
    pub origin: Origin,
    /// What is wrong.
    #[source]
    pub reason: Wrong,
}

impl ConfigError {
    /// The error as one line: where, what, and what would be right.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{self}: {}", self.reason)
    }
}

/// The place, and the key if the place does not say it already.
fn place(origin: &Origin, key: &str) -> String {
    match origin {
        Origin::Environment(_) | Origin::Flag(_) => origin.to_string(),
        _ if key.is_empty() => origin.to_string(),
        Origin::File { path, line } => format!("{}: line {line}: {key}", path.display()),
        Origin::Default => key.to_owned(),
    }
}

/// All that is wrong, in the order in which it was found. At least one.
#[derive(Clone, PartialEq, Debug)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl ConfigErrors {
    /// Each error as one line.
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
    /// It has the wrong type.
    #[error("must be {expected}, but is {found}")]
    Type {
        /// What would do.
        expected: String,
        /// What was given.
        found: String,
    },
    /// It is too small or too large.
    #[error("must be {least} to {most}, but is {found}")]
    Range {
        /// The smallest that would do.
        least: String,
        /// The largest that would do.
        most: String,
        /// What was given.
        found: String,
    },
    /// A text is no duration.
    #[error("{found:?} {error}")]
    Duration {
        /// What was given.
        found: String,
        /// What is wrong with it.
        error: DurationError,
    },
    /// A text is no size.
    #[error("{found:?} {error}")]
    Size {
        /// What was given.
        found: String,
        /// What is wrong with it.
        error: SizeError,
    },
    /// A text can't be read as what it should be.
    #[error("{found:?} is not {expected}")]
    Unreadable {
        /// What was given.
        found: String,
        /// What would do.
        expected: String,
    },
    /// An item of a list is wrong.
    #[error("item {number}: {wrong}")]
    Item {
        /// Which, counted from 1.
        number: usize,
        /// What is wrong with it.
        wrong: Box<Wrong>,
    },
    /// There are too many items.
    #[error("must have at most {most} items, but has {found}")]
    TooMany {
        /// How many there may be.
        most: usize,
        /// How many there are.
        found: usize,
    },
    /// A secret stands where others read it.
    #[error("is a secret; set {variable} instead, or keep it in the file that secrets.master_key_file names")]
    SecretHere {
        /// Where it may stand.
        variable: String,
    },
    /// No setting has this name.
    #[error("is not a setting{}", DidYouMean(nearest))]
    Unknown {
        /// The nearest, if any is near.
        nearest: Option<String>,
    },
    /// It does not go with another setting.
    #[error("must be at most {other} ({bound}), but is {found}")]
    Above {
        /// The other.
        other: &'static str,
        /// Its value.
        bound: String,
        /// What was given.
        found: String,
    },
    /// It does not go with another setting.
    #[error("must be at least {other} ({bound}), but is {found}")]
    Below {
        /// The other.
        other: &'static str,
        /// Its value.
        bound: String,
        /// What was given.
        found: String,
    },
    /// The value's own rules refuse it.
    #[error("{0}")]
    Refused(String),
    /// The file is not TOML.
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
