//! Recovery despite a broken process: of eight processes, one can't reach the destination, and it acquires most
//! often.
//!
//! One round:
//!
//! 1. The destination fails for all processes. All of them call it, and the circuit opens.
//! 2. The destination recovers for seven of them. The eighth keeps failing, because its own network is broken.
//! 3. The circuit closes within the current cool-off plus two seconds, even though the eighth takes leases too.
//! 4. From then on the eighth refuses its own calls, and the circuit stays closed for the others. In strict
//!    mode the store sees every outcome immediately, so five consecutive failures in the eighth, without a
//!    success of the others in between, do meet the rule. In that mode the test only counts how often the
//!    circuit opens again.
//!
//! This test does not check which process probes, and how often. `recoveries` checks that.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use breakerbox::Epoch;
use breakerbox_testkit::proxy::{NetworkFault, Proxy};
use futures_util::future::try_join_all;
use tokio::time::sleep;

use super::backing::Kind;
use super::mode::Mode;
use super::process::WAIT_LIMIT;
use super::protocol::{Run, Tally, Target, WorkerCommand};
use super::receiver::Behaviour;
use super::row::{Row, Scale, longest_and_mean};
use super::site::{Member, Site, Worker};

/// The number of processes that can reach the destination.
const HEALTHY: u32 = 7;

/// The number of calls per second by each healthy process.
const PER_SECOND: u32 = 10;
const BROKEN_PER_SECOND: u32 = 50;

/// The maximum allowed time from the end of the cool-off until the circuit closes.
const RECOVERS_WITHIN: Duration = Duration::from_secs(2);

/// The time after which a round counts as not recovered.
const GIVES_UP_AFTER: Duration = Duration::from_secs(15);

/// The number of acquires by the broken process that are counted after the recovery.
const WATCHED_ASKS: u64 = 200;

/// The minimum number of the broken process's acquires per failing call. These failing calls trip its
/// process-local circuit, or are that circuit's probes.
const ONE_IN: u64 = 5;

/// The initial cool-off in [`POLICY`].
const COOL_OFF: Duration = Duration::from_millis(500);
const COOL_OFF_FACTOR: f64 = 1.5;

/// The default policy's rules, with a growing cool-off.
const POLICY: &str = r#"{"failure_rate":50,"min_calls":10,"consecutive_failures":5,"cool_off":"500ms",
    "cool_off_factor":1.5,"cool_off_max":"10m","jitter":0,"probes":3,"probe_timeout":"10s"}"#;

/// The result of one round.
struct Round {
    deviations: Vec<String>,
    /// The time from the destination's recovery until all seven healthy processes saw the circuit closed.
    /// `None` if the circuit did not close.
    recovered_after: Option<Duration>,
    /// Whether the circuit opened again while the broken process's acquires were counted.
    reopened: bool,
    /// The broken process's calls after the recovery.
    broken: Tally,
}

/// Tests recoveries of a fleet in which one process's own network is broken.
///
/// # Errors
/// Returns an error if a server or a worker fails. Violated guarantees are reported in the row.
pub async fn recover_beside_broken(program: &Path, kind: Kind, mode: Mode, scale: Scale) -> Result<Row> {
    let site = Site::start(program, kind).await?;
    // The proxy resets connections, so the receiver does not see the broken process's requests.
    let proxy = Proxy::before_port(site.receiver.port()).await?;
    proxy.set(NetworkFault::Reset);
    let member = |number| Member { number, policy: POLICY, mode, store_timeout: scale.store_timeout };
    let healthy = try_join_all((0..HEALTHY).map(|n| site.member(member(n)))).await?;
    let broken = site.member_calling(member(HEALTHY), &format!("http://{}", proxy.address())).await?;
    let fleet = Fleet { site: &site, healthy, broken, mode, scale };
    let began = Instant::now();
    let lanes = (0..scale.side_by_side.min(scale.rounds)).map(|lane| {
        let fleet = &fleet;
        async move {
            let mut rounds = Vec::new();
            for round in (lane..scale.rounds).step_by(scale.side_by_side as usize) {
                let done = fleet.round(&format!("/broken-{round}")).await;
                rounds.push(done.with_context(|| format!("round {round}"))?);
            }
            anyhow::Ok(rounds)
        }
    });
    let rounds = try_join_all(lanes).await?.into_iter().flatten();
    let mut row = Row::new(kind, mode, "beside a broken process");
    let (mut times, mut calls, mut reopened) = (Vec::new(), Tally::default(), 0);
    for round in rounds {
        times.extend(round.recovered_after);
        calls.add(&round.broken);
        reopened += u64::from(round.reopened);
        row.count(round.deviations);
    }
    row.figures = format!(
        "recovered in {} of {} rounds, {}; then {} of {} asks of the broken process failed; open again in \
         {reopened}",
        times.len(),
        row.rounds,
        longest_and_mean(&times),
        calls.failed,
        calls.acquires
    );
    for worker in fleet.healthy.iter().chain([&fleet.broken]) {
        row.note_losses(worker).await?;
    }
    row.took = began.elapsed();
    Ok(row)
}

struct Fleet<'a> {
    site: &'a Site,
    healthy: Vec<Worker>,
    broken: Worker,
    mode: Mode,
    scale: Scale,
}

impl Fleet<'_> {
    async fn round(&self, path: &str) -> Result<Round> {
        let key = format!("proof {path}");
        self.site.receiver.set(path, Behaviour::Failing);
        let run = |per_second| Run::new(vec![Target { key: key.clone(), path: path.to_owned() }], per_second);
        let all = || self.healthy.iter().chain([&self.broken]);
        let runs = all().map(|worker| {
            let is_broken = worker.number() == HEALTHY;
            worker.run(run(if is_broken { BROKEN_PER_SECOND } else { PER_SECOND }))
        });
        let runs = try_join_all(runs).await?;
        try_join_all(all().map(|worker| worker.becomes(&key, "open"))).await?;
        let record = self.healthy[0].state(&key).await?.record;
        let cool_off = COOL_OFF.mul_f64(COOL_OFF_FACTOR.powi(i32::try_from(record.trips)? - 1));
        self.site.receiver.set(path, Behaviour::Healthy(Duration::from_millis(5)));
        let recovered = self.recovery(&key).await?;
        let broken_run = *runs.last().context("the broken process runs")?;
        let broken = match recovered {
            Some(_) => self.watch_broken(broken_run).await?,
            None => Tally::default(),
        };
        let mut deviations = Vec::new();
        let limit = cool_off + RECOVERS_WITHIN;
        match recovered {
            None => {
                let trips = self.healthy[0].state(&key).await?.record.trips;
                deviations.push(format!("not recovered after {GIVES_UP_AFTER:?}, but {trips} trips"));
            }
            Some((after, _)) if self.scale.judges_times && after > limit => {
                deviations.push(format!("recovered after {after:?}, and the limit is {limit:?}"));
            }
            Some(_) => {}
        }
        let now = self.healthy[0].state(&key).await?.record;
        let reopened = recovered.is_some_and(|(_, epoch)| now.epoch != epoch);
        if reopened && self.mode == Mode::LocalFirst {
            deviations.push(format!("{} again, by a broken process: {:?}", now.status(), now.cause));
        }
        if broken.failed * ONE_IN > broken.acquires {
            deviations.push(format!(
                "{} of {} asks of the broken process were failing calls",
                broken.failed, broken.acquires
            ));
        }
        for (worker, run) in all().zip(runs) {
            worker.begin(WorkerCommand::Stop { run }).await?.tally().await?;
        }
        Ok(Round { deviations, recovered_after: recovered.map(|(after, _)| after), reopened, broken })
    }

    /// Waits until all seven healthy processes see the circuit closed. Returns the time that this took, and the
    /// circuit's epoch.
    async fn recovery(&self, key: &str) -> Result<Option<(Duration, Epoch)>> {
        let began = Instant::now();
        while began.elapsed() < GIVES_UP_AFTER {
            let known = try_join_all(self.healthy.iter().map(|worker| worker.state(key))).await?;
            let after = began.elapsed();
            let epoch = known[0].record.epoch;
            if known.iter().all(|known| known.status == "closed" && known.record.epoch == epoch) {
                return Ok(Some((after, epoch)));
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(None)
    }

    /// Counts the next [`WATCHED_ASKS`] acquires by the broken process.
    async fn watch_broken(&self, run: u64) -> Result<Tally> {
        let tally = async || self.broken.begin(WorkerCommand::Tally { run }).await?.tally().await;
        let (before, limit) = (tally().await?, Instant::now() + WAIT_LIMIT);
        loop {
            let now = tally().await?;
            if now.acquires >= before.acquires + WATCHED_ASKS {
                return Ok(now.since(&before));
            }
            ensure!(Instant::now() < limit, "the broken process does not ask: {now:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }
}
