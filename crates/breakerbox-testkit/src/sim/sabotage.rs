//! Ways to break what is simulated on purpose, so that every invariant is seen to fail.

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
}

impl Sabotage {
    /// All of them, but the one that breaks nothing.
    pub const ALL: [Self; 13] = [
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
    ];
}
