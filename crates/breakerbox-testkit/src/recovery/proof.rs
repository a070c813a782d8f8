//! The results of all rounds with one way to end the probe, and whether they are correct.

use std::fmt;

use super::probe_end::ProbeEnd;

/// The maximum number of deviations that are printed.
const MAX_SHOWN: usize = 5;

/// The results of all rounds with the same [`ProbeEnd`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proof {
    /// How the probes ended.
    pub probe_end: ProbeEnd,
    /// The number of rounds. In each, the circuit recovers once from an open state.
    pub rounds: u64,
    /// The number of transitions to half-open.
    pub half_opened: u64,
    /// The number of rounds in which callers competed: another caller was acquiring when the probe permit was
    /// granted.
    pub raced: u64,
    /// The number of probes at the end of the cool-off.
    pub probes: u64,
    /// The number of probes that followed another probe whose lease was released or had expired.
    pub heirs: u64,
    /// The number of times that two probes' calls overlapped. Must be 0.
    pub overlaps: u64,
    /// The number of results that arrived late.
    pub late: u64,
    /// The number of late results that changed something. Must be 0.
    pub late_applied: u64,
    /// The number of other deviations from the expected result of a wave.
    deviations: u64,
    /// The first few deviations, for output.
    shown: Vec<String>,
}

impl Proof {
    pub(super) const fn new(probe_end: ProbeEnd) -> Self {
        Self {
            probe_end,
            rounds: 0,
            half_opened: 0,
            raced: 0,
            probes: 0,
            heirs: 0,
            overlaps: 0,
            late: 0,
            late_applied: 0,
            deviations: 0,
            shown: Vec::new(),
        }
    }

    pub(super) fn deviates(&mut self, how: String) {
        self.deviations += 1;
        if self.shown.len() < MAX_SHOWN {
            self.shown.push(how);
        }
    }

    /// Returns whether the callers competed in at least 1% of the rounds, so that the result is meaningful.
    /// With two cores, they compete in a quarter to a half of the rounds; if all cores are busy, they acquire
    /// one by one.
    #[must_use]
    pub const fn is_worth_something(&self) -> bool {
        self.raced * 100 >= self.rounds
    }

    /// Returns all deviations, such as more than one probe at a time, or a late result that changed something.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let Self { probe_end, rounds, half_opened, probes, heirs, overlaps, late, late_applied, .. } = self;
        let inherits = probe_end.frees_the_lease() || probe_end.keeps_the_lease();
        let comes_late = if *probe_end == ProbeEnd::ComesLate { *rounds } else { 0 };
        let table = [
            (*half_opened == *rounds, format!("the circuit turned half-open {half_opened} times")),
            (*probes == *rounds, format!("{probes} probes in {rounds} rounds")),
            (
                if inherits { heirs >= rounds } else { *heirs == 0 },
                format!("{heirs} probes took over a lease"),
            ),
            (*overlaps == 0, format!("{overlaps} times two probes were under way at once")),
            (*late == comes_late, format!("{late} results came late")),
            (*late_applied == 0, format!("{late_applied} late results changed something")),
            (self.deviations == 0, format!("{} other deviations", self.deviations)),
        ];
        let faults = table.into_iter().filter(|(is_right, _)| !is_right).map(|(_, fault)| fault);
        faults.chain(self.shown.iter().cloned()).collect()
    }

    /// Returns the table header. A proof's `Display` output is one row of the table.
    #[must_use]
    pub fn head() -> String {
        format!(
            "{:27} {:>7} {:>7} {:>7} {:>7} {:>8} {:>7} {:>12}",
            "a probe that", "rounds", "raced", "probes", "heirs", "overlaps", "late", "late applied"
        )
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { probe_end, rounds, raced, probes, heirs, overlaps, late, late_applied, .. } = self;
        write!(
            f,
            "{probe_end:27} {rounds:7} {raced:7} {probes:7} {heirs:7} {overlaps:8} {late:7} {late_applied:12}"
        )?;
        self.faults().iter().try_for_each(|fault| write!(f, "\n    {fault}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(probe_end: ProbeEnd) -> Proof {
        let (heirs, late) = match probe_end {
            ProbeEnd::ComesLate => (100, 100),
            ProbeEnd::IsCancelled => (130, 0),
            _ => (0, 0),
        };
        Proof { rounds: 100, half_opened: 100, raced: 1, probes: 100, heirs, late, ..Proof::new(probe_end) }
    }

    #[test]
    fn whatever_is_not_as_it_should_be_is_a_fault() {
        type Spoil = fn(&mut Proof);
        let table: [(ProbeEnd, Spoil); 11] = [
            (ProbeEnd::Succeeds, |proof| proof.probes = 101),
            (ProbeEnd::Succeeds, |proof| proof.probes = 99),
            (ProbeEnd::Succeeds, |proof| proof.half_opened = 101),
            (ProbeEnd::Succeeds, |proof| proof.heirs = 1),
            (ProbeEnd::IsCancelled, |proof| proof.heirs = 99),
            (ProbeEnd::ComesLate, |proof| proof.heirs = 99),
            (ProbeEnd::Succeeds, |proof| proof.overlaps = 1),
            (ProbeEnd::Fails, |proof| proof.late = 1),
            (ProbeEnd::ComesLate, |proof| proof.late = 99),
            (ProbeEnd::ComesLate, |proof| proof.late_applied = 1),
            (ProbeEnd::Succeeds, |proof| proof.deviates("odd".into())),
        ];
        for (number, (probe_end, spoil)) in table.into_iter().enumerate() {
            let mut proof = good(probe_end);
            assert!(proof.faults().is_empty(), "{proof}");
            spoil(&mut proof);
            assert!(!proof.faults().is_empty(), "{number}: {proof}");
        }
    }

    #[test]
    fn askers_that_never_meet_prove_nothing() {
        let proof = good(ProbeEnd::Succeeds);
        assert!(proof.is_worth_something());
        assert!(!Proof { raced: 0, ..proof }.is_worth_something());
    }

    #[test]
    fn only_the_first_few_deviations_are_told() {
        let mut proof = good(ProbeEnd::Succeeds);
        (0..1_000).for_each(|number| proof.deviates(format!("deviation {number}")));
        assert_eq!(proof.faults().len(), 1 + MAX_SHOWN);
        assert_eq!(proof.faults()[0], "1000 other deviations");
    }
}
