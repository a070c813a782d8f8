//! Callers of sampled circuits: they check, call, write the result to the table, and settle or forget to.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use breakerbox::OutcomeKind;
use breakerbox::sampling::{Checked, SampledCircuit};
use rand::RngExt;
use rand::rngs::SmallRng;
use tokio::time::sleep;

use crate::sim::caller::{CALL_TIMEOUT, CallPlan};
use crate::sim::history::WorkerLife;
use crate::sim::network::Network;

/// A task that calls one endpoint repeatedly.
pub(in crate::sim) struct Caller {
    pub(in crate::sim) network: Arc<Network>,
    pub(in crate::sim) who: WorkerLife,
    pub(in crate::sim) key: usize,
    pub(in crate::sim) circuit: SampledCircuit,
    pub(in crate::sim) chance: SmallRng,
}

impl Caller {
    pub(in crate::sim) async fn keep_calling(mut self) {
        let world = Arc::clone(&self.network.world);
        let every = world.scenario.workers[self.who.worker].every[self.key];
        loop {
            sleep(every.mul_f64(self.chance.random_range(0.2..1.8))).await;
            if world.is_over.load(Ordering::Relaxed) {
                return;
            }
            let (who, key, asked_at) = (self.who, self.key, world.at());
            let answer = self.circuit.check().await;
            world.write(|history| history.answered(who, key, asked_at, answer.is_ok()));
            match answer {
                Ok(checked) if checked.is_probe() => self.probe(checked).await,
                Ok(_) => {
                    world.write(|history| history.checked_without_lease(who, key, world.at()));
                    self.call(CALL_TIMEOUT).await;
                }
                Err(refusal) => world.note(|| format!("{who:?} e{key}: {}", refusal.name())),
            }
        }
    }

    async fn probe(&mut self, checked: Checked) {
        let (world, who, key) = (Arc::clone(&self.network.world), self.who, self.key);
        let left = checked.time_left().unwrap_or_default();
        let number =
            world.write(|history| history.began_probe(who, key, world.at(), world.store_time(), left));
        world.note(|| format!("{who:?} e{key}: probes"));
        self.call(left).await;
        // Settling is optional: if a caller forgets it, the lease is held until it expires.
        let forgets = self.chance.random_range(0..8) == 0 && !world.has_healed();
        if !forgets {
            world.write(|history| history.settled_probe(key, number, world.at(), OutcomeKind::Ignored));
            checked.settle();
        }
    }

    /// Calls the endpoint, with a timeout, and adds the result to the table of attempts.
    async fn call(&mut self, limit: Duration) {
        let (world, who, key) = (Arc::clone(&self.network.world), self.who, self.key);
        let plan = CallPlan::of_call(&world, who, key, &mut self.chance).within(limit);
        let started_at = world.at();
        sleep(plan.takes).await;
        world.note(|| format!("{who:?} e{key}: {:?}", plan.kind));
        self.network.attempts.add(key, started_at, plan.kind == OutcomeKind::Success);
    }
}
