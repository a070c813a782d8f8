//! One fleet on the store: its workers, the circuits that they share, and their continuous calls.
//!
//! | circuits | description |
//! | --- | --- |
//! | `closed` | healthy, and called continuously |
//! | `open` | opened for ten minutes, long before the outage |
//! | `late` | like `open`, but just before the outage, so that a replica has not received the record |
//! | `forced`, `disabled` | overridden by an operator |
//! | `recovering` | the destination fails: the circuit is probed every two seconds, and opens again |
//! | `fresh` | no process has acquired from it before the outage |

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use breakerbox::store::Store;
use futures_util::future::try_join_all;

use super::setting::Setting;
use super::{Size, within};
use crate::fleet::protocol::{Outcome, OverrideRequest, Run, Seen, Tally, Target, WorkerCommand};
use crate::fleet::worker::Settings;
use crate::fleet::{Acquired, Behaviour, Process, Receiver, Visit};

/// A policy in which only consecutive failures open a circuit. A circuit stays open for two seconds, or for
/// longer if the destination sends a longer `Retry-After`.
const POLICY: &str = r#"{"failure_rate":"off","consecutive_failures":3,"cool_off":"2s","cool_off_factor":1,
    "cool_off_max":"10m","jitter":0,"probes":1,"probe_timeout":"2s","ramp_cap":"off"}"#;

/// The `Retry-After` for circuits that are to stay open during the test, in milliseconds.
const STAYS_OPEN_MS: u64 = 600_000;

/// The number of calls per second by a worker to each group of circuits.
const PER_SECOND: u32 = 40;

/// The duration of a failing call to a recovering destination, long enough that two probes could overlap.
const FAILS_AFTER: Duration = Duration::from_millis(40);

/// The index of the group of closed circuits, in the order of [`Scene::end_calls`].
pub(super) const CLOSED: usize = 0;
pub(super) const SHUT: usize = 1;
pub(super) const RECOVERING: usize = 2;
const GROUPS: usize = 3;

pub(super) struct Scene {
    pub(super) setting: Setting,
    pub(super) workers: Vec<Process>,
    size: Size,
    /// For each worker, the numbers that identify its runs of calls, one run for each group of circuits.
    runs: Vec<[u64; GROUPS]>,
}

impl Scene {
    /// Starts the workers, and brings the circuits into their initial states.
    pub(super) async fn set(
        program: &Path,
        store: &str,
        receiver: &Receiver,
        setting: Setting,
        size: Size,
    ) -> Result<Self> {
        let store_timeout_ms = u64::try_from(size.store_timeout.as_millis())?;
        let settings = |number| Settings {
            policy: POLICY.into(),
            on_store_loss: setting.on_loss,
            mode: setting.mode,
            store_timeout_ms,
            ..Settings::new(store, &receiver.url(), number)
        };
        let settings: Vec<_> = (0..size.workers).map(settings).collect();
        let workers = try_join_all(settings.iter().map(|settings| Process::start(program, settings))).await?;
        let scene = Self { setting, workers, size, runs: Vec::new() };
        scene.open("open", size.open).await?;
        scene.first().apply_override(&scene.key("forced", 0), OverrideRequest::ForceOpen).await?;
        scene.first().apply_override(&scene.key("disabled", 0), OverrideRequest::Disable).await?;
        for n in 0..size.recovering {
            receiver.set(&path(&scene.key("recovering", n)), Behaviour::FailingAfter(FAILS_AFTER));
        }
        Ok(scene)
    }

    /// Opens the last group of circuits, just before the outage, and starts the calls to every group.
    pub(super) async fn open_the_last(&mut self) -> Result<()> {
        self.open("late", self.size.late).await?;
        try_join_all(self.workers.iter().map(|worker| self.introduce(worker))).await?;
        self.begin_calls().await
    }

    /// Makes sure that a worker knows the circuits that must not be called. Otherwise, if a busy store does
    /// not answer the worker's first read in time, the worker assumes that a circuit has no record, and
    /// admits calls.
    async fn introduce(&self, worker: &Process) -> Result<()> {
        for key in self.shut() {
            within("what is open is known", async || match worker.try_acquire(&key).await? {
                Acquired::Refused(_) => Ok(Some(())),
                Acquired::Call(permit) | Acquired::Probe(permit) => {
                    worker.settle(permit, Outcome::Ignored).await?;
                    Ok(None)
                }
            })
            .await?;
        }
        Ok(())
    }

    fn first(&self) -> &Process {
        &self.workers[0]
    }

    fn key(&self, group: &str, n: usize) -> String {
        format!("{} {group}-{n}", self.setting.name())
    }

    fn keys(&self, group: &str, count: usize) -> Vec<String> {
        (0..count).map(|n| self.key(group, n)).collect()
    }

    /// Opens circuits with failures that carry a long `Retry-After`. Repeats the failures until the circuits
    /// are open, because on a busy machine a request may time out, and its counts are then lost.
    async fn open(&self, group: &str, count: usize) -> Result<()> {
        let worker = self.first();
        let opens = |key: String| async move {
            within("a circuit that fails opens", async || match worker.try_acquire(&key).await? {
                Acquired::Call(permit) | Acquired::Probe(permit) => {
                    worker.settle(permit, Outcome::RetryAfter { ms: STAYS_OPEN_MS }).await?;
                    Ok(None)
                }
                Acquired::Refused(why) => Ok((why == "open").then_some(())),
            })
            .await
        };
        try_join_all(self.keys(group, count).into_iter().map(opens)).await?;
        Ok(())
    }

    /// Returns the keys of the circuits that must not be called during the outage, unless `on_store_loss`
    /// allows it.
    pub(super) fn shut(&self) -> Vec<String> {
        let mut keys = self.keys("open", self.size.open);
        keys.extend(self.keys("late", self.size.late));
        keys.extend([self.key("forced", 0), self.key("disabled", 0)]);
        keys
    }

    pub(super) fn recovering(&self) -> Vec<String> {
        self.keys("recovering", self.size.recovering)
    }

    fn called(&self) -> [Vec<String>; GROUPS] {
        [self.keys("closed", self.size.closed), self.shut(), self.recovering()]
    }

    /// Starts to call every group.
    pub(super) async fn begin_calls(&mut self) -> Result<()> {
        let groups = self.called();
        let begun = self.workers.iter().map(|worker| {
            let groups = &groups;
            async move {
                let [closed, shut, recovering] = groups;
                anyhow::Ok([
                    worker.run(run(closed)).await?,
                    worker.run(run(shut)).await?,
                    worker.run(run(recovering)).await?,
                ])
            }
        });
        self.runs = try_join_all(begun).await?;
        Ok(())
    }

    /// Ends the calls, waits for those in flight, and returns the counts for each group.
    pub(super) async fn end_calls(&mut self) -> Result<[Tally; GROUPS]> {
        let mut tallies = <[Tally; GROUPS]>::default();
        for (worker, runs) in self.workers.iter().zip(std::mem::take(&mut self.runs)) {
            for (tally, run) in tallies.iter_mut().zip(runs) {
                tally.add(&worker.begin(WorkerCommand::Stop { run }).await?.tally().await?);
            }
        }
        Ok(tallies)
    }

    /// Calls circuits that no process knows yet, a few times each. Returns the counts.
    pub(super) async fn call_fresh(&self) -> Result<Tally> {
        let run = run(&self.keys("fresh", self.size.fresh));
        let mut tally = Tally::default();
        let runs = try_join_all(self.workers.iter().map(|worker| worker.run(run.clone()))).await?;
        within("fresh circuits are asked", async || {
            let acquires = self.workers.iter().zip(&runs).map(|(worker, &run)| async move {
                worker.begin(WorkerCommand::Tally { run }).await?.tally().await
            });
            let acquired = try_join_all(acquires).await?;
            let wanted = u64::try_from(self.size.fresh)?;
            Ok(acquired.iter().all(|tally| tally.acquires >= wanted).then_some(()))
        })
        .await?;
        for (worker, run) in self.workers.iter().zip(runs) {
            tally.add(&worker.begin(WorkerCommand::Stop { run }).await?.tally().await?);
        }
        Ok(tally)
    }

    /// Returns, for each worker, the state of each circuit by key.
    pub(super) async fn seen(&self) -> Result<Vec<HashMap<String, Seen>>> {
        let all = try_join_all(self.workers.iter().map(Process::circuits)).await?;
        let by_key = |seen: Vec<Seen>| seen.into_iter().map(|seen| (seen.key.clone(), seen)).collect();
        Ok(all.into_iter().map(by_key).collect())
    }

    /// Describes the first circuit whose state in a worker differs from the state in the store. `None` if all
    /// agree.
    pub(super) async fn differs(&self, store: &dyn Store) -> Result<Option<String>> {
        let keys: Vec<Arc<str>> = self.called().concat().iter().map(|key| key.as_str().into()).collect();
        let records = store.read(&keys).await?.all()?.value;
        let seen = self.seen().await?;
        for (key, record) in keys.iter().zip(records) {
            for (worker, seen) in seen.iter().enumerate() {
                let seen = seen.get(&**key).with_context(|| format!("worker {worker} has no {key}"))?;
                let differs = match &record {
                    Some(record) => {
                        (seen.status.as_str(), seen.epoch) != (record.status().name(), record.epoch)
                    }
                    None => seen.status != "closed",
                };
                if differs {
                    return Ok(Some(format!("worker {worker} has {seen:?}, and the store {record:?}")));
                }
            }
        }
        Ok(None)
    }

    /// Returns whether every worker sees the store as lost, and has reported more than `losses` losses.
    pub(super) async fn is_degraded(&self, losses: u64) -> Result<bool> {
        let health = try_join_all(self.workers.iter().map(Process::health)).await?;
        Ok(health.iter().all(|health| health.degraded.is_some() && health.losses > losses))
    }

    /// Returns whether every worker is connected, and each reported loss was followed by a reported return.
    pub(super) async fn is_connected(&self) -> Result<bool> {
        let health = try_join_all(self.workers.iter().map(Process::health)).await?;
        Ok(health.iter().all(|health| health.degraded.is_none() && health.losses == health.returns))
    }

    /// Returns the number of losses that all workers together have reported.
    pub(super) async fn losses(&self) -> Result<u64> {
        Ok(try_join_all(self.workers.iter().map(Process::health))
            .await?
            .iter()
            .map(|health| health.losses)
            .sum())
    }

    /// Returns the number of calls that reached a destination that must not be called.
    pub(super) fn forbidden_calls(&self, receiver: &Receiver) -> usize {
        self.shut().iter().map(|key| receiver.count(&path(key))).sum()
    }

    /// Returns the number of probes that started while another probe for the same circuit was in flight.
    pub(super) fn overlaps(&self, receiver: &Receiver) -> usize {
        let of = |key: &String| {
            let probes: Vec<Visit> =
                receiver.visits(&path(key)).into_iter().filter(|visit| visit.claims_to_probe).collect();
            let meets = |(n, probe): (usize, &Visit)| {
                probes[..n].iter().any(|earlier| earlier.ended.is_none_or(|ended| ended > probe.began))
            };
            probes.iter().enumerate().filter(|probe| meets(*probe)).count()
        };
        self.recovering().iter().map(of).sum()
    }

    /// Makes the failing destinations healthy again.
    pub(super) fn heal(&self, receiver: &Receiver) {
        for key in self.recovering() {
            receiver.set(&path(&key), Behaviour::Healthy(Duration::ZERO));
        }
    }

    /// Returns whether every recovering circuit is closed in every process.
    pub(super) async fn has_recovered(&self) -> Result<bool> {
        let (seen, keys) = (self.seen().await?, self.recovering());
        Ok(seen
            .iter()
            .all(|seen| keys.iter().all(|key| seen.get(key).is_some_and(|seen| seen.status == "closed"))))
    }

    /// Returns the states of the circuits that must not change during the outage. All workers must agree on
    /// them.
    pub(super) async fn shut_now(&self) -> Result<Vec<Seen>> {
        let seen = self.seen().await?;
        let all = self.shut().into_iter().map(|key| {
            let first = seen[0].get(&key).with_context(|| format!("nobody has {key}"))?;
            ensure!(seen.iter().all(|seen| seen.get(&key) == Some(first)), "workers have {key} differently");
            Ok(first.clone())
        });
        all.collect()
    }
}

fn run(keys: &[String]) -> Run {
    let targets = keys.iter().map(|key| Target { key: key.clone(), path: path(key) }).collect();
    Run::new(targets, PER_SECOND)
}

fn path(key: &str) -> String {
    format!("/{}", key.replace(' ', "/"))
}
