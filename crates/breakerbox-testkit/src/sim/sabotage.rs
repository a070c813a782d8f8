//! Faults that are put into the simulated parts on purpose, so that every invariant is seen to fail.

use breakerbox_core::Fault;

/// A fault that is put in on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Sabotage {
    /// No fault.
    #[default]
    None,
    /// The store swaps records in after their deadline.
    IgnoresDeadlines,
    /// The store replaces a record whatever its version is.
    IgnoresVersions,
    /// The store reports that a record has no lease while one is live.
    HidesLeases,
    /// The store adds every merge twice.
    MergesTwice,
    /// A request to add counts arrives twice, now and then.
    RepeatsMerges,
    /// The store adds counts whatever their epoch is.
    IgnoresEpochs,
    /// The store keeps the counts of the epoch before.
    KeepsWindows,
    /// The store answers every tenth merge and adds nothing.
    DropsMerges,
    /// From some time on the store answers every read with its state at that time, and announces no changes.
    ReadsThePast,
    /// The store reports every lease as still live.
    LeasesNeverEnd,
    /// The store forgets overrides: it reports that the circuit is automatic.
    ForgetsOverrides,
    /// Every worker's probes are reported again after their lease has ended, by rewriting the swap's deadline and version.
    RevivesResults,
    /// The store does not add successes, so that workers do not learn of the others' successes.
    DropsSuccesses,
    /// The store's write check succeeds although it can't write.
    ChecksNothing,
    /// The store reports every ramp as over.
    EndsRamps,
    /// Workers that live for a few calls exit without reporting the last ones.
    ExitsAtOnce,
    /// A process whose probe failed does not let others probe first.
    NoStandBack,
    /// A process with a broken network has no process-local circuit.
    NoOwnCircuit,
    /// A process that reaches the store again drops what it decided alone, and notifies no observer.
    DropsProposals,
    /// A process that was cut off for long publishes its old records.
    PublishesExpired,
    /// A process that decided before it knew the store's time publishes times of its own clock.
    KeepsOwnTimes,
    /// The store swaps in a leader's decisions after its term is over.
    IgnoresTerms,
    /// The table of attempts counts attempts from before a circuit's last transition.
    CountsThePast,
    /// A leader judges only the whole window, and not the latest ticks.
    NoRecentTicks,
    /// A half-open sampled circuit lets one call after the other through until the next tick.
    NoProbeLimit,
}

impl Sabotage {
    /// All faults, without [`None`](Self::None).
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

    /// Returns the former fault of the library that this puts back, if it is one.
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
