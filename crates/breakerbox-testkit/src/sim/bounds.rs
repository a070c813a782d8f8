//! How long things may take once nothing fails any more. What the simulator holds the library to, and what users are told.

use std::time::Duration;

use breakerbox::Policy;

/// How long a lease outlasts its probe's time limit.
const LEASE_MARGIN: Duration = Duration::from_secs(2);

/// How often a store that is away is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// How long a failure may wait for a success before it is reported.
const REPORTED_AFTER: Duration = Duration::from_secs(1);

/// What workers are built with, and how fast the network is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// How often reports that are due go out.
    pub flush_every: Duration,
    /// How long the store may take to answer.
    pub store_timeout: Duration,
    /// How often what is not closed is read again.
    pub reread_every: Duration,
    /// How long a message takes, at most, in good times.
    pub latency: Duration,
}

impl Settings {
    /// After how long every process that calls an endpoint knows the state that its circuit has in the store, whatever
    /// went wrong before and was missed; and after how long the store has what it lost.
    ///
    /// | what | how long |
    /// | --- | --- |
    /// | a request that was under way when things went well again is given up | `store_timeout` |
    /// | then, whichever is longest: what is not closed is read again, and 1,000 of those that are | `reread_every` |
    /// | a store that was away is tried again, and then all circuits are read again | 2 x 500 ms, and a request |
    /// | and the request itself; if it shows that the store has lost something, one more that writes it | 2 x `store_timeout` |
    #[must_use]
    pub fn agree_within(&self) -> Duration {
        let longest = self.reread_every.max(3 * TRY_AGAIN);
        3 * self.store_timeout + longest
    }

    /// After how long the circuit of an endpoint that is well, and that is called all the time, is closed.
    #[must_use]
    pub fn closed_within(&self, policy: &Policy, called_every: Duration) -> Duration {
        // Failures of before may still open it; a lease of before may have to end; and every probe takes its time.
        let opens_last = policy.window();
        let lease = policy.probe_timeout() + LEASE_MARGIN;
        let round = called_every + 2 * self.store_timeout + Duration::from_millis(500);
        opens_last + policy.cool_off_max() + lease + policy.probes() * round + 2 * self.agree_within()
    }

    /// After how long all that has to be reported has been.
    #[must_use]
    pub fn told_within(&self) -> Duration {
        REPORTED_AFTER + self.flush_every + 2 * self.store_timeout
    }

    /// After how long a circuit is open since a process settled the outcome that is one too many, and then flushed.
    #[must_use]
    pub fn opened_within(&self) -> Duration {
        Duration::from_secs(1) + self.flush_every + 5 * self.store_timeout
    }

    /// After how long a process knows that a store which answers reads refuses writes, since it first refused one.
    #[must_use]
    pub fn reported_within(&self) -> Duration {
        Duration::from_secs(1) + 3 * self.store_timeout
    }
}
