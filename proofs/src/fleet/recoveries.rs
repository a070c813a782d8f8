//! The results of many recoveries, compared with the guarantee.

use std::fmt;
use std::time::Duration;

use super::judge::Seen;
use super::protocol::Tally;
use super::rounds::Plan;

/// The maximum number of deviations that are printed.
const MAX_SHOWN: usize = 5;

/// The results of all recoveries with one plan.
#[derive(Clone, Debug)]
pub struct Recoveries {
    /// The parameters of the run.
    pub plan: Plan,
    /// The number of recoveries.
    pub rounds: u64,
    /// The number of recoveries in which the receiver saw exactly the required probes, one after the other.
    pub exact: u64,
    /// The number of requests that overlapped with another request before the circuit was closed.
    pub overlaps: u64,
    /// The number of rounds in which two processes read the same record and then competed for the same lease.
    pub raced: u64,
    /// The number of rounds in which several processes probed.
    pub by_several: u64,
    /// The number of results that arrived after their lease had expired.
    pub late: u64,
    /// The number of rounds in which a late result changed the circuit. Must be 0.
    pub late_applied: u64,
    /// The number of acquires by all processes.
    pub acquires: u64,
    /// The total duration of all rounds.
    pub took: Duration,
    deviations: u64,
    shown: Vec<String>,
}

impl Recoveries {
    pub(super) const fn new(plan: Plan) -> Self {
        Self {
            plan,
            rounds: 0,
            exact: 0,
            overlaps: 0,
            raced: 0,
            by_several: 0,
            late: 0,
            late_applied: 0,
            acquires: 0,
            took: Duration::ZERO,
            deviations: 0,
            shown: Vec::new(),
        }
    }

    pub(super) fn count(&mut self, seen: &Seen, faults: Vec<String>, raced: bool, tally: &Tally) {
        self.rounds += 1;
        self.exact += u64::from(faults.is_empty());
        self.overlaps += u64::try_from(seen.overlaps(self.plan.probes)).unwrap_or(u64::MAX);
        self.raced += u64::from(raced);
        self.by_several += u64::from(seen.is_by_several());
        self.acquires += tally.acquires;
        faults.into_iter().for_each(|fault| self.deviates(fault));
    }

    pub(super) fn deviates(&mut self, how: String) {
        self.deviations += 1;
        if self.shown.len() < MAX_SHOWN {
            self.shown.push(how);
        }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.rounds += more.rounds;
        self.exact += more.exact;
        self.overlaps += more.overlaps;
        self.raced += more.raced;
        self.by_several += more.by_several;
        self.late += more.late;
        self.late_applied += more.late_applied;
        self.acquires += more.acquires;
        self.deviations += more.deviations;
        self.shown.extend(more.shown);
        self.shown.truncate(MAX_SHOWN);
    }

    /// Returns whether processes competed in at least 10% of the rounds, so that the result is meaningful.
    #[must_use]
    pub const fn is_worth_something(&self) -> bool {
        self.raced * 10 >= self.rounds
    }

    /// Returns all deviations from the guarantee of exactly the required probes.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let Self { plan, rounds, exact, overlaps, late_applied, deviations, .. } = self;
        let wanted = u64::from(plan.endpoints) * u64::from(plan.rounds);
        let table = [
            (*rounds == wanted, format!("{rounds} recoveries, not {wanted}")),
            (
                exact == rounds,
                format!("{exact} of {rounds} recoveries had exactly the probes that are needed"),
            ),
            (*overlaps == 0, format!("{overlaps} times two were there at once")),
            (*late_applied == 0, format!("in {late_applied} rounds something late changed something")),
            (*deviations == 0, format!("{deviations} deviations")),
        ];
        let faults = table.into_iter().filter(|(is_right, _)| !is_right).map(|(_, fault)| fault);
        faults.chain(self.shown.iter().cloned()).collect()
    }

    /// Returns the table header. `Display` writes the rows.
    #[must_use]
    pub fn head() -> String {
        format!(
            "{:9} {:>8} {:>9} {:>6} {:>7} {:>7} {:>8} {:>7} {:>10} {:>7} {:>12} {:>9} {:>6}",
            "store",
            "latency",
            "processes",
            "probes",
            "rounds",
            "exact",
            "overlaps",
            "raced",
            "by several",
            "late",
            "late applied",
            "asks",
            "took"
        )
    }
}

impl fmt::Display for Recoveries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            plan, rounds, exact, overlaps, raced, by_several, late, late_applied, acquires, took, ..
        } = self;
        write!(
            f,
            "{:9} {:>8} {:9} {:6} {rounds:7} {exact:7} {overlaps:8} {raced:7} {by_several:10} {late:7} {late_applied:12} {acquires:9} {:4} s",
            plan.kind.name(),
            plan.latency.name(),
            plan.processes,
            plan.probes,
            took.as_secs()
        )?;
        self.faults().iter().try_for_each(|fault| write!(f, "\n    {fault}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::backing::Kind;
    use super::super::site::Latency;
    use super::*;

    #[test]
    fn whatever_is_not_as_promised_is_a_fault() {
        let (kind, latency) = (Kind::Redis, Latency::None);
        let plan = Plan { kind, latency, probes: 1, processes: 8, endpoints: 20, rounds: 50 };
        let good =
            || Recoveries { rounds: 1_000, exact: 1_000, raced: 100, late: 9, ..Recoveries::new(plan) };
        assert_eq!((good().faults().len(), good().is_worth_something()), (0, true));
        assert!(!Recoveries { raced: 99, ..good() }.is_worth_something());
        type Spoil = fn(&mut Recoveries);
        let table: [Spoil; 5] = [
            |all| all.rounds = 999,
            |all| all.exact = 999,
            |all| all.overlaps = 1,
            |all| all.late_applied = 1,
            |all| all.deviates("odd".into()),
        ];
        for (n, spoil) in table.into_iter().enumerate() {
            let mut all = good();
            spoil(&mut all);
            assert!(!all.faults().is_empty(), "{n}");
        }
    }
}
