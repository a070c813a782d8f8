//! Types of values that only settings have.

use std::fmt;

/// A secret from the environment. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// Keeps it from being shown by accident.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret. Show it to nobody.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden")
    }
}

/// How a line of the log is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// For people, in colour on a terminal.
    #[default]
    Text,
    /// For machines: a JSON object in each line.
    Json,
}

impl LogFormat {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Text, Self::Json];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}
