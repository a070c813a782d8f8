//! The consistency mode of a fleet, as an option for a test and for a worker.

use breakerbox::Consistency;
use clap::ValueEnum;

/// The consistency mode of a fleet.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Mode {
    /// Each process decides from its local state, and reports outcomes in the background.
    LocalFirst,
    /// Every acquire reads from the store, and every outcome is merged before the caller continues.
    Strict,
}

impl Mode {
    /// Every consistency mode.
    pub const ALL: [Self; 2] = [Self::LocalFirst, Self::Strict];

    /// Returns the mode's name in options and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalFirst => "local-first",
            Self::Strict => "strict",
        }
    }
}

impl From<Mode> for Consistency {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::LocalFirst => Self::LocalFirst,
            Mode::Strict => Self::Strict,
        }
    }
}
