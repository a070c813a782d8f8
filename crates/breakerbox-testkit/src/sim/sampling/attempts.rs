//! The table of attempts, and the workers' connections to it. It counts like an SQL sampler, with its own clock
//! and with ages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::Sample;
use breakerbox::sampling::{Poll, SampleError, Sampler};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;

use crate::sim::checked_store::{index, name};
use crate::sim::gate::Gate;
use crate::sim::history::{Counts, WorkerLife};
use crate::sim::network::Network;
use crate::sim::sabotage::Sabotage;
use crate::sim::world::World;

/// The table with the attempts that all callers recorded.
pub(in crate::sim) struct Attempts {
    world: Arc<World>,
    sabotage: Sabotage,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The attempts, in the order in which they finished.
    rows: Vec<Row>,
    /// For each worker, whether the worker is disconnected from the table.
    cut: Vec<bool>,
    /// Whether the latest poll failed at random.
    just_failed: bool,
    /// The number of times that a leader was paused during a tick.
    paused: usize,
}

struct Row {
    key: usize,
    started_at: Duration,
    finished_at: Duration,
    succeeded: bool,
}

/// Whether a poll succeeds, fails or is slow.
enum PollFate {
    Answers,
    /// The poll takes this long. Its totals are those at the start of the poll.
    Slow(Duration),
    Fails,
}

impl Attempts {
    pub(in crate::sim) fn new(world: &Arc<World>, sabotage: Sabotage) -> Self {
        let inner = Inner { cut: vec![false; world.scenario.workers.len()], ..Inner::default() };
        Self { world: Arc::clone(world), sabotage, inner: Mutex::new(inner) }
    }

    /// Records an attempt that has finished.
    pub(super) fn add(&self, key: usize, started_at: Duration, succeeded: bool) {
        let finished_at = self.world.at();
        self.lock().rows.push(Row { key, started_at, finished_at, succeeded });
    }

    /// Disconnects a worker from the table, or reconnects the worker.
    pub(super) fn cut(&self, worker: usize, is_cut: bool) {
        self.lock().cut[worker] = is_cut;
        self.world.write(|history| history.sampled.disturbed(self.world.at()));
    }

    /// Returns the counts of a key's attempts that finished at or after this time.
    pub(super) fn finished_since(&self, key: usize, since: Duration) -> Counts {
        let mut counts = Counts::default();
        let inner = self.lock();
        for row in inner.rows.iter().rev().take_while(|row| row.finished_at >= since) {
            if row.key == key {
                counts.add(row.counts());
            }
        }
        counts
    }

    /// Returns the totals of all keys that have attempts.
    fn count(&self, poll: &Poll) -> HashMap<String, Sample> {
        let now = self.world.at();
        let since: HashMap<usize, _> = poll.since.iter().map(|since| (index(&since.key), since)).collect();
        let mut totals: HashMap<usize, Sample> = HashMap::new();
        for row in &self.lock().rows {
            let since = since.get(&row.key).filter(|_| self.sabotage != Sabotage::CountsThePast);
            let finished_ago = now - row.finished_at;
            let counts = match since {
                None => finished_ago <= poll.window,
                Some(since) if since.started => now - row.started_at <= since.age,
                Some(since) => finished_ago <= since.age.min(poll.window),
            };
            if !counts {
                continue;
            }
            let Counts { successes, failures } = row.counts();
            let sample = totals.entry(row.key).or_default();
            sample.successes += successes;
            sample.failures += failures;
            // For half-open circuits, recent attempts are not counted separately.
            if let Some(recent) = poll.recent.filter(|_| since.is_none_or(|since| !since.started)) {
                let part = sample.recent.get_or_insert_default();
                if finished_ago <= recent {
                    part.successes += successes;
                    part.failures += failures;
                }
            }
        }
        totals.into_iter().map(|(key, sample)| (name(key).to_string(), sample)).collect()
    }

    fn fate(&self, worker: usize, chance: &mut SmallRng) -> PollFate {
        let plan = self.world.scenario.sampled.as_ref().filter(|_| !self.world.has_healed());
        let Some(plan) = plan else { return PollFate::Answers };
        let mut inner = self.lock();
        let (draw, share) = (chance.random_range(0..1_000), chance.random_range(0.1..0.9));
        let fails_by_chance = draw < plan.failing_polls && !inner.just_failed;
        inner.just_failed = fails_by_chance;
        if fails_by_chance || inner.cut[worker] {
            return PollFate::Fails;
        }
        let is_slow = draw >= 1_000 - plan.slow_polls;
        if is_slow { PollFate::Slow(plan.poll_timeout.mul_f64(share)) } else { PollFate::Answers }
    }

    /// Returns how long to pause the worker that polls, or `None` for no pause. Only a tick with decisions is
    /// interrupted by a planned pause.
    fn pauses_for(&self, poll: &Poll, totals: &HashMap<String, Sample>) -> Option<Duration> {
        let is_dead = |sample: &Sample| {
            sample.recent.is_some_and(|recent| recent.failures > 2 && recent.successes == 0)
        };
        let decides = poll.since.iter().any(|since| since.started) || totals.values().any(is_dead);
        let plan = self.world.scenario.sampled.as_ref().filter(|_| decides)?;
        let mut inner = self.lock();
        let (from, lasts) = *plan.paused_in_tick.get(inner.paused)?;
        let (at, healed_at) = (self.world.at(), self.world.scenario.healed_at);
        (from <= at && at + lasts < healed_at).then(|| {
            inner.paused += 1;
            lasts
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Row {
    fn counts(&self) -> Counts {
        Counts { successes: u64::from(self.succeeded), failures: u64::from(!self.succeeded) }
    }
}

/// The sampler that one life of a worker (from one start to the next) polls.
pub(super) struct Polls {
    network: Arc<Network>,
    who: WorkerLife,
    gate: Arc<Gate>,
    chance: Mutex<SmallRng>,
}

impl Polls {
    pub(super) fn new(network: &Arc<Network>, who: WorkerLife, gate: &Arc<Gate>, seed: u64) -> Self {
        let chance = Mutex::new(SmallRng::seed_from_u64(seed ^ 0x9011));
        Self { network: Arc::clone(network), who, gate: Arc::clone(gate), chance }
    }

    fn chance(&self) -> MutexGuard<'_, SmallRng> {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pauses the worker shortly after it has received the totals, at a random time. At about that time, the
    /// worker checks with the store that it is still the leader.
    fn pause(&self, lasts: Duration) {
        let most = 2 * self.network.world.scenario.settings.latency + Duration::from_millis(1);
        let begins = most.mul_f64(self.chance().random_range(0.0..1.0));
        let (network, who, gate) = (Arc::clone(&self.network), self.who, Arc::clone(&self.gate));
        tokio::spawn(async move {
            sleep(begins).await;
            let world = &network.world;
            if gate.is_paused() {
                return;
            }
            let paused_at = world.at();
            world.note(|| format!("{who:?} PAUSED in its tick"));
            world.write(|history| history.sampled.disturbed(paused_at));
            gate.pause();
            sleep(lasts).await;
            world.note(|| format!("{who:?} goes on with its tick"));
            world.write(|history| {
                if history.workers[who.worker].life == who.life {
                    history.resumed(who, paused_at, world.at());
                }
                history.sampled.disturbed(world.at());
            });
            gate.resume();
        });
    }
}

#[async_trait]
impl Sampler for Polls {
    async fn sample(&self, poll: &Poll) -> Result<HashMap<String, Sample>, SampleError> {
        let attempts = &self.network.attempts;
        let (out, back) = {
            let mut chance = self.chance();
            (self.network.latency(&mut chance), self.network.latency(&mut chance))
        };
        sleep(out).await;
        let fate = attempts.fate(self.who.worker, &mut self.chance());
        let totals = attempts.count(poll);
        match fate {
            PollFate::Answers => {}
            PollFate::Slow(time) => sleep(time).await,
            PollFate::Fails => {
                attempts.world.write(|history| history.sampled.poll_failed(attempts.world.at()));
                return Err(SampleError::failed("the table can't be reached"));
            }
        }
        sleep(back).await;
        if let Some(lasts) = attempts.pauses_for(poll, &totals) {
            self.pause(lasts);
        }
        Ok(totals)
    }
}
