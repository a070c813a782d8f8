//! Recoveries by a fleet: all processes ask at the end of a cool-off, and the receiver counts who comes.
//!
//! One round of one endpoint:
//!
//! 1. Every process asks for a permit, while the circuit is closed. Nobody has failed yet, so all get one.
//! 2. The endpoint fails. Every process makes its call and says so. That trips the circuit, once; some failures come too late.
//! 3. Every process knows that the circuit is open. From here on nobody holds a permit and nobody has asked, so whatever the
//!    receiver sees next was permitted after the trip.
//! 4. The endpoint is healthy again, and slow enough for others to come while a probe is there. All processes ask as fast as
//!    they can, before, at and after the end of the cool-off, and make every call that is permitted; each until it was
//!    permitted an ordinary one.
//! 5. The receiver has seen as many probes as are needed to close, one after the other, and nobody else before the last of
//!    them was answered. Whoever came after that says that it was no probe.
//!
//! Many endpoints do so side by side, with the same processes.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use breakerbox::Status;
use futures_util::future::try_join_all;

use super::backing::Kind;
use super::judge::{Seen, judge};
use super::process::Asked;
use super::receiver::Manner;
use super::recoveries::Recoveries;
use super::site::{Latency, Site, Worker};
use super::words::{Order, Outcome, Tally};

/// How long a probe is there: some round trips to a store that is next door.
const PROBE_TAKES: Duration = Duration::from_millis(10);

/// What is to be tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Over which store.
    pub kind: Kind,
    /// How much longer it takes to answer.
    pub latency: Latency,
    /// How many probes must succeed to close.
    pub probes: u32,
    /// How many processes.
    pub processes: u32,
    /// How many endpoints recover side by side.
    pub endpoints: u32,
    /// How often each of them does.
    pub rounds: u32,
}

/// Runs all rounds.
///
/// # Errors
/// If a server or a worker fails, or the store was lost meanwhile. What is not as promised is no error, but in the result.
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
        if health.losses > 0 || health.unheard > 0 {
            bail!("worker {} lost the store, so this proves nothing: {health:?}", worker.number());
        }
    }
    all.took = began.elapsed();
    Ok(all)
}

/// A rule that half of the processes fulfil together, cool-offs that do not grow, and no ramp: each round is like the first.
/// It is not a rule about failures in a row: the successes that ended the round before were some milliseconds ago, and which
/// of two processes' outcomes was first is known no better than to the time that a request takes.
fn policy(plan: &Plan) -> String {
    let failures = plan.processes / 2;
    let cool_off_ms = if plan.latency == Latency::None { 100 } else { 150 };
    format!(
        r#"{{"failure_rate":"off","consecutive_failures":"off","failures":{failures},"cool_off":"{cool_off_ms}ms","cool_off_factor":1,
            "jitter":0,"probes":{},"ramp_cap":"off"}}"#,
        plan.probes
    )
}

/// The rounds of one endpoint.
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
            // A late failure that counted would trip it once more.
            if (trips, record.trips, record.status()) != (round, round, Status::Closed) {
                all.late_applied += 1;
                all.deviates(format!(
                    "{}, round {round}: {trips} trips, then {} and {}",
                    self.path,
                    record.trips,
                    record.status()
                ));
                // Later rounds would only repeat it.
                break;
            }
        }
        Ok(all)
    }

    /// Steps 1 to 3.
    async fn trip(&self) -> Result<()> {
        let permits = try_join_all(self.workers.iter().map(|worker| worker.try_acquire(&self.key))).await?;
        self.site.receiver.set(&self.path, Manner::Failing);
        try_join_all(self.workers.iter().zip(permits).map(|(worker, asked)| async move {
            let Asked::Call(permit) = asked else {
                bail!("worker {}: the circuit should be closed, but: {asked:?}", worker.number());
            };
            let status = worker.send(permit, &self.path).await?;
            ensure!(status == Some(503), "worker {}: the receiver said {status:?}", worker.number());
            worker.settle(permit, Outcome::Failure).await
        }))
        .await?;
        try_join_all(self.workers.iter().map(|worker| worker.becomes(&self.key, "open"))).await?;
        Ok(())
    }

    /// Step 4. What the receiver saw, and what the workers say.
    async fn close(&self) -> Result<(Seen, Tally)> {
        let receiver = &self.site.receiver;
        let before = receiver.count(&self.path);
        receiver.set(&self.path, Manner::Healthy(PROBE_TAKES));
        let hammers =
            try_join_all(self.workers.iter().map(|worker| {
                worker.begin(Order::Hammer { key: self.key.clone(), path: self.path.clone() })
            }))
            .await?;
        let mut tally = Tally::default();
        for hammer in hammers {
            tally.add(&hammer.tally().await?);
        }
        Ok((Seen(receiver.visits(&self.path).split_off(before)), tally))
    }

    /// How often two processes wanted the same lease so far.
    async fn leases_lost(&self) -> Result<u64> {
        let known = try_join_all(self.workers.iter().map(|worker| worker.state(&self.key))).await?;
        Ok(known.iter().map(|known| known.leases_lost).sum())
    }
}
