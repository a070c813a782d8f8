//! A worker's calls: at a fixed rate until stopped, or as fast as possible until a circuit is closed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, ensure};
use breakerbox::{Breakerbox, Circuit, Classification, Permit, Refusal};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval_at, sleep};

use super::caller::Caller;
use super::protocol::{CallRecord, Run, Tally};

/// The maximum number of calls of which a run keeps a record.
const MAX_KEPT: usize = 200_000;

/// The pause between a refusal and the next acquire, which is the resolution of Tokio's timer.
const RETRY_EVERY: Duration = Duration::from_millis(1);

/// A task that makes calls at a fixed rate, and its counts.
pub(super) struct Traffic {
    counted: Arc<Mutex<Counted>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// The results of a run so far.
#[derive(Default)]
struct Counted {
    tally: Tally,
    calls: Vec<CallRecord>,
}

impl Traffic {
    pub(super) fn start(run: &Run, breakers: &Breakerbox, caller: &Caller) -> Result<Self> {
        ensure!(!run.interval.is_zero() && !run.targets.is_empty(), "a run needs a rate and targets");
        let targets =
            run.targets.iter().map(|target| Ok((breakers.circuit(&target.key)?, target.path.clone())));
        let targets = targets.collect::<Result<Vec<_>>>()?;
        let (results, caller, keep_calls) =
            (Arc::new(Mutex::new(Counted::default())), caller.clone(), run.keep_calls);
        let (stop, mut stopped) = watch::channel(false);
        let mut ticks = interval_at(tokio::time::Instant::now() + run.delay, run.interval);
        // After a pause, the calls continue at their rate, without catching up.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let counted = Arc::clone(&results);
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
                    let (mut own, at_us) = (Tally::default(), unix_micros());
                    let result = acquire_and_call(&circuit, &caller, &path, &mut own).await;
                    let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
                    counted.tally.add(&own);
                    if keep_calls && counted.calls.len() < MAX_KEPT {
                        let fault = match result {
                            Err(refusal) => Some(refusal.name().to_owned()),
                            Ok(()) => (own.failed > 0).then(|| "failed".to_owned()),
                        };
                        counted.calls.push(CallRecord { at_us, fault });
                    }
                });
            }
            calls.join_all().await;
        });
        Ok(Self { counted: results, stop, task })
    }

    pub(super) fn tally(&self) -> Tally {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).tally.clone()
    }

    /// Returns the calls that started at this time or later. Returns an error if there were too many to keep.
    pub(super) fn calls(&self, since_us: u64) -> Result<Vec<CallRecord>> {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(counted.calls.len() < MAX_KEPT, "a run keeps at most {MAX_KEPT} calls");
        Ok(counted.calls.iter().filter(|call| call.at_us >= since_us).cloned().collect())
    }

    pub(super) async fn stop(self) -> Tally {
        self.stop.send_replace(true);
        // The counts are valid however the task ended.
        let _ = self.task.await;
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).tally.clone()
    }
}

/// Returns the current time in microseconds since the Unix epoch.
pub(super) fn unix_micros() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
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
