//! A worker's calls: at a fixed rate until stopped, or as fast as possible until a circuit is closed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use breakerbox::{Breakerbox, Circuit, Classification, Permit, Refusal};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::caller::Caller;
use super::protocol::{Run, Tally};

/// The pause between a refusal and the next acquire, which is the resolution of Tokio's timer.
const RETRY_EVERY: Duration = Duration::from_millis(1);

/// A task that makes calls at a fixed rate, and its counts.
pub(super) struct Traffic {
    tally: Arc<Mutex<Tally>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Traffic {
    pub(super) fn start(run: &Run, breakers: &Breakerbox, caller: &Caller) -> Result<Self> {
        ensure!(run.per_second > 0 && !run.targets.is_empty(), "a run needs a rate and targets");
        let targets =
            run.targets.iter().map(|target| Ok((breakers.circuit(&target.key)?, target.path.clone())));
        let targets = targets.collect::<Result<Vec<_>>>()?;
        let (tally, caller) = (Arc::new(Mutex::new(Tally::default())), caller.clone());
        let (stop, mut stopped) = watch::channel(false);
        let mut ticks = interval(Duration::from_secs(1) / run.per_second);
        // After a pause, the calls continue at their rate, without catching up.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let counted = Arc::clone(&tally);
        let task = tokio::spawn(async move {
            let mut calls = JoinSet::new();
            for (circuit, path) in targets.iter().cycle() {
                tokio::select! {
                    _ = ticks.tick() => {}
                    _ = stopped.changed() => break,
                }
                while calls.try_join_next().is_some() {}
                let (circuit, caller, path) = (circuit.clone(), caller.clone(), path.clone());
                let counted = Arc::clone(&counted);
                calls.spawn(async move {
                    let mut own = Tally::default();
                    let _ = acquire_and_call(&circuit, &caller, &path, &mut own).await;
                    counted.lock().unwrap_or_else(PoisonError::into_inner).add(&own);
                });
            }
            calls.join_all().await;
        });
        Ok(Self { tally, stop, task })
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) async fn stop(self) -> Tally {
        self.stop.send_replace(true);
        // The counts are valid however the task ended.
        let _ = self.task.await;
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Acquires and makes every admitted call, until a regular call (not a probe) is admitted. The circuit is
/// then closed.
pub(super) async fn hammer(circuit: &Circuit, caller: &Caller, path: &str) -> Tally {
    let mut tally = Tally::default();
    while tally.calls == 0 {
        if acquire_and_call(circuit, caller, path, &mut tally).await.is_err() {
            sleep(RETRY_EVERY).await;
        }
    }
    tally
}

/// Acquires once, makes the call if a permit is granted, and adds the result to the tally. Returns the
/// refusal otherwise.
async fn acquire_and_call(
    circuit: &Circuit,
    caller: &Caller,
    path: &str,
    tally: &mut Tally,
) -> Result<(), Refusal> {
    let began = Instant::now();
    let answer = circuit.acquire().await;
    let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    tally.acquires += 1;
    tally.longest_ask_us = tally.longest_ask_us.max(took);
    let permit = answer.inspect_err(|refusal| match refusal {
        Refusal::Open { .. } | Refusal::OpenLocally { .. } => tally.open += 1,
        Refusal::Probing { .. } => tally.probing += 1,
        _ => tally.refused += 1,
    })?;
    call(permit, caller, path, tally).await;
    Ok(())
}

async fn call(permit: Permit<'_>, caller: &Caller, path: &str, tally: &mut Tally) {
    let is_probe = permit.is_probe();
    if is_probe {
        tally.probes += 1;
    } else {
        tally.calls += 1;
    }
    let succeeded = caller.call(path, is_probe).await.and_then(Caller::succeeded).is_ok();
    tally.failed += u64::from(!succeeded);
    if caller.waits_for_the_store() {
        let judgement = if succeeded { Classification::SUCCESS } else { Classification::FAILURE };
        permit.settle_and_confirm(judgement).await;
    } else if succeeded {
        permit.success();
    } else {
        permit.failure();
    }
}
