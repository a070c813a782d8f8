//! Faults that were mended, and that tests put back to see that they are found.
//!
//! Each is asked about at the one place where its repair decides. Without the feature `sabotage` none can be put back, and the
//! question costs nothing.

/// A fault of a circuit in a fleet, as it once was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(not(feature = "sabotage"), expect(unreachable_pub, reason = "exported with the feature"))]
pub enum Fault {
    /// A process whose probe failed asks for the next one as early as any other process.
    NoStandBack,
    /// A process has no circuit of its own beside the shared one.
    NoOwnCircuit,
    /// A process that comes back to the store takes the record that it left for its own, and drops what it decided since.
    DropsProposals,
    /// A process publishes any state to a store that has none, though others may have closed the circuit since, and the record
    /// of that may have expired.
    PublishesExpired,
    /// A process that decided before it heard the store's time publishes times of its own clock.
    KeepsOwnTimes,
    /// A leader judges a sampled circuit by its whole window alone, so that a healthy past hides a dead destination.
    NoRecentTicks,
    /// A half-open sampled circuit gives out one lease after the other until the next tick, however many.
    NoProbeLimit,
}
