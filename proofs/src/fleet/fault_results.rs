//! The results of many rounds with one fault, compared with the guarantee.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures_util::future::try_join_all;

use super::backing::Kind;
use super::fault::Fault;
use super::inject_fault::Round;
use super::lane::Lane;
use super::site::Site;

/// The maximum number of deviations that are printed.
const MAX_SHOWN: usize = 5;

/// The results of all rounds with one fault.
#[derive(Clone, Debug)]
pub struct FaultResults {
    /// The kind of store.
    pub kind: Kind,
    /// The injected fault.
    pub fault: Fault,
    /// The number of rounds.
    pub rounds: u64,
    /// The number of rounds in which the guarantee was met.
    pub kept: u64,
    /// The number of results that arrived after their lease had expired.
    pub late: u64,
    /// The number of late results that changed the circuit's record. Must be 0.
    pub late_applied: u64,
    /// The maximum time from the end of the lease to the next probe, or `None` if it is not measured.
    pub after_lease: Option<Duration>,
    /// The total duration of all rounds.
    pub took: Duration,
    shown: Vec<String>,
}

/// Injects a fault into `lanes` parallel groups of processes, with `rounds` rounds each.
///
/// # Errors
/// Returns an error if a server or a worker fails. Violated guarantees are reported in the result.
pub async fn inject_fault(
    program: &Path,
    kind: Kind,
    fault: Fault,
    lanes: u32,
    rounds: u32,
) -> Result<FaultResults> {
    let site = Site::start(program, kind).await?;
    let began = Instant::now();
    let lanes = (0..lanes).map(|number| {
        let site = &site;
        async move {
            let mut lane = Lane::start(site, number, fault.probe_timeout()).await?;
            let mut own = FaultResults::new(kind, fault);
            for round in 0..rounds {
                // Half of the parallel lanes run one variant of the fault, and half the other.
                let done = lane.inject_fault(fault, round + number).await;
                own.count(done.with_context(|| format!("{fault}, lane {number}, round {round}"))?);
            }
            anyhow::Ok(own)
        }
    });
    let mut all = FaultResults::new(kind, fault);
    for own in try_join_all(lanes).await? {
        all.add(own);
    }
    all.took = began.elapsed();
    Ok(all)
}

impl FaultResults {
    const fn new(kind: Kind, fault: Fault) -> Self {
        Self {
            kind,
            fault,
            rounds: 0,
            kept: 0,
            late: 0,
            late_applied: 0,
            after_lease: None,
            took: Duration::ZERO,
            shown: Vec::new(),
        }
    }

    fn count(&mut self, round: Round) {
        self.rounds += 1;
        self.kept += u64::from(round.faults.is_empty());
        self.late += round.late;
        self.late_applied += round.late_applied;
        self.after_lease = self.after_lease.max(round.after_lease);
        self.shown.extend(round.faults);
    }

    fn add(&mut self, more: Self) {
        self.rounds += more.rounds;
        self.kept += more.kept;
        self.late += more.late;
        self.late_applied += more.late_applied;
        self.after_lease = self.after_lease.max(more.after_lease);
        self.shown.extend(more.shown);
    }

    /// Returns all deviations from the fault's guarantee.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let Self { rounds, kept, late_applied, .. } = self;
        let table = [
            (kept == rounds, format!("{kept} of {rounds} rounds were as promised")),
            (*late_applied == 0, format!("{late_applied} times something late changed something")),
        ];
        let faults = table.into_iter().filter(|(is_right, _)| !is_right).map(|(_, fault)| fault);
        faults.chain(self.shown.iter().take(MAX_SHOWN).cloned()).collect()
    }

    /// Returns the table header. `Display` writes the rows.
    #[must_use]
    pub fn head() -> String {
        format!(
            "{:9} {:28} {:>7} {:>11} {:>7} {:>12} {:>21} {:>6}",
            "store", "fault", "rounds", "as promised", "late", "late applied", "next probe, lease +", "took"
        )
    }
}

impl fmt::Display for FaultResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, fault, rounds, kept, late, late_applied, took, .. } = self;
        let next =
            self.after_lease.map_or_else(|| "-".to_owned(), |after| format!("{} ms", after.as_millis()));
        write!(
            f,
            "{:9} {fault:28} {rounds:7} {kept:11} {late:7} {late_applied:12} {next:>21} {:4} s",
            kind.name(),
            took.as_secs()
        )?;
        self.faults().iter().try_for_each(|fault| write!(f, "\n    {fault}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_not_as_promised_is_a_fault() {
        let good = || FaultResults {
            rounds: 50,
            kept: 50,
            late: 50,
            ..FaultResults::new(Kind::Redis, Fault::Killed)
        };
        assert_eq!(good().faults().len(), 0);
        assert_eq!(FaultResults { kept: 49, ..good() }.faults().len(), 1);
        assert_eq!(FaultResults { late_applied: 1, ..good() }.faults().len(), 1);
        let mut odd = good();
        odd.count(Round { faults: vec!["odd".into()], ..Round::default() });
        assert_eq!(odd.faults().len(), 2);
    }
}
