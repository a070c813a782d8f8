//! The state and the counts of a throttle, for reports.

use alloc::boxed::Box;
use core::fmt;

/// The state of a throttle with [`Strategy::Adaptive`](super::Strategy::Adaptive).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ThrottleState {
    /// Every call is admitted.
    Calm,
    /// The destination takes fewer calls than callers acquire; the rest is shed.
    Shedding,
    /// The destination accepts no call any more. Only a few calls are admitted, to detect its recovery.
    Probing,
}

impl ThrottleState {
    /// Returns the name: `calm`, `shedding` or `probing`.
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

/// The state of a throttle, and its counts since it was created.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct ThrottleSnapshot {
    /// The current state. `None` with [`Strategy::Sre`](super::Strategy::Sre).
    pub state: Option<ThrottleState>,
    /// The number of calls per second that are admitted now, by the learnt capacity of the destination. `None` if
    /// every call is, and with [`Strategy::Sre`](super::Strategy::Sre).
    pub rate: Option<f64>,
    /// Calls that were admitted.
    pub admitted: u64,
    /// Calls that the destination accepted.
    pub accepted: u64,
    /// Calls that the destination rejected, except those that were sent before the latest change of state. `None`
    /// with [`Strategy::Sre`](super::Strategy::Sre), which does not count them.
    pub rejected: Option<u64>,
    /// Calls that were shed, by level of priority, the most important first.
    pub shed: Box<[u64]>,
}

impl ThrottleSnapshot {
    /// Returns the number of calls that were shed, over all levels.
    #[must_use]
    pub fn shed_in_total(&self) -> u64 {
        self.shed.iter().sum()
    }
}
