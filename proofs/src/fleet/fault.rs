//! Faults of a prober, or of a process with old results, and the guarantee for each.

use std::fmt;
use std::time::Duration;

/// A fault in one process, with the guarantee that is tested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The process that probes is killed during its probe. Guarantee: the next probe is made when the lease
    /// expires, not a cool-off later.
    Killed,
    /// The process that probes is paused beyond its lease, and resumes with a success while another process
    /// probes. Guarantee: the late success changes nothing.
    PausedWhileOthersAsk,
    /// Like `PausedWhileOthersAsk`, but no other process has acquired in the meantime. Guarantee: the late
    /// success changes nothing.
    PausedAndNobodyAsks,
    /// A process is disconnected from the store, has failures, and reconnects after a recovery. Guarantee: the
    /// old failures do not trip the circuit.
    CutOff,
    /// A call that was in flight at the trip fails. Guarantee: the failure does not extend the cool-off or the
    /// lease.
    InFlight,
}

impl Fault {
    /// Every fault, in the order in which they are tested.
    pub const ALL: [Self; 5] =
        [Self::Killed, Self::PausedWhileOthersAsk, Self::PausedAndNobodyAsks, Self::CutOff, Self::InFlight];

    /// Returns the timeout for a probe. It is short if the test waits until a lease expires. Otherwise it is
    /// long, so that no probe times out on a busy machine.
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
