//! Runs all scenarios with many seeds, and compares the results with their targets.

use std::fmt;

use super::gate::GateKind;
use super::measures::Measures;
use super::run::simulate;
use super::scenario::{Scenario, ScenarioError};
use super::target::{Compared, Judged};

/// A scenario's results over many seeds: the mean measurements for each kind of admission control, and
/// whether each target was reached.
#[derive(Debug)]
pub struct Proof {
    scenario: String,
    means: Vec<(GateKind, Measures)>,
    judged: Vec<Judged>,
}

/// Runs a scenario with every kind in [`GateKind::TABLED`] and the seeds 1 to `seeds`, and compares
/// [`GateKind::Adaptive`] with the targets.
#[must_use]
pub fn prove(scenario: &Scenario, seeds: u64) -> Proof {
    let means = |gate| (gate, Measures::mean(&runs(scenario, gate, seeds)));
    let means = GateKind::TABLED.into_iter().map(means).collect();
    Proof { scenario: scenario.name.clone(), means, judged: judge(scenario, seeds) }
}

/// Returns whether [`GateKind::Adaptive`] reaches each target of a scenario, over the seeds 1 to `seeds`. Runs
/// only the simulations that the targets require.
#[must_use]
pub fn judge(scenario: &Scenario, seeds: u64) -> Vec<Judged> {
    let targets = &scenario.targets;
    if targets.report_only {
        return Vec::new();
    }
    let own = runs(scenario, GateKind::Adaptive, seeds);
    let mut compared = Compared::alone(Measures::mean(&own));
    if targets.points_below_none_max.is_some() {
        compared.none = Some(Measures::mean(&runs(scenario, GateKind::None, seeds)));
    }
    if targets.goodput_percent_of_no_retries_min.is_some() {
        let scenario = Scenario { retries: 0, ..scenario.clone() };
        compared.without_retries = Some(Measures::mean(&runs(&scenario, GateKind::Adaptive, seeds)));
    }
    if targets.percent_beyond_oracle_max.is_some() {
        let oracle = runs(scenario, GateKind::BlindOracle, seeds);
        // Compares seed by seed, so that a good run does not compensate for the excess shed calls of another.
        let beyond = own.iter().zip(&oracle).map(|(own, oracle)| own.sheds_beyond(oracle));
        compared.percent_beyond_oracle = Some(beyond.sum::<f64>() / own.len() as f64);
    }
    targets.judge(&compared)
}

fn runs(scenario: &Scenario, gate: GateKind, seeds: u64) -> Vec<Measures> {
    (1..=seeds).map(|seed| simulate(scenario, gate, seed)).collect()
}

/// Runs every scenario whose name contains `only`, prints each result when it is ready, and returns the names
/// of the scenarios that missed a target.
///
/// # Errors
/// Returns an error if a scenario file is invalid.
pub fn print_proofs(only: &str, seeds: u64) -> Result<Vec<String>, ScenarioError> {
    println!("{}", Proof::head());
    let mut missed = Vec::new();
    for scenario in Scenario::all()?.iter().filter(|scenario| scenario.name.contains(only)) {
        let proof = prove(scenario, seeds);
        println!("{proof}");
        if !proof.is_met() {
            missed.push(scenario.name.clone());
        }
    }
    Ok(missed)
}

impl Proof {
    /// Returns whether every target was reached.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.judged.iter().all(|judged| judged.met)
    }

    /// Returns the table header. A proof's `Display` output is one row of the table.
    #[must_use]
    pub fn head() -> String {
        format!(
            "{:9} {:>8} {:>7}  {:22} {:>9} {:>8}  {:>16}",
            "", "goodput", "sent", "success %", "needless", "back s", "first shed"
        )
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.scenario)?;
        for (gate, means) in &self.means {
            let success: Vec<_> = means.success.iter().map(|percent| format!("{percent:.1}")).collect();
            writeln!(
                f,
                "{gate:9} {:8.1} {:7.1}  {:22} {:9.1} {:8.2}  {:7.2} s {:6.1}",
                means.goodput,
                means.sent,
                success.join("/"),
                means.needless,
                means.back,
                means.first_shed_seconds,
                means.first_shed_calls
            )?;
        }
        for judged in &self.judged {
            writeln!(f, "    {judged}")?;
        }
        Ok(())
    }
}
