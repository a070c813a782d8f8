//! What befalls a prober, or somebody whose results are old, and what is promised then.

use std::fmt;
use std::time::Duration;

/// What befalls a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The prober is killed in the middle of its probe. The next probe comes when the lease ends, not a cool-off later.
    Killed,
    /// The prober is stopped beyond its lease, and goes on with a success while somebody else probes. Nothing changes.
    PausedWhileOthersAsk,
    /// The same, and nobody has asked meanwhile. Nothing changes.
    PausedAndNobodyAsks,
    /// A process is cut off from the store, with failures, and comes back after a recovery. It does not trip the circuit.
    CutOff,
    /// A call fails that was in flight at the trip. It moves no deadline.
    InFlight,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Killed, Self::PausedWhileOthersAsk, Self::PausedAndNobodyAsks, Self::CutOff, Self::InFlight];

    /// How long a probe may take. Where a lease has to end, that is waited for; where a probe has to be in time, a busy machine
    /// must have time for it.
    pub(super) const fn probe_timeout(self) -> Duration {
        Duration::from_millis(match self {
            Self::Killed => 1_000,
            Self::PausedWhileOthersAsk | Self::PausedAndNobodyAsks => 4_000,
            Self::CutOff | Self::InFlight => 60_000,
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Killed => "prober killed",
            Self::PausedWhileOthersAsk => "prober stopped, others ask",
            Self::PausedAndNobodyAsks => "prober stopped, nobody asks",
            Self::CutOff => "cut off with old failures",
            Self::InFlight => "failures in flight at a trip",
        })
    }
}
