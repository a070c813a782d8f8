//! How a fleet is set up: what it does while the store is away, and how closely its processes keep together.

use crate::fleet::Mode;
use crate::fleet::worker::OnLoss;

/// The settings of one fleet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// What to do while the store is away.
    pub on_loss: OnLoss,
    /// How closely the processes keep together.
    pub mode: Mode,
}

impl Setting {
    /// Local-first, each process with circuits of its own while the store is away.
    pub const LOCAL: Self = Self { on_loss: OnLoss::Local, mode: Mode::LocalFirst };
    /// Local-first, every call admitted while the store is away.
    pub const ADMIT: Self = Self { on_loss: OnLoss::Admit, mode: Mode::LocalFirst };
    /// Local-first, every call refused while the store is away.
    pub const REFUSE: Self = Self { on_loss: OnLoss::Refuse, mode: Mode::LocalFirst };
    /// Strict, each process with circuits of its own while the store is away.
    pub const STRICT: Self = Self { on_loss: OnLoss::Local, mode: Mode::Strict };

    /// All that are tried.
    pub const ALL: [Self; 4] = [Self::LOCAL, Self::ADMIT, Self::REFUSE, Self::STRICT];

    /// The name that tables and keys use.
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
