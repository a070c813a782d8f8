//! The calls in a scenario: when they arrive, from which client, and with which priority.
//!
//! Calls are spaced evenly or at random, and arrive one by one or several at once. They are distributed to the
//! clients in rounds, each in a new random order (with a fixed order, the same clients would always get the
//! same gaps in the backend's capacity). Each client shuffles the priorities again whenever it has used all of
//! them, so that all priorities are equally frequent.

use std::time::Duration;

use breakerbox_core::throttle::{Levels, Priority};
use rand::RngExt;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::scenario::{Distribution, Phase, Scenario, Spacing};

/// A call that a client makes at a certain time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) at_micros: u64,
    pub(super) client: usize,
    pub(super) priority: Priority,
}

/// All calls in a scenario, ordered by time.
pub(super) struct Arrivals<'a> {
    scenario: &'a Scenario,
    rng: SmallRng,
    phases: std::slice::Iter<'a, Phase>,
    phase: Option<&'a Phase>,
    phase_began: Duration,
    /// The time from the start of the phase to the next call, as a multiple of the phase's mean interval.
    worth: f64,
    left_at_once: usize,
    /// The clients that have not made a call in the current round.
    round: Vec<usize>,
    /// For each client, the priorities of its next calls. An empty list is refilled and shuffled.
    orders: Vec<Vec<Priority>>,
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(scenario: &'a Scenario, rng: SmallRng) -> Self {
        Self {
            scenario,
            rng,
            phases: scenario.offered.iter(),
            phase: None,
            phase_began: Duration::ZERO,
            worth: 0.0,
            left_at_once: scenario.at_once.get(),
            round: Vec::new(),
            orders: vec![Vec::new(); scenario.clients.get()],
        }
    }

    /// Returns the time of the next call, or `None` after the end of the scenario.
    fn next_time(&mut self) -> Option<Duration> {
        loop {
            if let Some(phase) = self.phase {
                let passed = self.worth / phase.rate;
                // At a rate of 0, no calls arrive in this phase.
                if passed < phase.lasts.as_secs_f64() {
                    return Some(self.phase_began + Duration::from_secs_f64(passed));
                }
                self.phase_began += phase.lasts;
            }
            self.phase = Some(self.phases.next()?);
            self.worth = 0.0;
            self.left_at_once = self.scenario.at_once.get();
        }
    }

    fn advance(&mut self) {
        self.left_at_once -= 1;
        if self.left_at_once == 0 {
            self.left_at_once = self.scenario.at_once.get();
            let gap = match self.scenario.spaced {
                Spacing::Evenly => 1.0,
                Spacing::AtRandom => -(1.0 - self.rng.random::<f64>()).ln(),
            };
            self.worth += gap * self.scenario.at_once.get() as f64;
        }
    }

    fn next_in_round(&mut self) -> usize {
        if self.round.is_empty() {
            self.round.extend(0..self.scenario.clients.get());
            self.round.shuffle(&mut self.rng);
        }
        self.round.pop().unwrap_or(0)
    }

    fn priority(&mut self, client: usize) -> Priority {
        let order = &mut self.orders[client];
        if order.is_empty() {
            let levels = Levels::STANDARD;
            order.extend((0..levels.count()).filter_map(|level| levels.priority(level).ok()));
            order.shuffle(&mut self.rng);
        }
        order.pop().unwrap_or(Priority::LOW)
    }
}

impl Iterator for Arrivals<'_> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let at = self.next_time()?;
        let client = match self.scenario.dealt {
            Distribution::InRounds => self.next_in_round(),
            Distribution::AtRandom => self.rng.random_range(..self.scenario.clients.get()),
        };
        self.advance();
        let at_micros = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        Some(Arrival { at_micros, client, priority: self.priority(client) })
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn times(head: &str) -> Vec<u64> {
        let rest = r#"backend = { capacity = [], burst = 1, accept_takes = [], reject_takes = "1ms" }"#;
        let scenario: Scenario = toml::from_str(&format!("{head}\n{rest}")).unwrap();
        Arrivals::new(&scenario, SmallRng::seed_from_u64(1))
            .map(|arrival| arrival.at_micros / 1_000)
            .collect()
    }

    #[test]
    fn calls_are_spaced_as_the_scenario_says() {
        let table = [
            (r#"offered = [{ for = "1s", rate = 4 }]"#, vec![0, 250, 500, 750]),
            (r#"offered = [{ for = "1s", rate = 2 }, { for = "1s", rate = 1 }]"#, vec![0, 500, 1_000]),
            (r#"offered = [{ for = "1s", rate = 0 }, { for = "1s", rate = 1 }]"#, vec![1_000]),
            ("at_once = 2\noffered = [{ for = \"1s\", rate = 4 }]", vec![0, 0, 500, 500]),
        ];
        for (head, expected) in table {
            assert_eq!(times(head), expected, "{head}");
        }
        let by_chance = times("spaced = \"at_random\"\noffered = [{ for = \"100s\", rate = 100 }]");
        assert!((9_000..11_000).contains(&by_chance.len()), "{}", by_chance.len());
    }

    #[test]
    fn clients_and_priorities_are_equally_frequent() {
        let text = r#"
            clients = 5
            offered = [{ for = "100s", rate = 20 }]
            backend = { capacity = [], burst = 1, accept_takes = [], reject_takes = "1ms" }
        "#;
        let scenario: Scenario = toml::from_str(text).unwrap();
        let mut counts = [[0; 4]; 5];
        for arrival in Arrivals::new(&scenario, SmallRng::seed_from_u64(1)) {
            counts[arrival.client][usize::from(arrival.priority.level())] += 1;
        }
        assert_eq!(counts, [[100; 4]; 5]);
    }
}
