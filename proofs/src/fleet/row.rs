//! The results of all rounds for one guarantee, with one store and one consistency mode.

use std::fmt;
use std::time::Duration;

use anyhow::Result;

use super::backing::Kind;
use super::mode::Mode;
use super::process::Process;

/// The maximum number of deviations that are printed.
const SHOWN: usize = 5;

/// The size of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    /// The number of rounds.
    pub rounds: u32,
    /// The number of rounds that run in parallel, each on its own endpoint.
    pub side_by_side: u32,
    /// The timeout for store requests.
    pub store_timeout: Duration,
    /// Whether durations are checked in addition to counts. Set to `false` on a busy machine, where durations
    /// vary too much.
    pub judges_times: bool,
}

impl Scale {
    /// Returns the full scale, with the library's default store timeout.
    #[must_use]
    pub const fn full(rounds: u32) -> Self {
        Self { rounds, side_by_side: 10, store_timeout: Duration::from_millis(500), judges_times: true }
    }

    /// Returns a small scale that works on a machine of any speed, because durations are not checked.
    #[must_use]
    pub const fn small(rounds: u32) -> Self {
        Self { rounds, side_by_side: rounds, store_timeout: Duration::from_secs(3), judges_times: false }
    }

    /// Raises the store timeout, so that no worker sees the store as lost, however busy the machine is.
    #[must_use]
    pub const fn patient(mut self) -> Self {
        self.store_timeout = Duration::from_secs(20);
        self
    }
}

/// One row in the table of results.
#[derive(Clone, Debug)]
pub struct Row {
    /// The kind of store.
    pub kind: Kind,
    /// The fleet's consistency mode.
    pub mode: Mode,
    /// The name of the guarantee that is tested.
    pub promise: &'static str,
    /// The number of rounds.
    pub rounds: u64,
    /// The number of rounds in which the guarantee was met.
    pub kept: u64,
    /// The measurements, formatted.
    pub figures: String,
    /// The duration of the test.
    pub took: Duration,
    deviations: Vec<String>,
}

impl Row {
    pub(super) fn new(kind: Kind, mode: Mode, promise: &'static str) -> Self {
        let (figures, deviations) = (String::new(), Vec::new());
        Self { kind, mode, promise, rounds: 0, kept: 0, figures, took: Duration::ZERO, deviations }
    }

    /// Counts a round, with its deviations from the guarantee.
    pub(super) fn count(&mut self, deviations: Vec<String>) {
        self.rounds += 1;
        self.kept += u64::from(deviations.is_empty());
        self.deviations.extend(deviations);
        self.deviations.truncate(SHOWN);
    }

    /// Records a deviation if a worker saw the store as lost, which happens if the machine is too busy.
    /// Without the store, each process decides on its own, so the row's results are meaningless.
    pub(super) async fn note_losses(&mut self, worker: &Process) -> Result<()> {
        let losses = worker.health().await?.losses;
        if losses > 0 {
            self.deviations
                .push(format!("worker {} took the store for lost {losses} times", worker.number()));
        }
        Ok(())
    }

    /// Returns all deviations from the row's guarantee.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.rounds == 0 || self.kept != self.rounds {
            faults.push(format!("{} of {} rounds were as promised", self.kept, self.rounds));
        }
        faults.extend(self.deviations.iter().cloned());
        faults
    }

    /// Returns the table header. `Display` writes the rows.
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

/// Formats the maximum and the mean of some durations.
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
