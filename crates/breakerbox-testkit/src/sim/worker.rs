//! One worker: the real library with its own clock, and callers who behave as callers do, well or badly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use breakerbox::{Attribution, Breakerbox, Circuit, Command, Judgement, OutcomeKind, Permit, Settlement};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::arbiter::{index, name};
use super::books::{Invariant, Who};
use super::gate::Gate;
use super::network::{Link, Network};
use super::scenario::{Behaviour, Flavour};
use super::world::World;

/// How long a caller waits for a call that is no probe.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Worker {
    pub(super) who: Who,
    pub(super) gate: Arc<Gate>,
    pub(super) circuits: Vec<Circuit>,
    breakers: Breakerbox,
    /// How many of its callers still call.
    calling: Arc<Calling>,
    pub(super) paused_at: Option<Duration>,
    world: Arc<World>,
}

impl Worker {
    /// Begins a life that remembers nothing.
    pub(super) fn start(network: &Arc<Network>, who: Who) -> Self {
        let world = Arc::clone(&network.world);
        let (scenario, settings) = (&world.scenario, world.scenario.settings);
        let gate = Arc::new(Gate::default());
        let (spawner, books) = (Arc::clone(&gate), Arc::clone(&world));
        let seed = scenario.seed ^ ((who.worker as u64) << 40) ^ (u64::from(who.life) << 50);
        world.note(|| format!("{who:?} begins"));
        world.write(|books| books.began(who, world.at()));
        let (healthy, changed) = (Arc::clone(&world), Arc::clone(&world));
        let breakers = Breakerbox::builder()
            .policy(scenario.policy.clone())
            .clock(world.worker_clock(who.worker))
            .store(Link::new(network, who))
            .on_store_loss(scenario.workers[who.worker].on_loss)
            .flush_every(settings.flush_every)
            .store_timeout(settings.store_timeout)
            .reread_every(settings.reread_every)
            .observer(move |heard| {
                let key = index(&heard.key);
                books.note(|| {
                    format!("{who:?} e{key} is {} in epoch {}", heard.change.to, heard.change.epoch.0)
                });
                books.write(|books| books.observed(who, key, heard, changed.at()));
            })
            .store_observer(move |health| {
                healthy.note(|| format!("{who:?} store {health}"));
                healthy.write(|books| books.store_went(who, health, healthy.at()));
            })
            .consistency(scenario.consistency)
            .seed(seed)
            .spawner(move |task| spawner.spawn(task))
            .build();
        let circuits = (0..scenario.endpoints.len())
            .map(|endpoint| breakers.circuit(&name(endpoint)).expect("a short key"))
            .collect::<Vec<_>>();
        let calling = Arc::new(Calling { left: AtomicUsize::new(circuits.len()), ended: Notify::new() });
        for (key, circuit) in circuits.iter().enumerate() {
            let chance = SmallRng::seed_from_u64(seed ^ (0xCA11 + key as u64));
            let caller = Caller { world: Arc::clone(&world), who, key, circuit: circuit.clone(), chance };
            let calling = Arc::clone(&calling);
            gate.spawn(Box::pin(async move {
                caller.keep_calling().await;
                calling.left.fetch_sub(1, Ordering::Relaxed);
                calling.ended.notify_one();
            }));
        }
        Self { who, gate, circuits, breakers, calling, paused_at: None, world }
    }

    /// Waits until nobody calls any more, and exits.
    pub(super) async fn live_and_exit(self, exit: Exit) {
        while self.calling.left.load(Ordering::Relaxed) > 0 {
            self.calling.ended.notified().await;
        }
        let Self { who, gate, world, circuits, breakers, .. } = self;
        match exit {
            Exit::Closes => {
                if let Err(error) = breakers.close().await {
                    world.note(|| format!("{who:?} closes: {error}"));
                }
                gate.kill();
            }
            // What it spawns on that occasion ends by itself.
            Exit::Drops => drop((breakers, circuits)),
            Exit::AtOnce => gate.kill(),
        }
        world.note(|| format!("{who:?} exits: {exit:?}"));
        world.write(|books| {
            books.tally.exits += 1;
            books.workers[who.worker].alive = false;
        });
    }

    /// Does what an operator says, again and again if need be.
    pub(super) fn order(&self, key: usize, command: Command, tries: u32) {
        let (world, who, circuit) = (Arc::clone(&self.world), self.who, self.circuits[key].clone());
        self.gate.spawn(Box::pin(async move {
            let by = Attribution::new("operator", "simulation").expect("short");
            for _ in 0..tries {
                world.note(|| format!("{who:?} e{key}: an operator says {command:?}"));
                world.write(|books| books.orders.insert((who.worker, key, command)));
                match circuit.obey_store(command, &by).await {
                    Ok(change) => {
                        world.note(|| format!("{who:?} e{key}: {command:?} is done"));
                        let was_written = |epoch| world.books().keys[key].epochs.contains(&epoch);
                        if let Some(change) = change.filter(|change| !was_written(change.epoch.0)) {
                            let what =
                                format!("{who:?} e{key}: {command:?} is done, but not written: {change:?}");
                            world.write(|books| books.violate(Invariant::OverridesHold, world.at(), what));
                        }
                        return;
                    }
                    Err(error) => world.note(|| format!("{who:?} e{key}: {command:?}: {error}")),
                }
                sleep(Duration::from_millis(200)).await;
            }
        }));
    }
}

/// How a life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exit {
    /// It closes its registry.
    Closes,
    /// It drops all handles, and lives on until the last reports are made.
    Drops,
    /// It does nothing of that, for sabotage.
    AtOnce,
}

/// The callers of one life of a worker.
struct Calling {
    left: AtomicUsize,
    ended: Notify,
}

/// The epoch of the store's that a worker's circuit is in: none as long as nothing has happened to it.
pub(super) fn epoch_of(circuit: &Circuit) -> u64 {
    let record = circuit.record();
    record.cause.map_or(0, |_| record.epoch.0)
}

/// Calls one endpoint, again and again.
struct Caller {
    world: Arc<World>,
    who: Who,
    key: usize,
    circuit: Circuit,
    chance: SmallRng,
}

/// How a call goes.
struct Course {
    takes: Duration,
    kind: OutcomeKind,
}

impl Caller {
    async fn keep_calling(mut self) {
        let plan = &self.world.scenario.workers[self.who.worker];
        let (every, short_lived) = (plan.every[self.key], plan.short_lived);
        let quiet = self.world.scenario.quiet.unwrap_or_default();
        let mut calls = 0;
        while short_lived.is_none_or(|life| calls < life.calls) {
            let wait = every.mul_f64(self.chance.random_range(0.2..1.8));
            sleep(wait).await;
            if (quiet.0..quiet.1).contains(&self.world.at()) {
                sleep(quiet.1.saturating_sub(self.world.at())).await;
            }
            if self.world.is_over.load(Ordering::Relaxed) {
                return;
            }
            let circuit = self.circuit.clone();
            self.call(&circuit).await;
            calls += 1;
        }
    }

    async fn call(&mut self, circuit: &Circuit) {
        let (world, who, key) = (Arc::clone(&self.world), self.who, self.key);
        let asked_at = world.at();
        let is_short_lived = world.scenario.workers[who.worker].short_lived.is_some();
        let limit = Duration::from_millis(self.chance.random_range(50..1_000));
        let answer = match self.chance.random_range(0..10) {
            0..=6 => circuit.ask_store().await,
            // Who does not wait for the first reading takes any circuit for closed: nothing for those who call once.
            7 | 8 if !world.scenario.is_strict() && !is_short_lived => circuit.ask(),
            7 | 8 => circuit.ask_store().await,
            _ => circuit.ask_within(limit).await,
        };
        world.write(|books| books.answered(who, key, asked_at, answer.is_ok()));
        match answer {
            Ok(permit) if permit.is_probe() => self.probe(permit).await,
            Ok(permit) => self.ordinary(permit, asked_at).await,
            Err(refusal) => {
                world.note(|| format!("{who:?} e{key}: {}", refusal.name()));
                world.write(|books| books.refused(key, &refusal, world.at()));
            }
        }
    }

    fn may_be_rude(&self) -> bool {
        !self.world.has_healed() && self.world.scenario.flavour.has_rude_callers()
    }

    /// How a call would go that is made now.
    fn course(&mut self) -> Course {
        let at = self.world.at();
        let phases = &self.world.scenario.endpoints[self.key];
        let behaviour =
            phases.iter().rfind(|phase| phase.from <= at).map_or(Behaviour::Well, |phase| phase.behaviour);
        let quickly = Duration::from_millis(self.chance.random_range(0..30));
        let is_broken =
            self.world.scenario.workers[self.who.worker].broken_from.is_some_and(|from| from <= at);
        self.world.write(|books| books.tally.broken_calls += u64::from(is_broken));
        let (takes, is_well) = match behaviour {
            _ if is_broken => (quickly, false),
            Behaviour::Well => (quickly, true),
            Behaviour::Dead => (quickly, false),
            Behaviour::Flaky(percent) => (quickly, self.chance.random_range(0..100) >= percent),
            Behaviour::Slow(ms) => (Duration::from_millis(self.chance.random_range(ms / 2..=ms)), true),
            Behaviour::Hangs => (Duration::from_secs(3_600), false),
        };
        let says_nothing = self.may_be_rude() && self.chance.random_range(0..30) == 0;
        let kind = match is_well {
            _ if says_nothing => OutcomeKind::Ignored,
            true => OutcomeKind::Success,
            false => OutcomeKind::Failure,
        };
        Course { takes, kind }
    }

    async fn probe(&mut self, permit: Permit<'_>) {
        let (world, who, key) = (Arc::clone(&self.world), self.who, self.key);
        let (began, left) = (world.at(), permit.time_left().unwrap_or_default());
        let number = world.write(|books| books.began_probe(who, key, world.at(), world.store_time(), left));
        world.note(|| format!("{who:?} e{key}: probes"));
        let mut course = self.course();
        let manners = if self.may_be_rude() { self.chance.random_range(0..12) } else { 0 };
        if manners < 9 {
            if course.takes >= left {
                course = Course { takes: left, kind: OutcomeKind::Failure };
            }
        } else {
            // Rude ones stay as long as they like, and then say what they like.
            let lease = world.scenario.policy.probe_timeout() + Duration::from_secs(3);
            course.takes =
                course.takes.min(lease).max(Duration::from_millis(self.chance.random_range(0..5_000)));
        }
        sleep(course.takes).await;
        let drops = manners == 11;
        if drops {
            let age = world.scenario.policy.probe_timeout().saturating_sub(left) + (world.at() - began);
            let in_grace = age < world.scenario.policy.cancel_grace();
            course.kind = if in_grace { OutcomeKind::Ignored } else { OutcomeKind::Failure };
        }
        world.write(|books| books.settled_probe(key, number, world.at(), course.kind));
        world.note(|| format!("{who:?} e{key}: the probe is a {:?}", course.kind));
        if drops {
            drop(permit);
            return;
        }
        let settlement = if world.scenario.is_strict() && manners < 9 {
            permit.settle_store(self.judgement(course.kind)).await
        } else {
            self.settle(permit, course.kind)
        };
        if settlement == Settlement::Late {
            world.note(|| format!("{who:?} e{key}: the probe was late"));
            world.write(|books| books.tally.late += 1);
        }
    }

    async fn ordinary(&mut self, permit: Permit<'_>, asked_at: Duration) {
        let (world, who, key) = (Arc::clone(&self.world), self.who, self.key);
        let mut course = self.course();
        if course.takes >= PATIENCE {
            course = Course { takes: PATIENCE, kind: OutcomeKind::Failure };
        }
        let began_in = epoch_of(&self.circuit);
        let is_on_ramp =
            world.write(|books| books.call_begins(&world.scenario, (who, key, began_in), world.at()));
        sleep(course.takes).await;
        if is_on_ramp {
            let succeeded = course.kind == OutcomeKind::Success;
            world.write(|books| books.call_ended(key, began_in, succeeded));
        }
        let epoch = epoch_of(&self.circuit);
        let may_drop = world.scenario.flavour == Flavour::Faulty && !world.has_healed();
        let drops = may_drop && self.chance.random_range(0..20) == 0;
        if drops {
            // It can't be known from outside whether it counts.
            if world.at() - asked_at >= world.scenario.policy.cancel_grace() {
                let at = world.at();
                world.write(|books| books.counted((who, key, epoch), true, &world.scenario, at));
            }
            drop(permit);
            return;
        }
        let failed = course.kind == OutcomeKind::Failure;
        if failed && world.scenario.workers[who.worker].short_lived.is_some() {
            world.write(|books| books.short_lived_failed(&world.scenario, who, key, world.at()));
        }
        if world.scenario.is_strict() {
            self.settle_strictly(permit, course.kind, epoch).await;
            return;
        }
        let settlement = self.settle(permit, course.kind);
        world.note(|| format!("{who:?} e{key}: {:?} {settlement:?}", course.kind));
        match settlement {
            Settlement::Counted => {
                let at = world.at();
                world.write(|books| books.counted((who, key, epoch), failed, &world.scenario, at));
            }
            Settlement::Late => world.write(|books| books.tally.late += 1),
            Settlement::Uncounted | Settlement::Unheard => {}
        }
    }

    /// Settles, and waits until the store has counted it.
    async fn settle_strictly(&mut self, permit: Permit<'_>, kind: OutcomeKind, epoch: u64) {
        let (world, who, key) = (Arc::clone(&self.world), self.who, self.key);
        let (counts, failed) = (kind != OutcomeKind::Ignored, kind == OutcomeKind::Failure);
        if counts {
            // The store may count it before this worker hears of that.
            let at = world.at();
            world.write(|books| books.counted((who, key, epoch), failed, &world.scenario, at));
        }
        let settlement = permit.settle_store(self.judgement(kind)).await;
        world.note(|| format!("{who:?} e{key}: {kind:?} {settlement:?}"));
        match settlement {
            Settlement::Late => world.write(|books| {
                books.tally.late += 1;
                books.not_counted(who, key, epoch, failed);
            }),
            Settlement::Uncounted if counts => {
                world.write(|books| books.not_counted(who, key, epoch, failed));
            }
            Settlement::Counted | Settlement::Uncounted | Settlement::Unheard => {}
        }
    }

    fn settle(&mut self, permit: Permit<'_>, kind: OutcomeKind) -> Settlement {
        match kind {
            OutcomeKind::Success => permit.success(),
            OutcomeKind::Failure => self.fail(permit),
            OutcomeKind::Ignored => permit.ignored(),
        }
    }

    fn judgement(&mut self, kind: OutcomeKind) -> Judgement {
        match kind {
            OutcomeKind::Success => Judgement::SUCCESS,
            OutcomeKind::Ignored => Judgement::IGNORED,
            OutcomeKind::Failure if self.chance.random_range(0..10) == 0 => {
                let wait = Duration::from_millis(self.chance.random_range(0..4_000));
                Judgement::failure_with_retry_after(wait)
            }
            OutcomeKind::Failure => Judgement::FAILURE,
        }
    }

    fn fail(&mut self, permit: Permit<'_>) -> Settlement {
        if self.chance.random_range(0..10) == 0 {
            return permit
                .failure_with_retry_after(Duration::from_millis(self.chance.random_range(0..4_000)));
        }
        permit.failure()
    }
}
