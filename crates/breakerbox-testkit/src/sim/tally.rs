//! How often what happened in a run, so that it can be told whether it was worth something. It judges nothing.

/// What happened in a run, for those who want to know that it was worth something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Tally {
    /// Calls that were admitted.
    pub calls: u64,
    /// Calls that were refused.
    pub refusals: u64,
    /// Requests that the store answered.
    pub requests: u64,
    /// Records that were swapped in.
    pub swaps: u64,
    /// Swaps that somebody else was faster than, or that came too late.
    pub lost_swaps: u64,
    /// Circuits that tripped.
    pub trips: u64,
    /// Leases that were given.
    pub leases: u64,
    /// Probes whose result was applied.
    pub results: u64,
    /// Probes that a worker made by itself while the store was away.
    pub probes_alone: u64,
    /// Circuits that closed.
    pub closings: u64,
    /// Records that were written again after the store had lost them, or that were decided alone.
    pub publications: u64,
    /// Results that were too late.
    pub late: u64,
    /// Orders of operators that were done.
    pub orders: u64,
    /// Writes that the store refused.
    pub refused_writes: u64,
    /// Lives that ended in an orderly way.
    pub exits: u64,
    /// Calls that were refused by a ramp.
    pub ramp_refusals: u64,
    /// Calls that failed only because the worker's own network is broken.
    pub broken_calls: u64,
    /// Terms of leaders that were not prolonged ones.
    pub elections: u64,
    /// Ticks that leaders did.
    pub ticks: u64,
    /// Polls that failed.
    pub failed_polls: u64,
    /// Writes of leaders that came after their term, and were refused.
    pub fenced_writes: u64,
}

impl Tally {
    /// Adds another run's.
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
