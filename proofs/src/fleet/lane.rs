//! The common part of all fault tests: a group of three processes (a lane), which uses a new endpoint in each
//! round.
//!
//! The first cool-off is short. The second would be ten minutes, longer than any timeout in a test. So every
//! request after a fault came without waiting for a cool-off, and no result was counted as a failed probe.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use breakerbox::{CircuitStatus, Record, Timestamp};
use futures_util::future::try_join_all;
use tokio::time::{Instant, sleep};

use super::judge::{Seen, judge};
use super::process::{Acquired, WAIT_LIMIT};
use super::protocol::{Health, Outcome, WorkerCommand};
use super::receiver::{Behaviour, Visit};
use super::site::{Latency, Site, Worker};

/// Returns a policy that trips after three failures, whichever processes report them.
fn policy(probe_timeout: Duration) -> String {
    format!(
        r#"{{"failure_rate":"off","consecutive_failures":"off","failures":3,"cool_off":"50ms","cool_off_factor":12000,
            "cool_off_max":"10m","jitter":0,"probes":1,"probe_timeout":"{}ms","ramp_cap":"off"}}"#,
        probe_timeout.as_millis()
    )
}

/// The interval at which a condition is checked.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A group of three processes, in which a fault is injected into the first.
pub(super) struct Lane<'a> {
    pub(super) site: &'a Site,
    /// The workers. The fault is injected into the first, the victim.
    pub(super) workers: Vec<Worker>,
    number: u32,
    policy: String,
    /// The circuit's key. Key and path are new in each round.
    pub(super) key: String,
    pub(super) path: String,
}

impl<'a> Lane<'a> {
    /// Starts the workers of a group. A lease lasts two seconds longer than `probe_timeout`.
    pub(super) async fn start(site: &'a Site, number: u32, probe_timeout: Duration) -> Result<Self> {
        let policy = policy(probe_timeout);
        let workers = (0..3).map(|n| site.worker(number * 3 + n, &policy, Latency::None));
        let workers = try_join_all(workers).await?;
        Ok(Self { site, workers, number, policy, key: String::new(), path: String::new() })
    }

    /// Switches to an endpoint that no process has called yet.
    pub(super) fn begin(&mut self, round: u32) {
        self.path = format!("/lane-{}-round-{round}", self.number);
        self.key = format!("proof {}", self.path);
    }

    pub(super) fn victim(&self) -> &Worker {
        &self.workers[0]
    }

    pub(super) fn others(&self) -> &[Worker] {
        &self.workers[1..]
    }

    /// Replaces the victim with a new process.
    pub(super) async fn replace_victim(&mut self) -> Result<()> {
        self.workers[0] = self.site.worker(self.number * 3, &self.policy, Latency::None).await?;
        Ok(())
    }

    pub(super) fn answers(&self, behaviour: Behaviour) {
        self.site.receiver.set(&self.path, behaviour);
    }

    pub(super) fn visits(&self) -> Vec<Visit> {
        self.site.receiver.visits(&self.path)
    }

    pub(super) async fn record(&self) -> Result<Record> {
        self.site.backing.record(&self.key).await
    }

    /// Acquires a permit for a regular call (not a probe), and returns the permit's number.
    pub(super) async fn admitted(&self, worker: &Worker) -> Result<u64> {
        match worker.try_acquire(&self.key).await? {
            Acquired::Call(permit) => Ok(permit),
            acquired => bail!("worker {}: the circuit should be closed, but: {acquired:?}", worker.number()),
        }
    }

    /// Makes a failing call with a permit acquired earlier. Returns how the permit was settled, such as
    /// `counted`.
    pub(super) async fn fail(&self, worker: &Worker, permit: u64) -> Result<String> {
        let status = worker.send(permit, &self.path).await?;
        ensure!(status == Some(503), "worker {}: the receiver said {status:?}", worker.number());
        worker.settle(permit, Outcome::Failure).await
    }

    /// Opens the circuit with failures in the two workers that are not the victim. Returns the record of the
    /// open circuit.
    pub(super) async fn trip(&self) -> Result<Record> {
        let [one, other] = self.others() else { bail!("there are three workers") };
        self.answers(Behaviour::Failing);
        let permits = [self.admitted(one).await?, self.admitted(one).await?, self.admitted(other).await?];
        self.fail(one, permits[0]).await?;
        self.fail(one, permits[1]).await?;
        self.fail(other, permits[2]).await?;
        one.becomes(&self.key, "open").await?;
        other.becomes(&self.key, "open").await?;
        let record = self.record().await?;
        ensure!(
            (record.status(), record.trips) == (CircuitStatus::Open, 1),
            "it has not tripped once: {record:?}"
        );
        Ok(record)
    }

    /// Acquires until this worker gets the probe permit, which it can't before the cool-off has ended.
    /// Returns the permit's number.
    pub(super) async fn probe(&self, worker: &Worker) -> Result<u64> {
        let limit = Instant::now() + WAIT_LIMIT;
        loop {
            match worker.try_acquire(&self.key).await? {
                Acquired::Probe(permit) => return Ok(permit),
                Acquired::Call(_) => bail!("worker {}: the circuit is closed", worker.number()),
                Acquired::Refused(why) => ensure!(Instant::now() < limit, "still refused: {why}"),
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Makes the victim probe, with a call that hangs at the receiver. Returns the permit's number, and when
    /// the lease expires.
    pub(super) async fn victim_probes(&self) -> Result<(u64, Timestamp)> {
        self.answers(Behaviour::Hanging);
        let before = self.visits().len();
        let permit = self.probe(self.victim()).await?;
        let lease = self.record().await?.lease.context("a prober has a lease")?;
        let command = WorkerCommand::Send { permit, path: self.path.clone() };
        // The response is not awaited: it may never arrive.
        drop(self.victim().begin(command).await?);
        self.until("its probe arrives", || self.visits().len() == before + 1).await?;
        Ok((permit, lease.expires_at))
    }

    /// Closes the circuit: the two other workers acquire permits until each gets a regular one (not a probe).
    pub(super) async fn others_close_it(&self) -> Result<()> {
        let pending = try_join_all(self.others().iter().map(|worker| worker.begin(self.hammer()))).await?;
        for hammer in pending {
            hammer.tally().await?;
        }
        Ok(())
    }

    pub(super) fn hammer(&self) -> WorkerCommand {
        WorkerCommand::Hammer { key: self.key.clone(), path: self.path.clone() }
    }

    /// Judges the requests starting at this index, which must be exactly one probe that closed the circuit,
    /// followed only by regular calls. Returns the deviations.
    pub(super) async fn judge_from(&self, first: usize) -> Result<Vec<String>> {
        let seen = Seen(self.visits().split_off(first));
        let mut faults = judge(&seen, 1, 1);
        let record = self.record().await?;
        if (record.status(), record.trips) != (CircuitStatus::Closed, 1) {
            faults.push(format!("in the end it is {} after {} trips", record.status(), record.trips));
        }
        Ok(faults)
    }

    /// Waits until a worker's health report meets the condition `is_so`. Returns an error after a timeout.
    pub(super) async fn until_health(
        &self,
        worker: &Worker,
        what: &str,
        is_so: impl Fn(&Health) -> bool,
    ) -> Result<()> {
        let limit = Instant::now() + WAIT_LIMIT;
        loop {
            let health = worker.health().await?;
            if is_so(&health) {
                return Ok(());
            }
            ensure!(Instant::now() < limit, "worker {}, {what}: {health:?}", worker.number());
            sleep(LOOK_EVERY).await;
        }
    }

    pub(super) async fn until(&self, what: &str, is_so: impl Fn() -> bool) -> Result<()> {
        let limit = Instant::now() + WAIT_LIMIT;
        while !is_so() {
            ensure!(Instant::now() < limit, "{what}: it does not");
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Waits until this time on the store's clock, which is also this machine's clock.
    pub(super) async fn until_time(&self, time: Timestamp) -> Result<()> {
        self.until("time passes", || stamp(SystemTime::now()) > time).await
    }
}

/// Converts a time to a store timestamp.
pub(super) fn stamp(time: SystemTime) -> Timestamp {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}
