//! All scenarios over many seeds, against their targets.

use std::fmt;

use breakerbox_core::throttle::ThrottleError;

use super::gate::GateKind;
use super::measures::Measures;
use super::run::simulate;
use super::scenario::Scenario;
use super::target::{Compared, Judged};

/// One scenario over many seeds: the means of each gate, and the targets.
#[derive(Debug)]
pub struct Proof {
    scenario: String,
    means: Vec<(GateKind, Measures)>,
    percent_beyond_oracle: f64,
    judged: Vec<Judged>,
}

/// Runs a scenario through every gate with the seeds 1 to `seeds`, and judges [`GateKind::Adaptive`].
///
/// # Errors
/// If a throttle can't be built, which its defaults never cause.
pub fn prove(scenario: &Scenario, seeds: u64) -> Result<Proof, ThrottleError> {
    let runs = |scenario: &Scenario, gate| -> Result<Vec<_>, _> {
        (1..=seeds).map(|seed| simulate(scenario, gate, seed)).collect()
    };
    let none = runs(scenario, GateKind::None)?;
    let sre = runs(scenario, GateKind::Sre)?;
    let own = runs(scenario, GateKind::Adaptive)?;
    let oracle = runs(scenario, GateKind::Oracle)?;
    let blind = runs(scenario, GateKind::BlindOracle)?;
    let without_retries = if scenario.retries > 0 {
        let scenario = Scenario { retries: 0, ..scenario.clone() };
        Some(Measures::mean(&runs(&scenario, GateKind::Adaptive)?))
    } else {
        None
    };
    // Seed by seed: what one run sheds too much, another does not make good.
    let beyond = own.iter().zip(&blind).map(|(own, blind)| own.sheds_beyond(blind));
    let percent_beyond_oracle = beyond.sum::<f64>() / own.len() as f64;
    let [none, sre, own, oracle] = [none, sre, own, oracle].map(|runs| Measures::mean(&runs));
    let judged = if scenario.targets.report_only {
        Vec::new()
    } else {
        let without_retries = without_retries.as_ref();
        let compared = Compared { own: &own, none: &none, without_retries, percent_beyond_oracle };
        scenario.targets.judge(&compared)
    };
    let means = GateKind::TABLED.into_iter().zip([none, sre, own, oracle]).collect();
    Ok(Proof { scenario: scenario.name.clone(), means, percent_beyond_oracle, judged })
}

impl Proof {
    /// Whether every target was reached.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.judged.iter().all(|judged| judged.met)
    }

    /// The head of the table whose rows a proof displays as.
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
        writeln!(f, "    sheds beyond the oracle's: {:.2} %", self.percent_beyond_oracle)?;
        for judged in &self.judged {
            writeln!(f, "    {judged}")?;
        }
        Ok(())
    }
}
