//! Statistics about a run, which show whether it exercised the library. They are not checked.

/// Statistics about a run, which show how much of the library the run exercised.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Tally {
    /// The number of calls admitted.
    pub calls: u64,
    /// The number of calls refused.
    pub refusals: u64,
    /// The number of requests that the store answered.
    pub requests: u64,
    /// The number of records swapped in.
    pub swaps: u64,
    /// The number of swaps that lost to another swap, or came after their deadline.
    pub lost_swaps: u64,
    /// The number of trips.
    pub trips: u64,
    /// The number of leases granted.
    pub leases: u64,
    /// The number of probes whose result was applied.
    pub results: u64,
    /// The number of probes made by workers while disconnected from the store.
    pub probes_alone: u64,
    /// The number of times that a circuit closed.
    pub closings: u64,
    /// The number of writes of a record that the store had lost, or of a decision that a worker had made
    /// while disconnected.
    pub publications: u64,
    /// The number of results that came after their lease had expired.
    pub late: u64,
    /// The number of operator overrides applied.
    pub orders: u64,
    /// The number of writes that the store rejected.
    pub refused_writes: u64,
    /// The number of graceful exits.
    pub exits: u64,
    /// The number of calls refused by a ramp.
    pub ramp_refusals: u64,
    /// The number of calls that failed only because the worker's own network is broken.
    pub broken_calls: u64,
    /// The number of terms that leaders won, without renewals.
    pub elections: u64,
    /// The number of ticks that leaders completed.
    pub ticks: u64,
    /// The number of failed polls of the table of attempts.
    pub failed_polls: u64,
    /// The number of leaders' writes that the store rejected because the term had ended.
    pub fenced_writes: u64,
}

impl Tally {
    /// Adds another run's counts to these.
    pub fn add(&mut self, more: &Self) {
        self.calls += more.calls;
        self.refusals += more.refusals;
        self.requests += more.requests;
        self.swaps += more.swaps;
        self.lost_swaps += more.lost_swaps;
        self.trips += more.trips;
        self.leases += more.leases;
        self.results += more.results;
        self.probes_alone += more.probes_alone;
        self.closings += more.closings;
        self.publications += more.publications;
        self.late += more.late;
        self.orders += more.orders;
        self.refused_writes += more.refused_writes;
        self.exits += more.exits;
        self.ramp_refusals += more.ramp_refusals;
        self.broken_calls += more.broken_calls;
        self.elections += more.elections;
        self.ticks += more.ticks;
        self.failed_polls += more.failed_polls;
        self.fenced_writes += more.fenced_writes;
    }
}
