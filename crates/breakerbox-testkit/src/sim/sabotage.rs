//! Deliberate faults in the simulated parts, which verify that every invariant can fail.

use breakerbox_core::Fault;

/// A deliberate fault in the store, the workers or the library, which the simulator's checks must detect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Sabotage {
    /// No deliberate fault.
    #[default]
    None,
    /// The store swaps in records after their deadline.
    IgnoresDeadlines,
    /// The store replaces a record whatever its version.
    IgnoresVersions,
    /// The store reports that a record has no lease while a lease is live.
    HidesLeases,
    /// The store adds the counts of every merge twice.
    MergesTwice,
    /// Some requests to add counts arrive twice.
    RepeatsMerges,
    /// The store adds counts whatever their epoch.
    IgnoresEpochs,
    /// When a new epoch starts, the store keeps counts from the previous epoch.
    KeepsWindows,
    /// The store acknowledges every tenth merge without adding it.
    DropsMerges,
    /// After some time, the store answers every read with a saved old state, and publishes no changes.
    ReadsThePast,
    /// The store reports every lease as still live.
    LeasesNeverEnd,
    /// The store forgets overrides, and reports that the circuit is automatic.
    ForgetsOverrides,
    /// Every probe result is sent again after its lease has expired, with the swap's deadline and version
    /// rewritten.
    RevivesResults,
    /// The store drops successes, so that workers do not learn of other workers' successes.
    DropsSuccesses,
    /// The store's write check succeeds even while the store rejects writes.
    ChecksNothing,
    /// The store reports every ramp as over.
    EndsRamps,
    /// Workers that live for a few calls exit without reporting their last calls.
    ExitsAtOnce,
    /// A process whose probe failed does not let other processes probe first.
    NoStandBack,
    /// A process with a broken network has no process-local circuit.
    NoOwnCircuit,
    /// A process that reconnects to the store drops the decisions that it made while disconnected, and notifies
    /// no observer.
    DropsProposals,
    /// A process that was disconnected for a long time writes its old records.
    PublishesExpired,
    /// A process that decided before it knew the store's time writes times from its own clock.
    KeepsOwnTimes,
    /// The store swaps in a leader's decisions after the leader's term has ended.
    IgnoresTerms,
    /// The table of attempts counts attempts from before a circuit's last transition.
    CountsThePast,
    /// A leader checks only the whole window, and not the latest ticks.
    NoRecentTicks,
    /// A half-open sampled circuit admits an unlimited number of calls until the next tick.
    NoProbeLimit,
}

impl Sabotage {
    /// Every deliberate fault, without [`None`](Self::None).
    pub const ALL: [Self; 25] = [
        Self::IgnoresDeadlines,
        Self::IgnoresVersions,
        Self::HidesLeases,
        Self::MergesTwice,
        Self::RepeatsMerges,
        Self::IgnoresEpochs,
        Self::KeepsWindows,
        Self::DropsMerges,
        Self::ReadsThePast,
        Self::LeasesNeverEnd,
        Self::ForgetsOverrides,
        Self::RevivesResults,
        Self::DropsSuccesses,
        Self::ChecksNothing,
        Self::EndsRamps,
        Self::ExitsAtOnce,
        Self::NoStandBack,
        Self::NoOwnCircuit,
        Self::DropsProposals,
        Self::PublishesExpired,
        Self::KeepsOwnTimes,
        Self::IgnoresTerms,
        Self::CountsThePast,
        Self::NoRecentTicks,
        Self::NoProbeLimit,
    ];

    /// Returns the former library bug that this value reintroduces, or `None` if the fault is not in the
    /// library.
    pub(super) const fn fault(self) -> Option<Fault> {
        match self {
            Self::NoStandBack => Some(Fault::NoStandBack),
            Self::NoOwnCircuit => Some(Fault::NoOwnCircuit),
            Self::DropsProposals => Some(Fault::DropsProposals),
            Self::PublishesExpired => Some(Fault::PublishesExpired),
            Self::KeepsOwnTimes => Some(Fault::KeepsOwnTimes),
            Self::NoRecentTicks => Some(Fault::NoRecentTicks),
            Self::NoProbeLimit => Some(Fault::NoProbeLimit),
            _ => None,
        }
    }
}
