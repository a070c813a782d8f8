//! What came of all rounds with one fate, and whether it is as it should be.

use std::fmt;

use super::fate::Fate;

/// How many deviations are told of.
const TOLD: usize = 5;

/// What came of all rounds with one fate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proof {
    /// What became of the probes.
    pub fate: Fate,
    /// How many recoveries there were.
    pub rounds: u64,
    /// How often the circuit turned half-open.
    pub half_opened: u64,
    /// In how many rounds somebody else was asking at the moment the probe was given out.
    pub raced: u64,
    /// How many probes there were at the end of the cool-off.
    pub probes: u64,
    /// How many probes took over a lease that was given back or had ended.
    pub heirs: u64,
    /// How often a probe came in while another was.
    pub overlaps: u64,
    /// How many results came too late.
    pub late: u64,
    /// How many of them changed something.
    pub late_applied: u64,
    /// In how many other ways a wave was not as it should have been.
    deviations: u64,
    /// The first few of them.
    told: Vec<String>,
}

impl Proof {
    pub(super) const fn new(fate: Fate) -> Self {
        Self {
            fate,
            rounds: 0,
            half_opened: 0,
            raced: 0,
            probes: 0,
            heirs: 0,
            overlaps: 0,
            late: 0,
            late_applied: 0,
            deviations: 0,
            told: Vec::new(),
        }
    }

    pub(super) fn deviates(&mut self, how: String) {
        self.deviations += 1;
        if self.told.len() < TOLD {
            self.told.push(how);
        }
    }

    /// Whether the askers met often enough for the proof to prove anything: in one round of a hundred at the least. With two
    /// cores they meet in a quarter to a half of the rounds; where all cores are busy they come one by one.
    #[must_use]
    pub const fn is_worth_something(&self) -> bool {
        self.raced * 100 >= self.rounds
    }

    /// Everything that is not as it should be: more than one probe at a time, something late that changed anything.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let Self { fate, rounds, half_opened, probes, heirs, overlaps, late, late_applied, .. } = self;
        let inherits = fate.frees_the_lease() || fate.keeps_the_lease();
        let comes_late = if *fate == Fate::ComesLate { *rounds } else { 0 };
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
        faults.chain(self.told.iter().cloned()).collect()
    }

    /// The head of the table whose rows a proof displays as.
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
        let Self { fate, rounds, raced, probes, heirs, overlaps, late, late_applied, .. } = self;
        write!(
            f,
            "{fate:27} {rounds:7} {raced:7} {probes:7} {heirs:7} {overlaps:8} {late:7} {late_applied:12}"
        )?;
        self.faults().iter().try_for_each(|fault| write!(f, "\n    {fault}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(fate: Fate) -> Proof {
        let (heirs, late) = match fate {
            Fate::ComesLate => (100, 100),
            Fate::IsCancelled => (130, 0),
            _ => (0, 0),
        };
        Proof { rounds: 100, half_opened: 100, raced: 1, probes: 100, heirs, late, ..Proof::new(fate) }
    }

    #[test]
    fn whatever_is_not_as_it_should_be_is_a_fault() {
        type Spoil = fn(&mut Proof);
        let table: [(Fate, Spoil); 11] = [
            (Fate::Succeeds, |proof| proof.probes = 101),
            (Fate::Succeeds, |proof| proof.probes = 99),
            (Fate::Succeeds, |proof| proof.half_opened = 101),
            (Fate::Succeeds, |proof| proof.heirs = 1),
            (Fate::IsCancelled, |proof| proof.heirs = 99),
            (Fate::ComesLate, |proof| proof.heirs = 99),
            (Fate::Succeeds, |proof| proof.overlaps = 1),
            (Fate::Fails, |proof| proof.late = 1),
            (Fate::ComesLate, |proof| proof.late = 99),
            (Fate::ComesLate, |proof| proof.late_applied = 1),
            (Fate::Succeeds, |proof| proof.deviates("odd".into())),
        ];
        for (number, (fate, spoil)) in table.into_iter().enumerate() {
            let mut proof = good(fate);
            assert!(proof.faults().is_empty(), "{proof}");
            spoil(&mut proof);
            assert!(!proof.faults().is_empty(), "{number}: {proof}");
        }
    }

    #[test]
    fn askers_that_never_meet_prove_nothing() {
        let proof = good(Fate::Succeeds);
        assert!(proof.is_worth_something());
        assert!(!Proof { raced: 0, ..proof }.is_worth_something());
    }

    #[test]
    fn only_the_first_few_deviations_are_told() {
        let mut proof = good(Fate::Succeeds);
        (0..1_000).for_each(|number| proof.deviates(format!("deviation {number}")));
        assert_eq!(proof.faults().len(), 1 + TOLD);
        assert_eq!(proof.faults()[0], "1000 other deviations");
    }
}
