//! What came of all rounds of one promise over one store in one mode, and whether it holds.

use std::fmt;
use std::time::Duration;

use anyhow::Result;

use super::backing::Kind;
use super::mode::Mode;
use super::process::Process;

/// How many deviations are shown.
const SHOWN: usize = 5;

/// How much is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    /// How many rounds.
    pub rounds: u32,
    /// How many of them run side by side, on endpoints of their own.
    pub side_by_side: u32,
    /// How long the store may take to answer.
    pub store_timeout: Duration,
    /// Whether times count. On a busy machine they don't: only counts do.
    pub judges_times: bool,
}

impl Scale {
    /// As promised, with the library's own time limit.
    #[must_use]
    pub const fn full(rounds: u32) -> Self {
        Self { rounds, side_by_side: 10, store_timeout: Duration::from_millis(500), judges_times: true }
    }

    /// Enough to see whether it holds, on a machine of whatever speed.
    #[must_use]
    pub const fn small(rounds: u32) -> Self {
        Self { rounds, side_by_side: rounds, store_timeout: Duration::from_secs(3), judges_times: false }
    }

    /// The same for a store that must never be taken for lost, however busy the machine is.
    #[must_use]
    pub const fn patient(mut self) -> Self {
        self.store_timeout = Duration::from_secs(20);
        self
    }
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Over which store.
    pub kind: Kind,
    /// In which mode.
    pub mode: Mode,
    /// What is promised.
    pub promise: &'static str,
    /// How many rounds there were.
    pub rounds: u64,
    /// In how many of them all was as promised.
    pub kept: u64,
    /// What was measured, in words.
    pub figures: String,
    /// How long it took.
    pub took: Duration,
    deviations: Vec<String>,
}

impl Row {
    pub(super) fn new(kind: Kind, mode: Mode, promise: &'static str) -> Self {
        let (figures, deviations) = (String::new(), Vec::new());
        Self { kind, mode, promise, rounds: 0, kept: 0, figures, took: Duration::ZERO, deviations }
    }

    /// Counts a round, with everything that was not as promised.
    pub(super) fn count(&mut self, deviations: Vec<String>) {
        self.rounds += 1;
        self.kept += u64::from(deviations.is_empty());
        self.deviations.extend(deviations);
        self.deviations.truncate(SHOWN);
    }

    /// Notes whether a worker took the store for lost. On a machine that is too busy that happens, and then each process
    /// decides alone: the row proves nothing.
    pub(super) async fn note_losses(&mut self, worker: &Process) -> Result<()> {
        let losses = worker.health().await?.losses;
        if losses > 0 {
            self.deviations
                .push(format!("worker {} took the store for lost {losses} times", worker.number()));
        }
        Ok(())
    }

    /// Everything that is not as promised.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.rounds == 0 || self.kept != self.rounds {
            faults.push(format!("{} of {} rounds were as promised", self.kept, self.rounds));
        }
        faults.extend(self.deviations.iter().cloned());
        faults
    }

    /// The head of the table whose rows this displays as.
    #[must_use]
    pub fn head() -> String {
        format!(
            "{:9} {:11} {:24} {:>6} {:>5} {:>6} {:7}  figures",
            "store", "mode", "promise", "rounds", "kept", "took", "verdict"
        )
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, mode, promise, rounds, kept, figures, took, .. } = self;
        let faults = self.faults();
        let verdict = if faults.is_empty() { "holds" } else { "BROKEN" };
        write!(
            f,
            "{:9} {:11} {promise:24} {rounds:6} {kept:5} {:4} s {verdict:7}  {figures}",
            kind.name(),
            mode.name(),
            took.as_secs()
        )?;
        faults.iter().try_for_each(|fault| write!(f, "\n    {fault}"))
    }
}

/// The longest and the mean of some times, in words.
pub(super) fn longest_and_mean(times: &[Duration]) -> String {
    let longest = times.iter().max().copied().unwrap_or_default();
    let count = u32::try_from(times.len()).unwrap_or(u32::MAX).max(1);
    let mean = times.iter().sum::<Duration>() / count;
    format!("longest {:.2} s, mean {:.2} s", longest.as_secs_f64(), mean.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_only_if_every_round_does() {
        let mut row = Row::new(Kind::Redis, Mode::Strict, "a promise");
        assert_eq!(row.faults().len(), 1, "nothing was tried");
        row.count(Vec::new());
        assert_eq!((row.faults().len(), row.to_string().contains("holds")), (0, true));
        row.count(vec!["odd".into()]);
        assert_eq!((row.faults().len(), row.to_string().contains("BROKEN")), (2, true));
        assert_eq!((row.rounds, row.kept), (2, 1));
    }

    #[test]
    fn times_are_summed_up() {
        let times = [Duration::from_millis(500), Duration::from_millis(1_500)];
        assert_eq!(longest_and_mean(&times), "longest 1.50 s, mean 1.00 s");
        assert_eq!(longest_and_mean(&[]), "longest 0.00 s, mean 0.00 s");
    }
}
