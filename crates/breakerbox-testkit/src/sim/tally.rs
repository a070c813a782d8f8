//! Statistics about a run, which show whether it exercised the library. They are not checked.

/// Statistics about a run, which show whether it exercised the library.
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
    /// The number of swaps that lost to another one, or came too late.
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
    /// The number of records written again after the store had lost them, or after they were decided without
    /// the store.
    pub publications: u64,
    /// The number of late results.
    pub late: u64,
    /// The number of operator overrides applied.
    pub orders: u64,
    /// The number of writes that the store refused.
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
    /// The number of leaders' writes after their term, which were refused.
    pub fenced_writes: u64,
}

impl Tally {
    /// Adds the counts of another run.
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
