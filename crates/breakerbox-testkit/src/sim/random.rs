//! The random parts of a scenario: numbers, workers and endpoints, within realistic bounds.

use std::time::Duration;

use breakerbox::{OnStoreLoss, Policy};
use rand::RngExt;
use rand::rngs::SmallRng;

use super::bounds::Settings;
use super::scenario::{BROKEN_WORKER, Behaviour, Flavour, Phase, WorkerPlan};

/// The random number generator for a scenario.
pub(super) struct ScenarioRng(pub(super) SmallRng);

impl ScenarioRng {
    pub(super) fn ms(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.0.random_range(from..=to))
    }

    pub(super) fn number<T: TryFrom<u64>>(&mut self, from: u64, to: u64) -> T {
        T::try_from(self.0.random_range(from..=to)).unwrap_or_else(|_| unreachable!("small numbers fit"))
    }

    pub(super) fn one_in(&mut self, n: u32) -> bool {
        self.0.random_range(0..n) == 0
    }

    pub(super) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.0.random_range(0..all.len())]
    }
}

pub(super) fn settings(chance: &mut ScenarioRng) -> Settings {
    let store_timeout = chance.ms(60, 800);
    Settings {
        flush_every: chance.ms(10, 200),
        store_timeout,
        reread_every: chance.ms(300, 3_000),
        // The maximum for one direction. Without a fault, no request exceeds its timeout.
        latency: chance.ms(0, 40).min(store_timeout / 4),
    }
}

pub(super) fn policy(chance: &mut ScenarioRng) -> Policy {
    let cool_off = chance.ms(100, 2_000);
    let mut policy = Policy::builder()
        .window(chance.ms(2_000, 8_000))
        .min_calls(chance.number(1, 10))
        .failure_rate(None)
        .consecutive_failures(None)
        .cool_off(cool_off)
        .cool_off_factor(chance.of(&[1.0, 1.5, 2.0, 3.0]))
        .cool_off_max(cool_off + chance.ms(0, 3_000))
        .jitter(chance.number(0, 20))
        .probes(chance.number(1, 4))
        .probe_timeout(chance.ms(200, 2_000))
        .forgive_after(chance.ms(500, 20_000))
        .cancel_grace(chance.ms(0, 500))
        .ramp_cap(if chance.one_in(2) { None } else { Some(chance.number(1, 16)) });
    match chance.0.random_range(0..6) {
        0 | 1 => policy = policy.consecutive_failures(chance.number::<u64>(2, 6)),
        2 | 3 => policy = policy.failure_rate(chance.number::<u64>(30, 100)),
        4 => policy = policy.failures(chance.number::<u64>(2, 10)),
        _ => {
            policy =
                policy.mean_latency(chance.ms(300, 800)).slow_call(chance.ms(200, 600)).slow_rate(50_u64);
        }
    }
    if chance.one_in(6) {
        policy = policy.disable_after(chance.number::<u64>(2, 5)).disable_min(chance.ms(0, 5_000));
    }
    policy.build().expect("all of these are within their bounds")
}

/// Returns a policy that trips only on rates and consecutive failures, so that other workers' successes
/// outweigh a worker whose calls all fail.
pub(super) fn rates_only(chance: &mut ScenarioRng) -> Policy {
    let cool_off = chance.ms(500, 2_000);
    let policy = Policy::builder()
        .window(chance.ms(4_000, 10_000))
        .min_calls(chance.number(5, 10))
        .failure_rate(60_u64)
        .consecutive_failures(None)
        .cool_off(cool_off)
        .cool_off_max(cool_off);
    let run = chance.number::<u64>(3, 6);
    let policy = if chance.one_in(2) { policy.consecutive_failures(run) } else { policy };
    policy.build().expect("all of these are within their bounds")
}

pub(super) fn workers(flavour: Flavour, chance: &mut ScenarioRng) -> Vec<WorkerPlan> {
    let fewest = if flavour == Flavour::OneBroken { 3 } else { 2 };
    let (most_workers, most_endpoints) =
        (if chance.one_in(3) { 8 } else { 4 }, if chance.one_in(4) { 10 } else { 3 });
    let workers: usize = chance.number(fewest, most_workers);
    let endpoints: usize = chance.number(1, most_endpoints);
    // Calls per second by all workers together.
    let calls: u64 = chance.number(20, 50);
    let fair = 1_000 * (workers * endpoints) as u64 / calls;
    let plan = |n: usize, chance: &mut ScenarioRng| WorkerPlan {
        on_loss: chance.of(&[
            OnStoreLoss::Local,
            OnStoreLoss::Local,
            OnStoreLoss::Admit,
            OnStoreLoss::Refuse,
        ]),
        skew: Duration::from_secs(chance.number(0, 100_000)),
        every: (0..endpoints)
            .map(|_| match flavour {
                // The same interval for every worker.
                Flavour::OneBroken => Duration::from_millis(fair.clamp(20, 300)),
                _ => chance.ms(fair / 3 + 5, fair + 20).min(Duration::from_millis(900)),
            })
            .collect(),
        broken_from: (flavour == Flavour::OneBroken && n == BROKEN_WORKER).then_some(Duration::ZERO),
        short_lived: None,
    };
    (0..workers).map(|n| plan(n, chance)).collect()
}

pub(super) fn endpoints(
    flavour: Flavour,
    count: usize,
    healed_at: Duration,
    chance: &mut ScenarioRng,
) -> Vec<Vec<Phase>> {
    let phases = |chance: &mut ScenarioRng| {
        let mut phases = vec![Phase { from: Duration::ZERO, behaviour: Behaviour::Well }];
        let mut from = chance.ms(0, 6_000);
        while flavour != Flavour::OneBroken && from < healed_at {
            let behaviour = match chance.0.random_range(0..8) {
                0 | 1 => Behaviour::Well,
                2..=4 => Behaviour::Dead,
                5 => Behaviour::Flaky(chance.number(5, 95)),
                6 => Behaviour::Slow(chance.number(100, 2_500)),
                _ => Behaviour::Hangs,
            };
            phases.push(Phase { from, behaviour });
            from += chance.ms(500, 10_000);
        }
        phases.push(Phase { from: healed_at, behaviour: Behaviour::Well });
        phases
    };
    (0..count).map(|_| phases(chance)).collect()
}
