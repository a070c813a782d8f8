//! The settings of a fleet: its behaviour while the store is unreachable, and its consistency mode.

use crate::fleet::Mode;
use crate::fleet::worker::OnLoss;

/// The settings of one fleet in an outage test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// What the fleet does while the store is unreachable.
    pub on_loss: OnLoss,
    /// The fleet's consistency mode.
    pub mode: Mode,
}

impl Setting {
    /// Local-first mode, with process-local circuits while the store is unreachable.
    pub const LOCAL: Self = Self { on_loss: OnLoss::Local, mode: Mode::LocalFirst };
    /// Local-first mode. Every call is admitted while the store is unreachable.
    pub const ADMIT: Self = Self { on_loss: OnLoss::Admit, mode: Mode::LocalFirst };
    /// Local-first mode. Every call is refused while the store is unreachable.
    pub const REFUSE: Self = Self { on_loss: OnLoss::Refuse, mode: Mode::LocalFirst };
    /// Strict mode, with process-local circuits while the store is unreachable.
    pub const STRICT: Self = Self { on_loss: OnLoss::Local, mode: Mode::Strict };

    /// Every combination of settings that is tested.
    pub const ALL: [Self; 4] = [Self::LOCAL, Self::ADMIT, Self::REFUSE, Self::STRICT];

    /// Returns the setting's name in tables and keys.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match (self.mode, self.on_loss) {
            (Mode::LocalFirst, on_loss) => on_loss.name(),
            (Mode::Strict, OnLoss::Local) => "strict",
            (Mode::Strict, OnLoss::Admit) => "strict-admit",
            (Mode::Strict, OnLoss::Refuse) => "strict-refuse",
        }
    }
}
