//! Recoveries by a fleet: all processes acquire at the end of a cool-off, and the receiver records the
//! requests.
//!
//! One round for one endpoint:
//!
//! 1. Every process acquires a permit while the circuit is closed. No call has failed yet, so all get one.
//! 2. The endpoint fails. Every process makes its call and reports the failure. That trips the circuit once;
//!    some failures are late.
//! 3. Every process knows that the circuit is open. From now on no process holds a permit or is acquiring one,
//!    so every further request that the receiver sees was admitted after the trip.
//! 4. The endpoint is healthy again, and slow enough that other requests can arrive during a probe. All
//!    processes acquire as fast as they can, before, at and after the end of the cool-off, and make every
//!    admitted call, each until it was admitted for an ordinary one.
//! 5. The receiver has seen as many probes as are required to close, one after the other, and no other request
//!    before the last of them was answered. Every later request declares that it is not a probe.
//!
//! Many endpoints go through this in parallel, with the same processes.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use breakerbox::CircuitStatus;
use futures_util::future::try_join_all;

use super::backing::Kind;
use super::judge::{Seen, judge};
use super::process::Acquired;
use super::protocol::{Outcome, Tally, WorkerCommand};
use super::receiver::Behaviour;
use super::recoveries::Recoveries;
use super::site::{Latency, Site, Worker};

/// The duration of a probe, which is longer than several round trips to a store on the same machine.
const PROBE_TAKES: Duration = Duration::from_millis(10);

/// The parameters of a recovery test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The kind of store.
    pub kind: Kind,
    /// The latency that is added to the store's own latency.
    pub latency: Latency,
    /// The number of successful probes that close the circuit.
    pub probes: u32,
    /// The number of worker processes.
    pub processes: u32,
    /// The number of endpoints that recover in parallel.
    pub endpoints: u32,
    /// The number of recoveries for each endpoint.
    pub rounds: u32,
}

/// Tests that a fleet makes exactly the required probes in each recovery.
///
/// # Errors
/// Returns an error if a server or a worker fails, or a worker lost the store during the test. Violated
/// guarantees are reported in the result.
pub async fn recover(program: &Path, plan: Plan) -> Result<Recoveries> {
    let site = Site::start(program, plan.kind).await?;
    let policy = policy(&plan);
    let workers = try_join_all((0..plan.processes).map(|n| site.worker(n, &policy, plan.latency))).await?;
    let began = Instant::now();
    let endpoints = (0..plan.endpoints).map(|n| {
        let name = format!("/e{n}");
        let course =
            Course { plan, site: &site, workers: &workers, key: format!("proof {name}"), path: name };
        async move { course.run().await.with_context(|| format!("endpoint {n}")) }
    });
    let mut all = Recoveries::new(plan);
    for own in try_join_all(endpoints).await? {
        all.add(own);
    }
    for worker in &workers {
        let health = worker.health().await?;
        all.late += health.late_results;
        if health.losses > 0 || health.unanswered_reports > 0 {
            bail!("worker {} lost the store, so this proves nothing: {health:?}", worker.number());
        }
    }
    all.took = began.elapsed();
    Ok(all)
}

/// Returns a policy that trips when half of the processes report a failure. Cool-offs do not grow and there
/// is no ramp, so that each round is like the first. There is no rule for consecutive failures, because the
/// previous round's successes are only milliseconds old, and the order of outcomes from different processes
/// is not known that exactly.
fn policy(plan: &Plan) -> String {
    let failures = plan.processes / 2;
    let cool_off_ms = if plan.latency == Latency::None { 100 } else { 150 };
    format!(
        r#"{{"failure_rate":"off","consecutive_failures":"off","failures":{failures},"cool_off":"{cool_off_ms}ms","cool_off_factor":1,
            "jitter":0,"probes":{},"ramp_cap":"off"}}"#,
        plan.probes
    )
}

/// One endpoint, whose circuit is tripped and recovers in every round.
struct Course<'a> {
    plan: Plan,
    site: &'a Site,
    workers: &'a [Worker],
    key: String,
    path: String,
}

impl Course<'_> {
    async fn run(&self) -> Result<Recoveries> {
        let mut all = Recoveries::new(self.plan);
        let mut contested = 0;
        for round in 1..=self.plan.rounds {
            let in_round = || format!("round {round}");
            self.trip().await.with_context(in_round)?;
            let trips = self.site.backing.record(&self.key).await?.trips;
            let (seen, tally) = self.close().await.with_context(in_round)?;
            let faults = judge(&seen, self.plan.probes, tally.probes);
            let lost = self.leases_lost().await?;
            let record = self.site.backing.record(&self.key).await?;
            all.count(&seen, faults, lost > contested, &tally);
            contested = lost;
            // A late failure that counted would trip the circuit once more. Between rounds, trips may be forgiven.
            if (record.trips, record.status()) != (trips, CircuitStatus::Closed) {
                all.late_applied += 1;
                all.deviates(format!(
                    "{}, round {round}: {trips} trips, then {} and {}",
                    self.path,
                    record.trips,
                    record.status()
                ));
                // Later rounds would only repeat the deviation.
                break;
            }
        }
        Ok(all)
    }

    /// Opens the circuit with a failing call by every worker (steps 1 to 3 of a round).
    async fn trip(&self) -> Result<()> {
        let permits = try_join_all(self.workers.iter().map(|worker| worker.try_acquire(&self.key))).await?;
        self.site.receiver.set(&self.path, Behaviour::Failing);
        try_join_all(self.workers.iter().zip(permits).map(|(worker, acquired)| async move {
            let Acquired::Call(permit) = acquired else {
                bail!("worker {}: the circuit should be closed, but: {acquired:?}", worker.number());
            };
            let status = worker.send(permit, &self.path).await?;
            ensure!(status == Some(503), "worker {}: the receiver said {status:?}", worker.number());
            worker.settle(permit, Outcome::Failure).await
        }))
        .await?;
        try_join_all(self.workers.iter().map(|worker| worker.becomes(&self.key, "open"))).await?;
        Ok(())
    }

    /// Closes the circuit with successful probes (step 4 of a round). Returns the requests that the receiver
    /// saw, and the workers' counts.
    async fn close(&self) -> Result<(Seen, Tally)> {
        let receiver = &self.site.receiver;
        let before = receiver.count(&self.path);
        receiver.set(&self.path, Behaviour::Healthy(PROBE_TAKES));
        let hammers = try_join_all(self.workers.iter().map(|worker| {
            worker.begin(WorkerCommand::Hammer { key: self.key.clone(), path: self.path.clone() })
        }))
        .await?;
        let mut tally = Tally::default();
        for hammer in hammers {
            tally.add(&hammer.tally().await?);
        }
        Ok((Seen(receiver.visits(&self.path).split_off(before)), tally))
    }

    /// Returns how often two processes have competed for the same lease so far.
    async fn leases_lost(&self) -> Result<u64> {
        let known = try_join_all(self.workers.iter().map(|worker| worker.state(&self.key))).await?;
        Ok(known.iter().map(|known| known.leases_lost).sum())
    }
}
