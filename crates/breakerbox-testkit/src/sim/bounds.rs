//! The time limits that apply once all faults have ended. The simulator checks the library against them, and
//! the documentation states them.

use std::time::Duration;

use breakerbox::Policy;

/// How much longer a probe's lease lasts than the probe's timeout.
const LEASE_MARGIN: Duration = Duration::from_secs(2);

/// The interval at which a process retries an unreachable store.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// The maximum time that a process may hold back a failure in case a success follows.
const REPORTED_AFTER: Duration = Duration::from_secs(1);

/// The workers' settings, and the network's latency.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// The interval at which due reports are sent.
    pub flush_every: Duration,
    /// The timeout for a request to the store.
    pub store_timeout: Duration,
    /// The interval at which circuits that are not closed are read again.
    pub reread_every: Duration,
    /// The maximum time that a message takes without a fault.
    pub latency: Duration,
}

impl Settings {
    /// Returns the maximum time after the last fault until every process that calls an endpoint agrees with the
    /// store about the endpoint's circuit, and all records that the store lost have been written again.
    ///
    /// | step | maximum time |
    /// | --- | --- |
    /// | a request that was in flight when the fault ended times out | `store_timeout` |
    /// | then either circuits that are not closed are read again, with 1,000 closed circuits | `reread_every` |
    /// | or an unreachable store is retried, and then all circuits are read again | 2 x 500 ms, and a request |
    /// | then that read ends, and if the store lost a record, another request writes it again | 2 x `store_timeout` |
    #[must_use]
    pub fn agree_within(&self) -> Duration {
        let longest = self.reread_every.max(3 * TRY_AGAIN);
        3 * self.store_timeout + longest
    }

    /// Returns the maximum time after the last fault until the circuit of a healthy endpoint with continuous
    /// traffic is closed.
    #[must_use]
    pub fn closed_within(&self, policy: &Policy, called_every: Duration) -> Duration {
        // Earlier failures may still open it, an earlier lease may have to expire, and every probe takes time.
        let opens_last = policy.window();
        let lease = policy.probe_timeout() + LEASE_MARGIN;
        let round = called_every + 2 * self.store_timeout + Duration::from_millis(500);
        opens_last + policy.cool_off_max() + lease + policy.probes() * round + 2 * self.agree_within()
    }

    /// Returns the maximum time from the last outcome until all outcomes that must be reported have been
    /// reported.
    #[must_use]
    pub fn counts_reported_within(&self) -> Duration {
        REPORTED_AFTER + self.flush_every + 2 * self.store_timeout
    }

    /// Returns the maximum time from the last failure that a trip requires until the circuit is open. In this
    /// time, the failure is reported, the other processes report, and the trip is written.
    #[must_use]
    pub fn opened_within(&self) -> Duration {
        Duration::from_secs(1) + self.flush_every + 5 * self.store_timeout
    }

    /// Returns the maximum time from the last moment at which a trip condition was met until a process opens
    /// the circuit. In this time, the process reports its counts, waits for the other processes' reports,
    /// reads the totals again, and writes the record.
    #[must_use]
    pub fn tripped_within(&self) -> Duration {
        2 * (self.flush_every + self.store_timeout) + 3 * self.store_timeout
    }

    /// Returns the maximum time from the first rejected write until a process reports that the store rejects
    /// writes.
    #[must_use]
    pub fn reported_within(&self) -> Duration {
        Duration::from_secs(1) + 3 * self.store_timeout
    }
}
