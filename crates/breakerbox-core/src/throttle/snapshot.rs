//! What a throttle shows of itself.

use alloc::boxed::Box;
use core::fmt;

/// What a throttle of [`Strategy::Adaptive`](super::Strategy::Adaptive) does now.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ThrottleState {
    /// Every call is sent.
    Calm,
    /// The destination takes fewer calls than are asked for; the rest is shed.
    Shedding,
    /// Nothing is accepted any more, and only a few calls are sent, to see whether that has changed.
    Probing,
}

impl ThrottleState {
    /// `calm`, `shedding` or `probing`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Shedding => "shedding",
            Self::Probing => "probing",
        }
    }
}

impl fmt::Display for ThrottleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a throttle does, and what it has done since it was made.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct ThrottleSnapshot {
    /// What it does now. None with [`Strategy::Sre`](super::Strategy::Sre).
    pub state: Option<ThrottleState>,
    /// How many calls a second are let through now, as far as it has learnt what the destination takes. None if all are, and
    /// with [`Strategy::Sre`](super::Strategy::Sre).
    pub rate: Option<f64>,
    /// Calls that were let through.
    pub admitted: u64,
    /// Calls that the destination accepted.
    pub accepted: u64,
    /// Calls that the destination rejected, except those that were sent before the latest change of state. None with
    /// [`Strategy::Sre`](super::Strategy::Sre), which does not count them.
    pub rejected: Option<u64>,
    /// Calls that were shed, by level of priority, the most important first.
    pub shed: Box<[u64]>,
}

impl ThrottleSnapshot {
    /// Calls that were shed, of all levels.
    #[must_use]
    pub fn shed_in_total(&self) -> u64 {
        self.shed.iter().sum()
    }
}
