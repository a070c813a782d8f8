//! Faults that were fixed, and that tests put back to verify that they are found.
//!
//! Each is checked at the one place where its fix decides. Without the feature `sabotage` none can be put back, and
//! the check costs nothing.

/// A fault of a circuit in a fleet that was fixed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(not(feature = "sabotage"), expect(unreachable_pub, reason = "exported with the feature"))]
pub enum Fault {
    /// A process whose probe failed acquires the next one as early as any other process.
    NoStandBack,
    /// A process has no process-local circuit beside the shared one.
    NoOwnCircuit,
    /// A process that reconnects to the store takes the record that it last saw there, and drops its decisions since.
    DropsProposals,
    /// A process publishes any state to a store that has no record, though other processes may have closed the
    /// circuit since, and that record may have expired.
    PublishesExpired,
    /// A process that decided before it knew the store's time publishes times of its own clock.
    KeepsOwnTimes,
    /// A leader evaluates a sampled circuit by its whole window alone, so that a healthy past hides a dead
    /// destination.
    NoRecentTicks,
    /// A half-open sampled circuit gives one lease after the other until the next tick, without a limit.
    NoProbeLimit,
}
