//! A throttle's state and counts, for reports.

use alloc::boxed::Box;
use core::fmt;

/// The state of a throttle with [`Strategy::Adaptive`](super::Strategy::Adaptive).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ThrottleState {
    /// Every call is admitted.
    Calm,
    /// Callers request more calls than the destination can handle. The excess is shed.
    Shedding,
    /// The destination has stopped accepting calls. Only a few are admitted, to detect its recovery.
    Probing,
}

impl ThrottleState {
    /// Returns the state's name: `calm`, `shedding` or `probing`.
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

/// A throttle's state, and its counts since it was created.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct ThrottleSnapshot {
    /// The current state. `None` with [`Strategy::Sre`](super::Strategy::Sre).
    pub state: Option<ThrottleState>,
    /// The number of calls per second that are admitted now, according to the destination's learnt capacity. `None`
    /// if every call is admitted, and with [`Strategy::Sre`](super::Strategy::Sre).
    pub rate: Option<f64>,
    /// The number of calls that were admitted.
    pub admitted: u64,
    /// The number of calls that the destination accepted.
    pub accepted: u64,
    /// The number of calls that the destination rejected. A reject does not count if the throttle has turned calm or
    /// started probing since the call was sent. `None` with [`Strategy::Sre`](super::Strategy::Sre), which does not
    /// count rejects.
    pub rejected: Option<u64>,
    /// The number of calls that were shed, by priority level, the most important first.
    pub shed: Box<[u64]>,
}

impl ThrottleSnapshot {
    /// Returns the number of calls that were shed, at all levels.
    #[must_use]
    pub fn shed_in_total(&self) -> u64 {
        self.shed.iter().sum()
    }
}
