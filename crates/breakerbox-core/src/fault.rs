//! Faults that were fixed, and that tests put back to verify that other tests find them.
//!
//! Each is checked at the one place where its fix decides. Without the feature `sabotage`, none can be put back, and
//! the check costs nothing.

/// A known fault in shared circuits. It is fixed, but tests can inject it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(not(feature = "sabotage"), expect(unreachable_pub, reason = "exported with the feature"))]
pub enum Fault {
    /// A process whose probe failed may take the next probe as early as any other process.
    NoStandBack,
    /// A process has no process-local circuit in addition to the shared one.
    NoOwnCircuit,
    /// A process that reconnects to the store adopts the record that it last saw there, and drops the decisions that it
    /// made while disconnected.
    DropsProposals,
    /// A process publishes any state to a store that has no record, even though other processes may have closed the
    /// circuit meanwhile and the closed record may have expired.
    PublishesExpired,
    /// A process that made a decision before it knew the store's time publishes the decision with times by its own
    /// clock.
    KeepsOwnTimes,
    /// A leader evaluates a sampled circuit only over the whole window, so that earlier successes hide the fact that
    /// the destination is down.
    NoRecentTicks,
    /// A half-open sampled circuit gives an unlimited number of leases between two ticks.
    NoProbeLimit,
}
