//! Ways to break what is simulated on purpose, so that every invariant is seen to fail.

use breakerbox_core::Fault;

/// What is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Sabotage {
    /// Nothing.
    #[default]
    None,
    /// The store swaps records in after their deadline.
    IgnoresDeadlines,
    /// The store replaces a record whatever its version is.
    IgnoresVersions,
    /// The store says that a record has no lease while one is live.
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
    /// From some time on the store answers every reading with what it had then, and tells nobody of changes.
    ReadsThePast,
    /// The store says that every lease is still live.
    LeasesNeverEnd,
    /// The store forgets overrides: it says that the circuit is automatic.
    ForgetsOverrides,
    /// Every worker's probes are reported again after their lease has ended, by rewriting the swap's deadline and version.
    RevivesResults,
    /// Nobody hears of the others' successes: what they count is not added.
    DropsSuccesses,
    /// The store says that it can write, and can't.
    ChecksNothing,
    /// The store says that every ramp is over.
    EndsRamps,
    /// Workers that live for a few calls exit without reporting the last ones.
    ExitsAtOnce,
    /// A process whose probe failed does not stand back for others.
    NoStandBack,
    /// A process with a broken network has no circuit of its own.
    NoOwnCircuit,
    /// A process that comes back to the store drops what it decided alone, and tells nobody.
    DropsProposals,
    /// A process that was away for long publishes what it knew then.
    PublishesExpired,
    /// A process that decided before it heard the store's time publishes times of its own clock.
    KeepsOwnTimes,
    /// The store swaps in what a leader decided, though its term is over.
    IgnoresTerms,
    /// The table of attempts counts what came before a circuit's last transition.
    CountsThePast,
    /// A leader judges the whole window alone, and not the latest ticks.
    NoRecentTicks,
    /// A half-open sampled circuit lets one call after the other through until the next tick.
    NoProbeLimit,
}

impl Sabotage {
    /// All of them, but the one that breaks nothing.
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

    /// The fault of the library that it puts back, if it is one.
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
