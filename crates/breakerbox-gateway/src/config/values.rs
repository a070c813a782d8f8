//! Types of values that only settings have.

use std::fmt;

/// A secret setting. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// Wraps a secret, so that it is not shown by accident.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the secret. Do not log or print it.
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

/// The format of log lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// Text for people, in colour on a terminal.
    #[default]
    Text,
    /// One JSON object per line, for machines.
    Json,
}

impl LogFormat {
    /// All formats.
    pub const ALL: [Self; 2] = [Self::Text, Self::Json];

    /// Returns the name in the settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}
