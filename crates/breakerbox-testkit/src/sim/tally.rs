//! Counts of what happened in a run, which show whether the run exercised the library. They are not judged.

/// Counts of what happened in a run, which show whether the run exercised the library.
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
    /// Swaps that lost against another, or came too late.
    pub lost_swaps: u64,
    /// Circuits that tripped.
    pub trips: u64,
    /// Leases that were granted.
    pub leases: u64,
    /// Probes whose result was applied.
    pub results: u64,
    /// Probes that a worker made alone while it had no store.
    pub probes_alone: u64,
    /// Circuits that closed.
    pub closings: u64,
    /// Records that were written again after the store had lost them, or that had been decided without the store.
    pub publications: u64,
    /// Results that were too late.
    pub late: u64,
    /// Overrides of operators that were applied.
    pub orders: u64,
    /// Writes that the store refused.
    pub refused_writes: u64,
    /// Lives that ended with an orderly exit.
    pub exits: u64,
    /// Calls that were refused by a ramp.
    pub ramp_refusals: u64,
    /// Calls that failed only because the worker's own network is broken.
    pub broken_calls: u64,
    /// Terms that a leader won, without prolongations.
    pub elections: u64,
    /// Ticks that leaders completed.
    pub ticks: u64,
    /// Polls of the table of attempts that failed.
    pub failed_polls: u64,
    /// Writes of leaders that came after their term, and were refused.
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
