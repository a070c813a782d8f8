//! The priorities of events.

use std::fmt;
use std::str::FromStr;

use breakerbox_core::throttle;

/// The priority of an event. It orders deliveries within one tenant, never across tenants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Priority {
    /// For events that are critical to users.
    High,
    /// For events that are important, but not critical.
    Important,
    /// For events whose delay affects few users.
    #[default]
    Medium,
    /// For events that are trivial, or that can easily be sent later.
    Low,
}

impl Priority {
    /// All priorities, the most important first.
    pub const ALL: [Self; 4] = [Self::High, Self::Important, Self::Medium, Self::Low];

    /// Returns the priority's index in [`ALL`](Self::ALL).
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the priority's name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Important => "important",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

impl From<Priority> for throttle::Priority {
    fn from(priority: Priority) -> Self {
        match priority {
            Priority::High => Self::HIGH,
            Priority::Important => Self::IMPORTANT,
            Priority::Medium => Self::MEDIUM,
            Priority::Low => Self::LOW,
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The string is not the name of a priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be high, important, medium or low")]
pub struct UnknownPriority;

impl FromStr for Priority {
    type Err = UnknownPriority;

    fn from_str(text: &str) -> Result<Self, UnknownPriority> {
        Self::ALL.into_iter().find(|priority| priority.name() == text).ok_or(UnknownPriority)
    }
}
