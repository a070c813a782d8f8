//! What a seed stands for: who is there, what goes wrong when, and what the numbers are. Everything else follows from it.

use std::time::Duration;

use breakerbox::{Command, OnStoreLoss, Policy};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::bounds::Settings;

/// What kind of a run it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavour {
    /// Endpoints misbehave, and operators interfere; the store, the network and the workers do not fail.
    Calm,
    /// As calm, and all endpoints are well: but one worker can't reach any of them.
    OneBroken,
    /// Whatever can fail does.
    Faulty,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it was drawn from.
    pub seed: u64,
    /// What kind of a run it is.
    pub flavour: Flavour,
    pub(super) policy: Policy,
    pub(super) settings: Settings,
    pub(super) workers: Vec<WorkerPlan>,
    pub(super) endpoints: Vec<Vec<Phase>>,
    /// In thousandths, while things fail.
    pub(super) losses: Losses,
    /// In order of time.
    pub(super) events: Vec<(Duration, Event)>,
    /// From then on nothing fails any more, and all endpoints are well.
    pub(super) healed_at: Duration,
}

/// One worker, through all its lives.
#[derive(Clone, Debug)]
pub(super) struct WorkerPlan {
    pub(super) on_loss: OnStoreLoss,
    /// By how much its clock is ahead.
    pub(super) skew: Duration,
    /// For each endpoint: how often it calls it, on average.
    pub(super) every: Vec<Duration>,
    pub(super) broken: bool,
}

/// How often what gets lost, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    pub(super) requests: u32,
    pub(super) answers: u32,
    pub(super) pushes: u32,
    /// Requests that take longer than anybody waits.
    pub(super) spikes: u32,
}

/// How an endpoint is from some time on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    pub(super) from: Duration,
    pub(super) behaviour: Behaviour,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Behaviour {
    Well,
    Dead,
    /// Fails this often, in percent.
    Flaky(u32),
    /// Well, but takes this many milliseconds.
    Slow(u64),
    Hangs,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    Refuses,
    BlackHole,
    LosesAnswers,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Event {
    Pause {
        worker: usize,
        lasts: Duration,
    },
    Crash {
        worker: usize,
        back_after: Duration,
    },
    Cut {
        worker: usize,
        how: Cut,
        lasts: Duration,
    },
    /// The store is there for nobody.
    CutAll {
        how: Cut,
        lasts: Duration,
    },
    /// The store stands still, and then does what it was asked.
    Stall {
        lasts: Duration,
    },
    Flush,
    /// What was written in this time before is lost.
    Failover {
        lost: Duration,
    },
    Order {
        worker: usize,
        endpoint: usize,
        command: Command,
    },
}

/// Draws what tests and people would not think of.
struct Chance(SmallRng);

impl Chance {
    fn ms(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.0.random_range(from..=to))
    }

    fn number<T: TryFrom<u64>>(&mut self, from: u64, to: u64) -> T {
        T::try_from(self.0.random_range(from..=to)).unwrap_or_else(|_| unreachable!("small numbers fit"))
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.0.random_range(0..n) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.0.random_range(0..all.len())]
    }
}

impl Scenario {
    /// The run that this seed stands for.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance(SmallRng::seed_from_u64(seed));
        let flavour = match chance.0.random_range(0..8) {
            0 | 1 => Flavour::Calm,
            2 => Flavour::OneBroken,
            _ => Flavour::Faulty,
        };
        let settings = settings(&mut chance);
        let policy =
            if flavour == Flavour::OneBroken { rates_only(&mut chance) } else { policy(&mut chance) };
        let healed_at = chance.ms(8_000, 30_000);
        let workers = workers(flavour, &mut chance);
        let endpoints = endpoints(flavour, workers[0].every.len(), healed_at, &mut chance);
        let mut scenario = Self {
            seed,
            flavour,
            policy,
            settings,
            losses: Losses::default(),
            events: Vec::new(),
            healed_at,
            workers,
            endpoints,
        };
        scenario.add_orders(&mut chance);
        if flavour == Flavour::Faulty {
            scenario.add_faults(&mut chance);
        }
        scenario.events.sort_by_key(|(at, _)| *at);
        scenario
    }

    /// How long it takes, at most, until a worker calls an endpoint again.
    pub(super) fn called_every(&self) -> Duration {
        let longest = self.workers.iter().flat_map(|worker| &worker.every).max().copied().unwrap_or_default();
        2 * longest
    }

    fn add_orders(&mut self, chance: &mut Chance) {
        if self.flavour == Flavour::OneBroken || chance.one_in(2) {
            return;
        }
        for _ in 0..chance.number(1, 4) {
            let at = self.any_time(chance);
            let worker = chance.number(0, self.workers.len() as u64 - 1);
            let endpoint = chance.number(0, self.endpoints.len() as u64 - 1);
            let commands = [
                Command::ForceOpen,
                Command::ForceClosed,
                Command::Disable,
                Command::Release,
                Command::Enable,
                Command::Reset,
            ];
            let command = chance.of(&commands);
            self.events.push((at, Event::Order { worker, endpoint, command }));
        }
    }

    fn add_faults(&mut self, chance: &mut Chance) {
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
            // Some shorter than any limit, some longer than any lease.
            let lasts = if chance.one_in(2) { chance.ms(50, 1_500) } else { chance.ms(1_000, 9_000) };
            let lasts = lasts.min(self.healed_at.saturating_sub(at));
            let how = chance.of(&[Cut::Refuses, Cut::BlackHole, Cut::LosesAnswers]);
            let event = match chance.0.random_range(0..10) {
                0..=2 => Event::Pause { worker, lasts },
                3 | 4 => Event::Crash { worker, back_after: lasts },
                5 | 6 => Event::Cut { worker, how, lasts },
                7 => Event::CutAll { how, lasts },
                8 => Event::Stall { lasts: lasts.min(Duration::from_secs(3)) },
                _ if !loses_writes => Event::Pause { worker, lasts },
                _ if chance.one_in(2) => Event::Flush,
                _ => Event::Failover { lost: chance.ms(1, 3_000).min(at) },
            };
            self.events.push((at, event));
        }
    }

    fn any_time(&self, chance: &mut Chance) -> Duration {
        let last = u64::try_from(self.healed_at.as_millis()).unwrap_or(u64::MAX);
        chance.ms(500, last.saturating_sub(1))
    }
}

fn settings(chance: &mut Chance) -> Settings {
    let store_timeout = chance.ms(60, 800);
    Settings {
        flush_every: chance.ms(10, 200),
        store_timeout,
        reread_every: chance.ms(300, 3_000),
        // One way, at most. In good times no request takes longer than it may.
        latency: chance.ms(0, 40).min(store_timeout / 4),
    }
}

fn policy(chance: &mut Chance) -> Policy {
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

/// By shares and runs, so that the others' successes speak against one who only fails.
fn rates_only(chance: &mut Chance) -> Policy {
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

fn workers(flavour: Flavour, chance: &mut Chance) -> Vec<WorkerPlan> {
    let fewest = if flavour == Flavour::OneBroken { 3 } else { 2 };
    let (most_workers, most_endpoints) =
        (if chance.one_in(3) { 8 } else { 4 }, if chance.one_in(4) { 10 } else { 3 });
    let workers: usize = chance.number(fewest, most_workers);
    let endpoints: usize = chance.number(1, most_endpoints);
    // All calls of all workers, in a second.
    let calls: u64 = chance.number(20, 50);
    let fair = 1_000 * (workers * endpoints) as u64 / calls;
    let plan = |n: usize, chance: &mut Chance| WorkerPlan {
        on_loss: chance.of(&[
            OnStoreLoss::Local,
            OnStoreLoss::Local,
            OnStoreLoss::Admit,
            OnStoreLoss::Refuse,
        ]),
        skew: Duration::from_secs(chance.number(0, 100_000)),
        every: (0..endpoints)
            .map(|_| match flavour {
                // As much weight for everybody.
                Flavour::OneBroken => Duration::from_millis(fair.clamp(20, 300)),
                _ => chance.ms(fair / 3 + 5, fair + 20).min(Duration::from_millis(900)),
            })
            .collect(),
        broken: flavour == Flavour::OneBroken && n == 0,
    };
    (0..workers).map(|n| plan(n, chance)).collect()
}

fn endpoints(flavour: Flavour, count: usize, healed_at: Duration, chance: &mut Chance) -> Vec<Vec<Phase>> {
    let phases = |chance: &mut Chance| {
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
