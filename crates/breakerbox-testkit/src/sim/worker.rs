//! One worker: the real library with its own clock, and its callers, some of which break the rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use breakerbox::sampling::{SampledCircuit, Sampling};
use breakerbox::{Attribution, Breakerbox, Circuit, OverrideCommand, Record};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::caller::Caller;
use super::checked_store::{index, name};
use super::gate::Gate;
use super::history::{Invariant, WorkerLife};
use super::network::{Link, Network};
use super::sampling;
use super::world::World;

pub(super) struct Worker {
    pub(super) who: WorkerLife,
    pub(super) gate: Arc<Gate>,
    pub(super) circuits: Vec<Handle>,
    registry: Registry,
    /// The worker's callers that have not finished.
    calling: Arc<Calling>,
    pub(super) paused_at: Option<Duration>,
    world: Arc<World>,
}

impl Worker {
    /// Starts a worker's process, which has no state from earlier processes.
    pub(super) fn start(network: &Arc<Network>, who: WorkerLife) -> Self {
        let world = Arc::clone(&network.world);
        let (scenario, settings) = (&world.scenario, world.scenario.settings);
        let gate = Arc::new(Gate::default());
        let (spawner, history) = (Arc::clone(&gate), Arc::clone(&world));
        let seed = scenario.seed ^ ((who.worker as u64) << 40) ^ (u64::from(who.life) << 50);
        world.note(|| format!("{who:?} begins"));
        world.write(|history| history.began(who, world.at()));
        let (healthy, changed) = (Arc::clone(&world), Arc::clone(&world));
        let builder = Breakerbox::builder()
            .policy(scenario.policy.clone())
            .clock(world.worker_clock(who.worker))
            .store(Link::new(network, who))
            .on_store_loss(scenario.workers[who.worker].on_loss)
            .flush_every(settings.flush_every)
            .store_timeout(settings.store_timeout)
            .reread_every(settings.reread_every)
            .observer(move |event| {
                let key = index(&event.key);
                history.note(|| {
                    format!("{who:?} e{key} is {} in epoch {}", event.change.to, event.change.epoch.0)
                });
                history.write(|history| history.observed(who, key, event, changed.at()));
            })
            .store_observer(move |health| {
                healthy.note(|| format!("{who:?} store {health}"));
                healthy.write(|history| history.store_went(who, health, healthy.at()));
            })
            .consistency(scenario.consistency)
            .seed(seed)
            .spawner(move |task| spawner.spawn(task));
        let names = (0..scenario.endpoints.len()).map(name);
        let calling = Arc::new(Calling { left: AtomicUsize::new(names.len()), ended: Notify::new() });
        let chance = |key: usize| SmallRng::seed_from_u64(seed ^ (0xCA11 + key as u64));
        let (registry, circuits) = match &scenario.sampled {
            Some(plan) => {
                let sampling = sampling::start(builder, plan, network, who, &gate, seed);
                let circuits: Vec<_> =
                    names.map(|name| sampling.circuit(&name).expect("a short key")).collect();
                for (key, circuit) in circuits.iter().enumerate() {
                    let (network, circuit) = (Arc::clone(network), circuit.clone());
                    let caller = sampling::Caller { network, who, key, circuit, chance: chance(key) };
                    gate.spawn(Box::pin(caller.keep_calling()));
                }
                (Registry::Sampled(sampling), circuits.into_iter().map(Handle::Sampled).collect())
            }
            None => {
                let breakers = builder.build();
                let circuits: Vec<_> =
                    names.map(|name| breakers.circuit(&name).expect("a short key")).collect();
                for (key, circuit) in circuits.iter().enumerate() {
                    let (world, circuit) = (Arc::clone(&world), circuit.clone());
                    let caller = Caller { world, who, key, circuit, chance: chance(key) };
                    let calling = Arc::clone(&calling);
                    gate.spawn(Box::pin(async move {
                        caller.keep_calling().await;
                        calling.left.fetch_sub(1, Ordering::Relaxed);
                        calling.ended.notify_one();
                    }));
                }
                (Registry::Counted(breakers), circuits.into_iter().map(Handle::Counted).collect())
            }
        };
        Self { who, gate, circuits, registry, calling, paused_at: None, world }
    }

    /// Waits until no caller is calling, and exits in the way that `exit` states.
    pub(super) async fn live_and_exit(self, exit: Exit) {
        while self.calling.left.load(Ordering::Relaxed) > 0 {
            self.calling.ended.notified().await;
        }
        let Self { who, gate, world, circuits, registry, .. } = self;
        match exit {
            Exit::Closes => {
                if let Registry::Counted(breakers) = registry
                    && let Err(error) = breakers.close().await
                {
                    world.note(|| format!("{who:?} closes: {error}"));
                }
                gate.kill();
            }
            // Tasks that the drop spawns end on their own.
            Exit::Drops => drop((registry, circuits)),
            Exit::AtOnce => gate.kill(),
        }
        world.note(|| format!("{who:?} exits: {exit:?}"));
        world.write(|history| {
            history.tally.exits += 1;
            history.workers[who.worker].alive = false;
        });
    }

    /// Applies an operator's command, with retries. Does nothing for sampled circuits, which operators do not
    /// override in this simulation.
    pub(super) fn order(&self, key: usize, command: OverrideCommand, tries: u32) {
        let (world, who) = (Arc::clone(&self.world), self.who);
        let Handle::Counted(circuit) = self.circuits[key].clone() else { return };
        self.gate.spawn(Box::pin(async move {
            let by = Attribution::new("operator", "simulation").expect("short");
            for _ in 0..tries {
                world.note(|| format!("{who:?} e{key}: an operator says {command:?}"));
                world.write(|history| history.orders.insert((who.worker, key, command)));
                match circuit.apply_override(command, &by).await {
                    Ok(change) => {
                        world.note(|| format!("{who:?} e{key}: {command:?} is done"));
                        let was_written = |epoch| world.history().keys[key].epochs.contains(&epoch);
                        if let Some(change) = change.filter(|change| !was_written(change.epoch.0)) {
                            let what =
                                format!("{who:?} e{key}: {command:?} is done, but not written: {change:?}");
                            world
                                .write(|history| history.violate(Invariant::OverridesHold, world.at(), what));
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

/// A worker's registry, with normal or sampled circuits.
enum Registry {
    Counted(Breakerbox),
    Sampled(#[expect(dead_code, reason = "a leader goes on for as long as it is held")] Sampling),
}

/// One of a worker's circuits. It either counts every outcome itself, or is sampled by a leader.
#[derive(Clone)]
pub(super) enum Handle {
    Counted(Circuit),
    Sampled(SampledCircuit),
}

impl Handle {
    pub(super) fn record(&self) -> Record {
        match self {
            Self::Counted(circuit) => circuit.record(),
            Self::Sampled(circuit) => circuit.record(),
        }
    }
}

/// How a worker's life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exit {
    /// The worker closes its registry.
    Closes,
    /// The worker drops all handles, and stays alive until the last reports are sent.
    Drops,
    /// The worker exits without closing its registry or dropping handles, as the deliberate fault
    /// `ExitsAtOnce`.
    AtOnce,
}

/// The number of unfinished callers in one life of a worker (from one start to the next).
struct Calling {
    left: AtomicUsize,
    ended: Notify,
}
