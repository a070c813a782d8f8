//! A worker's callers: they acquire, call one endpoint, and settle, with or without following the rules.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use breakerbox::{Circuit, Classification, OutcomeKind, Permit, Record, Settlement};
use rand::RngExt;
use rand::rngs::SmallRng;
use tokio::time::sleep;

use super::history::WorkerLife;
use super::scenario::{Behaviour, Flavour};
use super::world::World;

/// The timeout for a call that is not a probe.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(1);

/// A task that calls one endpoint repeatedly.
pub(super) struct Caller {
    pub(super) world: Arc<World>,
    pub(super) who: WorkerLife,
    pub(super) key: usize,
    pub(super) circuit: Circuit,
    pub(super) chance: SmallRng,
}

/// The plan for one call: how long it takes, and its outcome.
pub(super) struct CallPlan {
    pub(super) takes: Duration,
    pub(super) kind: OutcomeKind,
}

impl Caller {
    pub(super) async fn keep_calling(mut self) {
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
            0..=6 => circuit.acquire().await,
            // A caller that does not wait for the first read assumes that a circuit is closed. Callers in
            // short-lived workers always wait, because otherwise they would never see the store's state.
            7 | 8 if !world.scenario.is_strict() && !is_short_lived => circuit.try_acquire(),
            7 | 8 => circuit.acquire().await,
            _ => circuit.acquire_within(limit).await,
        };
        world.write(|history| history.answered(who, key, asked_at, answer.is_ok()));
        match answer {
            Ok(permit) if permit.is_probe() => self.probe(permit).await,
            Ok(permit) => self.ordinary(permit, asked_at).await,
            Err(refusal) => {
                world.note(|| format!("{who:?} e{key}: {}", refusal.name()));
                world.write(|history| history.refused(key, &refusal, world.at()));
            }
        }
    }

    fn may_be_rude(&self) -> bool {
        may_be_rude(&self.world)
    }

    fn plan(&mut self) -> CallPlan {
        CallPlan::of_call(&self.world, self.who, self.key, &mut self.chance)
    }

    async fn probe(&mut self, permit: Permit<'_>) {
        let (world, who, key) = (Arc::clone(&self.world), self.who, self.key);
        let (began, left) = (world.at(), permit.time_left().unwrap_or_default());
        let number =
            world.write(|history| history.began_probe(who, key, world.at(), world.store_time(), left));
        world.note(|| format!("{who:?} e{key}: probes"));
        let mut plan = self.plan();
        let manners = if self.may_be_rude() { self.chance.random_range(0..12) } else { 0 };
        if manners < 9 {
            plan = plan.within(left);
        } else {
            // Callers that break the rules hold a permit for any time, and then settle it with any outcome.
            let lease = world.scenario.policy.probe_timeout() + Duration::from_secs(3);
            plan.takes = plan.takes.min(lease).max(Duration::from_millis(self.chance.random_range(0..5_000)));
        }
        sleep(plan.takes).await;
        let drops = manners == 11;
        if drops {
            let age = world.scenario.policy.probe_timeout().saturating_sub(left) + (world.at() - began);
            let in_grace = age < world.scenario.policy.cancel_grace();
            plan.kind = if in_grace { OutcomeKind::Ignored } else { OutcomeKind::Failure };
        }
        let waits = world.scenario.is_strict() && manners < 9;
        if waits && permit.time_left() == Some(Duration::ZERO) {
            // The worker was paused meanwhile. A probe that ends after its deadline has failed.
            plan.kind = OutcomeKind::Failure;
        }
        world.write(|history| history.settled_probe(key, number, world.at(), plan.kind));
        world.note(|| format!("{who:?} e{key}: the probe is a {:?}", plan.kind));
        if drops {
            drop(permit);
            return;
        }
        let settlement = if waits {
            permit.settle_and_confirm(self.classification(plan.kind)).await
        } else {
            self.settle(permit, plan.kind)
        };
        if settlement == Settlement::Late {
            world.note(|| format!("{who:?} e{key}: the probe was late"));
            world.write(|history| history.tally.late += 1);
        }
    }

    async fn ordinary(&mut self, permit: Permit<'_>, asked_at: Duration) {
        let (world, who, key) = (Arc::clone(&self.world), self.who, self.key);
        let plan = self.plan().within(CALL_TIMEOUT);
        let began_in = epoch_of(&self.circuit.record());
        let is_on_ramp =
            world.write(|history| history.call_begins(&world.scenario, (who, key, began_in), world.at()));
        sleep(plan.takes).await;
        if is_on_ramp {
            let succeeded = plan.kind == OutcomeKind::Success;
            world.write(|history| history.call_ended(key, began_in, succeeded));
        }
        let epoch = epoch_of(&self.circuit.record());
        let may_drop = world.scenario.flavour == Flavour::Faulty && !world.has_healed();
        let drops = may_drop && self.chance.random_range(0..20) == 0;
        if drops {
            // The simulator can't know whether the library counts this outcome.
            if world.at() - asked_at >= world.scenario.policy.cancel_grace() {
                let at = world.at();
                world.write(|history| history.counted((who, key, epoch), true, &world.scenario, at));
            }
            drop(permit);
            return;
        }
        let failed = plan.kind == OutcomeKind::Failure;
        if failed && world.scenario.workers[who.worker].short_lived.is_some() {
            world.write(|history| history.short_lived_failed(&world.scenario, who, key, world.at()));
        }
        if world.scenario.is_strict() {
            self.settle_strictly(permit, plan.kind, epoch).await;
            return;
        }
        let settlement = self.settle(permit, plan.kind);
        world.note(|| format!("{who:?} e{key}: {:?} {settlement:?}", plan.kind));
        match settlement {
            Settlement::Counted => {
                let at = world.at();
                world.write(|history| history.counted((who, key, epoch), failed, &world.scenario, at));
            }
            Settlement::Late => world.write(|history| history.tally.late += 1),
            Settlement::Uncounted | Settlement::Unconfirmed => {}
        }
    }

    /// Settles a permit in strict mode, and waits for the store's response.
    async fn settle_strictly(&mut self, permit: Permit<'_>, kind: OutcomeKind, epoch: u64) {
        let (world, who, key) = (Arc::clone(&self.world), self.who, self.key);
        let (counts, failed) = (kind != OutcomeKind::Ignored, kind == OutcomeKind::Failure);
        if counts {
            // The store may count the outcome before this worker gets the response.
            let at = world.at();
            world.write(|history| history.counted((who, key, epoch), failed, &world.scenario, at));
        }
        let settlement = permit.settle_and_confirm(self.classification(kind)).await;
        world.note(|| format!("{who:?} e{key}: {kind:?} {settlement:?}"));
        match settlement {
            Settlement::Late => world.write(|history| {
                history.tally.late += 1;
                history.not_counted(who, key, epoch, failed);
            }),
            Settlement::Uncounted if counts => {
                world.write(|history| history.not_counted(who, key, epoch, failed));
            }
            Settlement::Counted | Settlement::Uncounted | Settlement::Unconfirmed => {}
        }
    }

    fn settle(&mut self, permit: Permit<'_>, kind: OutcomeKind) -> Settlement {
        match kind {
            OutcomeKind::Success => permit.success(),
            OutcomeKind::Failure => self.fail(permit),
            OutcomeKind::Ignored => permit.ignored(),
        }
    }

    fn classification(&mut self, kind: OutcomeKind) -> Classification {
        match kind {
            OutcomeKind::Success => Classification::SUCCESS,
            OutcomeKind::Ignored => Classification::IGNORED,
            OutcomeKind::Failure if self.chance.random_range(0..10) == 0 => {
                let wait = Duration::from_millis(self.chance.random_range(0..4_000));
                Classification::failure_with_retry_after(wait)
            }
            OutcomeKind::Failure => Classification::FAILURE,
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

/// Returns whether callers may misbehave now, for example by dropping permits. They may only before all
/// faults have ended, and only in some flavours.
fn may_be_rude(world: &World) -> bool {
    !world.has_healed() && world.scenario.flavour.has_rude_callers()
}

impl CallPlan {
    /// Returns the plan for a call that starts now.
    pub(super) fn of_call(world: &World, who: WorkerLife, key: usize, chance: &mut SmallRng) -> Self {
        let at = world.at();
        let phases = &world.scenario.endpoints[key];
        let behaviour =
            phases.iter().rfind(|phase| phase.from <= at).map_or(Behaviour::Well, |phase| phase.behaviour);
        let quickly = Duration::from_millis(chance.random_range(0..30));
        let is_broken = world.scenario.workers[who.worker].broken_from.is_some_and(|from| from <= at);
        world.write(|history| history.tally.broken_calls += u64::from(is_broken));
        let (takes, is_well) = match behaviour {
            _ if is_broken => (quickly, false),
            Behaviour::Well => (quickly, true),
            Behaviour::Dead => (quickly, false),
            Behaviour::Flaky(percent) => (quickly, chance.random_range(0..100) >= percent),
            Behaviour::Slow(ms) => (Duration::from_millis(chance.random_range(ms / 2..=ms)), true),
            Behaviour::Hangs => (Duration::from_secs(3_600), false),
        };
        let says_nothing = may_be_rude(world) && chance.random_range(0..30) == 0;
        let kind = match is_well {
            _ if says_nothing => OutcomeKind::Ignored,
            true => OutcomeKind::Success,
            false => OutcomeKind::Failure,
        };
        Self { takes, kind }
    }

    /// Returns the plan with this timeout applied to the call.
    pub(super) fn within(self, limit: Duration) -> Self {
        if self.takes >= limit { Self { takes: limit, kind: OutcomeKind::Failure } } else { self }
    }
}

/// Returns the epoch in a circuit's record, or 0 if the circuit has had no transition.
pub(super) fn epoch_of(record: &Record) -> u64 {
    record.cause.as_ref().map_or(0, |_| record.epoch.0)
}
