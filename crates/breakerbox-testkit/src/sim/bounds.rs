//! The time limits that hold once nothing fails any more. The simulator checks the library by them, and the
//! documentation states them.

use std::time::Duration;

use breakerbox::Policy;

/// How much longer a lease is than its probe's timeout.
const LEASE_MARGIN: Duration = Duration::from_secs(2);

/// The interval at which an unreachable store is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// How long a failure may wait for a success before it is reported.
const REPORTED_AFTER: Duration = Duration::from_secs(1);

/// The settings of the workers, and the latency of the network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// The interval at which due reports are sent.
    pub flush_every: Duration,
    /// The timeout of a request to the store.
    pub store_timeout: Duration,
    /// The interval at which circuits that are not closed are read again.
    pub reread_every: Duration,
    /// The longest time that a message takes without a fault.
    pub latency: Duration,
}

impl Settings {
    /// Returns after how long every process that calls an endpoint has the state that its circuit has in the store,
    /// whatever failed before and was missed; and after how long the store has again what it lost.
    ///
    /// | what | how long |
    /// | --- | --- |
    /// | a request that was in flight when the fault ended times out | `store_timeout` |
    /// | then, whichever is longest: circuits that are not closed are read again, and 1,000 of those that are | `reread_every` |
    /// | an unreachable store is tried again, and then all circuits are read again | 2 x 500 ms, and a request |
    /// | and the request itself; if it shows that the store has lost something, one more that writes it | 2 x `store_timeout` |
    #[must_use]
    pub fn agree_within(&self) -> Duration {
        let longest = self.reread_every.max(3 * TRY_AGAIN);
        3 * self.store_timeout + longest
    }

    /// Returns after how long the circuit of an endpoint that is well, and that is called all the time, is closed.
    #[must_use]
    pub fn closed_within(&self, policy: &Policy, called_every: Duration) -> Duration {
        // Earlier failures may still open it; an earlier lease may have to end; and every probe takes its time.
        let opens_last = policy.window();
        let lease = policy.probe_timeout() + LEASE_MARGIN;
        let round = called_every + 2 * self.store_timeout + Duration::from_millis(500);
        opens_last + policy.cool_off_max() + lease + policy.probes() * round + 2 * self.agree_within()
    }

    /// Returns after how long all outcomes that have to be reported have been.
    #[must_use]
    pub fn counts_reported_within(&self) -> Duration {
        REPORTED_AFTER + self.flush_every + 2 * self.store_timeout
    }

    /// Returns after how long a circuit is open, from when a process settled the last failure needed and then flushed.
    #[must_use]
    pub fn opened_within(&self) -> Duration {
        Duration::from_secs(1) + self.flush_every + 5 * self.store_timeout
    }

    /// Returns after how long at most a process opens a circuit, from when a rule was broken last: it reports, gives the
    /// others time to report, looks again, and writes.
    #[must_use]
    pub fn tripped_within(&self) -> Duration {
        2 * (self.flush_every + self.store_timeout) + 3 * self.store_timeout
    }

    /// Returns after how long a process reports that a store which answers reads refuses writes, from the first
    /// refused write.
    #[must_use]
    pub fn reported_within(&self) -> Duration {
        Duration::from_secs(1) + 3 * self.store_timeout
    }
}
