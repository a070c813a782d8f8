//! Faults of a prober, or of a process with old results, and the promise for each.

use std::fmt;
use std::time::Duration;

/// A fault of one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The prober is killed during its probe. The next probe comes when the lease ends, not a cool-off later.
    Killed,
    /// The prober is stopped beyond its lease, and resumes with a success while another process probes. Nothing
    /// changes.
    PausedWhileOthersAsk,
    /// The same, and no other process has acquired meanwhile. Nothing changes.
    PausedAndNobodyAsks,
    /// A process is cut off from the store, has failures, and returns after a recovery. It does not trip the circuit.
    CutOff,
    /// A call that was in flight at the trip fails. It moves no deadline.
    InFlight,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 5] =
        [Self::Killed, Self::PausedWhileOthersAsk, Self::PausedAndNobodyAsks, Self::CutOff, Self::InFlight];

    /// Returns the timeout of a probe. It is short where the proof waits for the end of a lease, and long where a probe
    /// has to be in time on a busy machine.
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
