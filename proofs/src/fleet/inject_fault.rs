//! One round with each fault: injects it, and returns the deviations from the guarantee.

use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use breakerbox::{CircuitStatus, Record, Timestamp};
use breakerbox_testkit::proxy::NetworkFault;
use tokio::time::Instant;

use super::fault::Fault;
use super::lane::{Lane, stamp};
use super::process::WAIT_LIMIT;
use super::protocol::{Answer, Outcome, WorkerCommand};
use super::receiver::Behaviour;
use super::site::Worker;

/// A worker's response that has not arrived yet.
type PendingAnswer = Pin<Box<dyn Future<Output = Result<Answer>> + Send>>;

/// The result of one round.
#[derive(Default)]
pub(super) struct Round {
    pub(super) faults: Vec<String>,
    /// The time from the end of the lease to the next probe, or `None` if it is not measured.
    pub(super) after_lease: Option<Duration>,
    /// The number of results that arrived after their lease had expired.
    pub(super) late: u64,
    /// The number of late results that changed the circuit's record.
    pub(super) late_applied: u64,
}

impl Round {
    /// Records a deviation if the late result changed the circuit's record.
    fn unchanged(&mut self, what: &str, before: &Record, after: &Record) {
        if before != after {
            self.late_applied += 1;
            self.faults.push(format!("{what} changed {before:?} into {after:?}"));
        }
    }
}

impl Lane<'_> {
    pub(super) async fn inject_fault(&mut self, fault: Fault, round: u32) -> Result<Round> {
        self.begin(round);
        let is_even = round.is_multiple_of(2);
        match fault {
            Fault::Killed => self.kill().await,
            Fault::PausedWhileOthersAsk => self.pause_while_others_ask(is_even).await,
            Fault::PausedAndNobodyAsks => self.pause_and_nobody_asks(is_even).await,
            Fault::CutOff => self.cut_off(is_even).await,
            Fault::InFlight => self.in_flight(is_even).await,
        }
    }

    async fn kill(&mut self) -> Result<Round> {
        self.trip().await?;
        let (_, lease_ends) = self.victim_probes().await?;
        let probed = self.visits().len();
        self.workers[0].kill().await?;
        self.answers(Behaviour::Healthy(Duration::from_millis(5)));
        self.others_close_it().await?;
        let mut round = Round { faults: self.judge_from(probed).await?, ..Round::default() };
        self.judge_next_probe(&mut round, probed, lease_ends);
        self.replace_victim().await?;
        Ok(round)
    }

    /// Checks that the next probe did not start before the lease expired, and records its delay.
    fn judge_next_probe(&self, round: &mut Round, number: usize, lease_ends: Timestamp) {
        let Some(next) = self.visits().into_iter().nth(number) else { return };
        let began = stamp(next.began);
        if began < lease_ends {
            round
                .faults
                .push(format!("the next probe came {:?} before the lease ended", lease_ends.since(began)));
        }
        round.after_lease = Some(began.since(lease_ends));
    }

    async fn pause_while_others_ask(&mut self, by_hand: bool) -> Result<Round> {
        self.trip().await?;
        let late = self.victim().health().await?.late_results;
        let (result, lease_ends) = self.victim_is_stopped_with_a_success(by_hand).await?;
        let probed = self.visits().len();
        // Another process's probe is in flight when the old result arrives.
        self.answers(Behaviour::Hanging);
        let [one, other] = self.others() else { unreachable!("a lane has three workers") };
        let hammers = [one.begin(self.hammer()).await?, other.begin(self.hammer()).await?];
        self.until("the next probe comes", || self.visits().len() > probed).await?;
        let mut round = Round::default();
        self.judge_next_probe(&mut round, probed, lease_ends);
        self.resume_and_compare(&mut round, result, late).await?;
        self.answers(Behaviour::Healthy(Duration::from_millis(5)));
        for hammer in hammers {
            hammer.tally().await?;
        }
        round.faults.extend(self.judge_from(probed).await?);
        Ok(round)
    }

    async fn pause_and_nobody_asks(&mut self, by_hand: bool) -> Result<Round> {
        self.trip().await?;
        let late = self.victim().health().await?.late_results;
        let (result, lease_ends) = self.victim_is_stopped_with_a_success(by_hand).await?;
        let probed = self.visits().len();
        self.until_time(lease_ends).await?;
        let mut round = Round::default();
        self.resume_and_compare(&mut round, result, late).await?;
        self.answers(Behaviour::Healthy(Duration::from_millis(5)));
        self.others_close_it().await?;
        round.faults.extend(self.judge_from(probed).await?);
        Ok(round)
    }

    /// Makes the victim probe, pauses it, and then makes the receiver respond to the probe. With `by_hand`, the
    /// victim settles with a success as soon as it resumes. Otherwise the library settles according to the
    /// response.
    async fn victim_is_stopped_with_a_success(&self, by_hand: bool) -> Result<(PendingAnswer, Timestamp)> {
        let victim = self.victim();
        let (result, lease_ends): (PendingAnswer, _) = if by_hand {
            let (permit, lease_ends) = self.victim_probes().await?;
            victim.pause().await?;
            // The victim reads this command when it resumes.
            let command = WorkerCommand::Settle { permit, outcome: Outcome::Success };
            (Box::pin(victim.begin(command).await?.answer()), lease_ends)
        } else {
            let call = self.victim_calls().await?;
            victim.pause().await?;
            (call, self.record().await?.lease.context("a prober has a lease")?.expires_at)
        };
        self.answers(Behaviour::Healthy(Duration::ZERO));
        self.until("the stopped prober is answered", || {
            self.visits().last().is_some_and(|visit| visit.status == Some(200))
        })
        .await?;
        Ok((result, lease_ends))
    }

    /// Makes the victim acquire until its call is a probe, which hangs at the receiver.
    async fn victim_calls(&self) -> Result<PendingAnswer> {
        self.answers(Behaviour::Hanging);
        let before = self.visits().len();
        let limit = Instant::now() + WAIT_LIMIT;
        loop {
            let command = WorkerCommand::Call { key: self.key.clone(), path: self.path.clone() };
            let mut call: PendingAnswer = Box::pin(self.victim().begin(command).await?.answer());
            tokio::select! {
                // Refused, because the cool-off is not over.
                refused = &mut call => drop(refused?),
                arrived = self.until("its probe arrives", || self.visits().len() > before) => {
                    return arrived.map(|()| call);
                }
            }
            ensure!(Instant::now() < limit, "the victim gets no probe");
        }
    }

    /// Resumes the victim, whose result is late, and checks that the record in the store stays the same,
    /// including its version.
    async fn resume_and_compare(
        &self,
        round: &mut Round,
        result: PendingAnswer,
        late_before: u64,
    ) -> Result<()> {
        let before = self.record().await?;
        if before.status() != CircuitStatus::HalfOpen {
            round.faults.push(format!("it is {} while a probe is under way", before.status()));
        }
        self.victim().resume()?;
        let answer = result.await?;
        let is_late = self
            .until_health(self.victim(), "its result is late", |health| health.late_results > late_before);
        if let Err(error) = is_late.await {
            let known = self.victim().state(&self.key).await?;
            return Err(
                error.context(format!("it answered {answer:?} and knows {known:?}, before: {before:?}"))
            );
        }
        round.late += 1;
        round.unchanged("a result after its lease", &before, &self.record().await?);
        Ok(())
    }

    async fn cut_off(&mut self, until_open: bool) -> Result<Round> {
        let victim = self.victim();
        // The victim knows the circuit, and holds permits for calls that will fail while it can't reach the
        // store.
        let permits = [self.admitted(victim).await?, self.admitted(victim).await?];
        let late = victim.health().await?.late_results;
        victim.proxy.set(NetworkFault::Cut);
        self.answers(Behaviour::Failing);
        for permit in permits {
            self.fail(victim, permit).await?;
        }
        if until_open {
            // The victim keeps calling until it detects that it is disconnected and opens a process-local
            // circuit.
            let limit = Instant::now() + WAIT_LIMIT;
            while victim.health().await?.degraded.is_none()
                || victim.state(&self.key).await?.status == "closed"
            {
                victim
                    .command(WorkerCommand::Call { key: self.key.clone(), path: self.path.clone() })
                    .await?;
                ensure!(Instant::now() < limit, "alone, it does not open");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        self.trip().await?;
        let tripped = self.visits().len();
        self.answers(Behaviour::Healthy(Duration::from_millis(5)));
        self.others_close_it().await?;
        let mut round = Round { faults: self.judge_from(tripped).await?, ..Round::default() };
        let recovered = self.record().await?;
        victim.proxy.set(NetworkFault::None);
        self.until_health(victim, "it is back", |health| health.degraded.is_none()).await?;
        self.until_known(victim, &recovered).await?;
        // One more failure in the victim and one in another process are one too few for the rule: only if the
        // old failures counted would the circuit trip. Both are reported before the record is checked.
        self.answers(Behaviour::Failing);
        for worker in [victim, &self.others()[0]] {
            let merges = worker.health().await?.merges;
            let permit = self.admitted(worker).await?;
            self.fail(worker, permit).await?;
            self.until_health(worker, "it tells", |health| health.merges > merges).await?;
        }
        round.late = victim.health().await?.late_results - late;
        round.unchanged("failures from before the recovery", &recovered, &self.record().await?);
        for worker in &self.workers {
            let known = worker.state(&self.key).await?;
            if (known.status.as_str(), known.record.epoch) != ("closed", recovered.epoch) {
                round.faults.push(format!("worker {} has it {}", worker.number(), known.status));
            }
        }
        Ok(round)
    }

    /// Waits until a worker knows this record's epoch.
    async fn until_known(&self, worker: &Worker, record: &Record) -> Result<()> {
        let limit = Instant::now() + WAIT_LIMIT;
        while worker.state(&self.key).await?.record.epoch != record.epoch {
            ensure!(Instant::now() < limit, "worker {} never hears of {record:?}", worker.number());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    async fn in_flight(&mut self, knows: bool) -> Result<Round> {
        let victim = self.victim();
        let permits = [self.admitted(victim).await?, self.admitted(victim).await?];
        let late = victim.health().await?.late_results;
        if !knows {
            // In one variant the victim settles before it learns of the trip, in the other after that.
            victim.pause().await?;
        }
        let open = self.trip().await?;
        let outcome = Outcome::RetryAfter { ms: 600_000 };
        if knows {
            victim.becomes(&self.key, "open").await?;
        }
        let settled = victim.begin(WorkerCommand::Settle { permit: permits[0], outcome }).await?;
        if !knows {
            victim.resume()?;
        }
        settled.answer().await?;
        victim.becomes(&self.key, "open").await?;
        let mut round = Round::default();
        round.unchanged("a failure in flight at the trip", &open, &self.record().await?);
        // Another failure arrives while a process probes.
        let [one, _] = self.others() else { unreachable!("a lane has three workers") };
        self.answers(Behaviour::Hanging);
        let tripped = self.visits().len();
        let probe = self.probe(one).await?;
        let sent = one.begin(WorkerCommand::Send { permit: probe, path: self.path.clone() }).await?;
        self.until("the probe arrives", || self.visits().len() > tripped).await?;
        let probing = self.record().await?;
        self.until_known(victim, &probing).await?;
        let how = victim.settle(permits[1], outcome).await?;
        if how != "late" {
            round.faults.push(format!("a failure in flight at the trip was {how}"));
        }
        round.unchanged("a failure in flight at the trip", &probing, &self.record().await?);
        self.answers(Behaviour::Healthy(Duration::ZERO));
        sent.answer().await?;
        one.settle(probe, Outcome::Success).await?;
        for worker in &self.workers {
            worker.becomes(&self.key, "closed").await?;
        }
        round.faults.extend(self.judge_from(tripped).await?);
        round.late = victim.health().await?.late_results - late;
        Ok(round)
    }
}
