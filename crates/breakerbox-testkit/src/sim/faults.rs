//! The random faults in a scenario: when, for which worker, for how long.

use std::time::Duration;

use breakerbox::OverrideCommand;
use rand::RngExt;

use super::random::ScenarioRng;
use super::scenario::{Cut, Event, Losses, Scenario};

impl Scenario {
    pub(super) fn add_orders(&mut self, chance: &mut ScenarioRng) {
        if chance.one_in(2) {
            return;
        }
        for _ in 0..chance.number(1, 4) {
            let at = self.any_time(chance);
            let worker = chance.number(0, self.workers.len() as u64 - 1);
            let endpoint = chance.number(0, self.endpoints.len() as u64 - 1);
            let commands = [
                OverrideCommand::ForceOpen,
                OverrideCommand::ForceClosed,
                OverrideCommand::Disable,
                OverrideCommand::Release,
                OverrideCommand::Enable,
                OverrideCommand::Reset,
            ];
            let command = chance.of(&commands);
            self.events.push((at, Event::Order { worker, endpoint, command }));
        }
    }

    pub(super) fn add_faults(&mut self, chance: &mut ScenarioRng) {
        if chance.one_in(2) {
            self.losses = Losses {
                requests: chance.number(0, 100),
                answers: chance.number(0, 100),
                pushes: chance.number(0, 500),
                spikes: chance.number(0, 50),
            };
        }
        let loses_writes = chance.one_in(3);
        for _ in 0..chance.number(1, 6) {
            let at = self.any_time(chance);
            let worker = chance.number(0, self.workers.len() as u64 - 1);
            // Some are shorter than any timeout, some longer than any lease.
            let lasts = if chance.one_in(2) { chance.ms(50, 1_500) } else { chance.ms(1_000, 9_000) };
            let lasts = lasts.min(self.healed_at.saturating_sub(at));
            let how = chance.of(&[Cut::Refuses, Cut::BlackHole, Cut::LosesAnswers]);
            let event = match chance.0.random_range(0..10) {
                0..=2 => Event::Pause { worker, lasts },
                3 | 4 => Event::Crash { worker, back_after: lasts },
                5 | 6 => Event::Cut { worker, how, lasts },
                7 if chance.one_in(2) => Event::NoWrites { lasts },
                7 => Event::CutAll { how, lasts },
                8 => Event::Stall { lasts: lasts.min(Duration::from_secs(3)) },
                _ if !loses_writes => Event::Pause { worker, lasts },
                _ if chance.one_in(2) => Event::Flush,
                _ => Event::Failover { lost: chance.ms(1, 3_000).min(at) },
            };
            self.events.push((at, event));
        }
        self.add_early_cut(chance);
    }

    /// Makes some workers start without a store, so that they make decisions before they have ever reached the
    /// store.
    fn add_early_cut(&mut self, chance: &mut ScenarioRng) {
        for worker in 0..self.workers.len() {
            if chance.one_in(6) {
                let how = chance.of(&[Cut::Refuses, Cut::BlackHole]);
                let lasts = chance.ms(1_000, 6_000).min(self.healed_at);
                self.events.push((Duration::ZERO, Event::Cut { worker, how, lasts }));
            }
        }
    }

    /// Makes the store flap. Between two outages, the store responds for a moment, possibly without accepting
    /// writes.
    pub(super) fn add_flapping(&mut self, chance: &mut ScenarioRng) {
        for _ in 0..chance.number(1, 3) {
            let mut at = self.any_time(chance);
            let worker: usize = chance.number(0, self.workers.len() as u64 - 1);
            let all = chance.one_in(2);
            for _ in 0..chance.number(2, 4) {
                let lasts = chance.ms(500, 4_000);
                let how = chance.of(&[Cut::Refuses, Cut::BlackHole]);
                if at + lasts >= self.healed_at {
                    break;
                }
                self.events.push((
                    at,
                    if all { Event::CutAll { how, lasts } } else { Event::Cut { worker, how, lasts } },
                ));
                at += lasts;
                let back = chance.ms(20, 1_500);
                if chance.one_in(2) {
                    self.events.push((at, Event::NoWrites { lasts: back }));
                }
                at += back;
            }
        }
        self.add_early_cut(chance);
    }

    fn any_time(&self, chance: &mut ScenarioRng) -> Duration {
        let last = u64::try_from(self.healed_at.as_millis()).unwrap_or(u64::MAX);
        chance.ms(500, last.saturating_sub(1))
    }
}
