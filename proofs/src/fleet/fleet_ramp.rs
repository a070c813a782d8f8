//! The ramp over a whole fleet: after a circuit closes, its receiver sees one call in flight, then two, then
//! four, from all processes together.
//!
//! One round:
//!
//! 1. The destination fails, and every process knows that the circuit is open.
//! 2. The destination recovers, and is slow enough that calls overlap there. One probe closes the circuit, and
//!    every process calls.
//! 3. Whenever a call starts, the receiver has at most as many in flight as the successes so far allow. Races
//!    may admit a few more, which are counted.
//! 4. The ramp ends: calls beyond its cap are admitted, and cause no more store requests.
//!
//! The limit is checked when the receiver responds, which is earlier than when the callers get the responses.
//! So the check is never too strict.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use tokio::time::sleep;

use super::backing::Kind;
use super::mode::Mode;
use super::process::WAIT_LIMIT;
use super::protocol::{Run, Target, WorkerCommand};
use super::receiver::{Behaviour, Visit};
use super::row::{Row, Scale, longest_and_mean};
use super::site::{Member, Site, Worker};

/// The number of calls per second by each process.
const PER_SECOND: u32 = 20;

/// The duration of a call at the receiver.
const TAKES: Duration = Duration::from_millis(50);

/// The maximum number of calls in flight beyond the ramp's limit that races between processes may cause.
const HANDFUL: usize = 5;

/// The number of calls in flight at which the ramp ends (`ramp_cap` in [`POLICY`]).
const CAP: usize = 64;

/// Calls that start within this time after the circuit closes are counted as a rush.
const RUSH: Duration = Duration::from_millis(50);

/// The number of acquires by each process after the ramp during which the process's store requests are
/// counted.
const ASKS_AFTER: u64 = 40;

/// The minimum number of acquires per store request of a process after the ramp, in local-first mode.
const ASKS_A_REQUEST: u64 = 4;

const POLICY: &str = r#"{"failure_rate":"off","consecutive_failures":"off","failures":3,"cool_off":"500ms",
    "cool_off_factor":1,"jitter":0,"probes":1,"probe_timeout":"10s","ramp_cap":64}"#;

/// Tests the ramp that all processes share after a circuit closes, in several rounds one after the other.
///
/// # Errors
/// Returns an error if a server or a worker fails. Violated guarantees are reported in the row.
pub async fn ramp_together(
    program: &Path,
    kind: Kind,
    mode: Mode,
    processes: u32,
    scale: Scale,
) -> Result<Row> {
    let site = Site::start(program, kind).await?;
    let member = |number| Member { number, policy: POLICY, mode, store_timeout: scale.store_timeout };
    let workers = try_join_all((0..processes).map(|n| site.member(member(n)))).await?;
    let began = Instant::now();
    let mut row = Row::new(kind, mode, "one ramp for all");
    let (mut most, mut beyond, mut rush, mut times) = (0, 0, 0, Vec::new());
    let (mut acquires, mut requests) = (0, 0);
    for round in 0..scale.rounds {
        let fleet = Fleet { site: &site, workers: &workers, path: format!("/ramp-{round}"), mode };
        let done = fleet.round().await.with_context(|| format!("round {round}"))?;
        most = most.max(done.seen.most_beyond);
        beyond += done.seen.beyond;
        rush = rush.max(done.seen.rush);
        times.extend(done.seen.ramped_for);
        acquires += done.asks_after;
        requests += done.requests_after;
        row.count(done.deviations);
    }
    row.figures = format!(
        "{processes} processes: {beyond} calls beyond the limit, at most {most} at once; at most {rush} calls within {} ms of \
         closing; at the cap after: {}; then {requests} requests for {acquires} asks",
        RUSH.as_millis(),
        longest_and_mean(&times)
    );
    for worker in &workers {
        row.note_losses(worker).await?;
    }
    row.took = began.elapsed();
    Ok(row)
}

struct Fleet<'a> {
    site: &'a Site,
    workers: &'a [Worker],
    path: String,
    mode: Mode,
}

struct Round {
    deviations: Vec<String>,
    seen: Ramp,
    asks_after: u64,
    requests_after: u64,
}

impl Fleet<'_> {
    async fn round(&self) -> Result<Round> {
        let (receiver, key) = (&self.site.receiver, format!("proof {}", self.path));
        receiver.set(&self.path, Behaviour::Failing);
        let targets = vec![Target { key: key.clone(), path: self.path.clone() }];
        let run = Run::new(targets, PER_SECOND);
        let runs = try_join_all(self.workers.iter().map(|worker| worker.run(run.clone()))).await?;
        try_join_all(self.workers.iter().map(|worker| worker.becomes(&key, "open"))).await?;
        let failed = receiver.count(&self.path);
        receiver.set(&self.path, Behaviour::Healthy(TAKES));
        let limit = Instant::now() + WAIT_LIMIT;
        let seen = loop {
            let seen = Ramp::of(&receiver.visits(&self.path)[failed..]);
            if seen.ramped_for.is_some() {
                break seen;
            }
            ensure!(Instant::now() < limit, "the ramp does not end: {seen:?}");
            sleep(Duration::from_millis(20)).await;
        };
        let (asks_after, requests_after) = self.after(&runs).await?;
        for (worker, run) in self.workers.iter().zip(runs) {
            worker.begin(WorkerCommand::Stop { run }).await?.tally().await?;
        }
        let mut deviations = Vec::new();
        if seen.most_beyond > HANDFUL {
            deviations.push(format!("{} more in flight than the ramp allows: {seen:?}", seen.most_beyond));
        }
        if self.mode == Mode::LocalFirst && requests_after * ASKS_A_REQUEST > asks_after {
            deviations.push(format!("{requests_after} requests for {asks_after} asks after the ramp"));
        }
        Ok(Round { deviations, seen, asks_after, requests_after })
    }

    /// Returns the number of acquires by all processes after the ramp, and of store requests in the same
    /// period.
    async fn after(&self, runs: &[u64]) -> Result<(u64, u64)> {
        let look = async || -> Result<Vec<(u64, u64)>> {
            let looks = self.workers.iter().zip(runs).map(|(worker, &run)| async move {
                let acquires = worker.begin(WorkerCommand::Tally { run }).await?.tally().await?.acquires;
                anyhow::Ok((acquires, worker.health().await?.requests))
            });
            try_join_all(looks).await
        };
        let (before, limit) = (look().await?, Instant::now() + WAIT_LIMIT);
        loop {
            let now = look().await?;
            let more = || now.iter().zip(&before).map(|(now, before)| (now.0 - before.0, now.1 - before.1));
            if more().all(|(acquires, _)| acquires >= ASKS_AFTER) {
                return Ok(more().fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1)));
            }
            ensure!(Instant::now() < limit, "nobody asks after the ramp");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The receiver's view of the ramp after the circuit closed.
#[derive(Default, PartialEq, Eq, Debug)]
struct Ramp {
    /// The number of calls that started while more calls were in flight than the ramp's limit allowed.
    beyond: usize,
    /// The maximum number of calls in flight in excess of the ramp's limit.
    most_beyond: usize,
    /// The number of calls that started within [`RUSH`] after the circuit closed.
    rush: usize,
    /// The time from when the circuit closed until the ramp reached its cap. `None` if it never did.
    ramped_for: Option<Duration>,
}

impl Ramp {
    /// Evaluates all requests since the destination recovered, in the order in which they started. The first
    /// success closed the circuit. Requests that started before that success ended were admitted before the
    /// ramp, and are not checked.
    fn of(visits: &[Visit]) -> Self {
        let closed_at = visits.iter().find(|visit| visit.status == Some(200)).and_then(|visit| visit.ended);
        let Some(closed_at) = closed_at else { return Self::default() };
        let calls: Vec<_> = visits.iter().filter(|visit| visit.began >= closed_at).collect();
        let mut seen = Self::default();
        for call in &calls {
            let ended = |other: &&&Visit| other.ended.is_some_and(|ended| ended <= call.began);
            let before = calls.iter().filter(|other| other.began < call.began);
            let successes = before.clone().filter(ended).filter(|other| other.status == Some(200)).count();
            let in_flight = before.clone().filter(|other| !ended(other)).count() + 1;
            let limit = limit_after(successes);
            if limit >= CAP {
                seen.ramped_for = Some(since(closed_at, call.began));
                break;
            }
            seen.beyond += usize::from(in_flight > limit);
            seen.most_beyond = seen.most_beyond.max(in_flight.saturating_sub(limit));
        }
        seen.rush = calls.iter().filter(|call| since(closed_at, call.began) <= RUSH).count();
        seen
    }
}

/// Returns the maximum number of calls in flight after this many successes: initially 1, then 2 after the first
/// success, 4 after two more, and so on.
const fn limit_after(successes: usize) -> usize {
    1 << (successes + 1).ilog2()
}

fn since(from: SystemTime, until: SystemTime) -> Duration {
    until.duration_since(from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(began: u64, ended: u64) -> Visit {
        let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        let (began, ended) = (at(began), Some(at(ended)));
        Visit { worker: 1, claims_to_probe: false, began, ended, beside: 0, status: Some(200) }
    }

    #[test]
    fn the_limit_doubles_with_each_round_of_successes() {
        assert_eq!([0, 1, 2, 3, 6, 7].map(limit_after), [1, 2, 2, 4, 4, 8]);
    }

    #[test]
    fn calls_beyond_the_limit_are_counted() {
        // Calls after a probe that ended at 10, the number of calls beyond the limit, and the maximum excess.
        type Calls = &'static [(u64, u64)];
        let table: [(Calls, usize, usize); 5] = [
            (&[(11, 21)], 0, 0),
            (&[(11, 21), (12, 22)], 1, 1),
            (&[(11, 21), (12, 22), (13, 23)], 2, 2),
            (&[(11, 21), (22, 32), (23, 33)], 0, 0),
            (&[(11, 21), (22, 32), (23, 33), (24, 34)], 1, 1),
        ];
        for (calls, beyond, most_beyond) in table {
            let visits: Vec<_> = [(0, 10)].iter().chain(calls).map(|&(from, to)| visit(from, to)).collect();
            let seen = Ramp::of(&visits);
            assert_eq!((seen.beyond, seen.most_beyond), (beyond, most_beyond), "{calls:?}");
            assert_eq!(seen.rush, calls.len());
        }
    }

    #[test]
    fn the_ramp_ends_at_the_cap() {
        // One after the other, 10 ms each: the limit reaches the cap after 63 calls.
        let visits: Vec<_> = (0..70).map(|n| visit(n * 20, n * 20 + 10)).collect();
        assert_eq!(Ramp::of(&visits).ramped_for, Some(Duration::from_millis(64 * 20 - 10)));
        assert_eq!(Ramp::of(&visits[..60]).ramped_for, None);
    }
}
