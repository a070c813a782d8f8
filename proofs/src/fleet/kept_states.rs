//! States that processes reach while disconnected are kept: the store is lost, each process closes its circuits
//! on its own, the store returns but refuses writes, is lost again, and returns.
//!
//! One pass takes many circuits through this at once, because the store is lost for all of them. Each circuit
//! counts as a round:
//!
//! 1. The destinations fail, and all circuits open.
//! 2. The connection to the store is cut. The destinations recover, and every process closes its circuits on
//!    its own.
//! 3. The store returns and answers reads, but refuses writes: no process can write its records.
//! 4. The connection is cut again, the store accepts writes again, and the connection is restored.
//! 5. All processes agree with the store.
//!
//! From step 2, every circuit must stay closed in every process; no epoch may decrease; and observers must have
//! received every change, and no change that did not happen.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use breakerbox::Epoch;
use breakerbox_testkit::proxy::NetworkFault;
use futures_util::future::try_join_all;
use tokio::time::sleep;

use super::backing::Kind;
use super::mode::Mode;
use super::process::WAIT_LIMIT;
use super::protocol::{Health, ObservedChange, Run, Seen, Target, WorkerCommand};
use super::receiver::Behaviour;
use super::row::{Row, Scale};
use super::site::{Member, Site, Worker};

const PROCESSES: u32 = 3;

/// The number of calls per second by each process to each circuit.
const PER_SECOND: u32 = 10;

/// The number of store requests that each process makes while the store rejects writes, counted from when the
/// process sees the store as connected. Afterwards, the store is disconnected again.
const REQUESTS: u64 = 20;

/// The maximum time for which the store rejects writes in a round.
const REFUSES_FOR: Duration = Duration::from_secs(4);

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A policy whose cool-off is longer than it takes to open all circuits and disconnect the store. Otherwise a
/// process could acquire a lease just before the disconnection, and the store's newer record would rightly win.
const POLICY: &str = r#"{"failure_rate":"off","consecutive_failures":3,"cool_off":"3s","cool_off_factor":1,
    "jitter":0,"probes":1,"probe_timeout":"5s","ramp_cap":"off"}"#;

/// Tests that states that processes reached while the store was unreachable are not undone.
///
/// # Errors
/// Returns an error if a server or a worker fails. Violated guarantees are reported in the row.
pub async fn keep_states(program: &Path, kind: Kind, mode: Mode, scale: Scale) -> Result<Row> {
    let site = Site::start(program, kind).await?;
    let member = |number| Member { number, policy: POLICY, mode, store_timeout: scale.store_timeout };
    let workers = try_join_all((0..PROCESSES).map(|n| site.member(member(n)))).await?;
    let began = Instant::now();
    let mut row = Row::new(kind, mode, "nothing is undone");
    let (mut undone, mut smaller, mut unobserved, mut none) = (0, 0, 0, 0);
    for first in (0..scale.rounds).step_by(scale.side_by_side as usize) {
        let last = scale.rounds.min(first + scale.side_by_side);
        let paths = (first..last).map(|round| format!("/kept-{round}")).collect();
        let pass = Pass { site: &site, workers: &workers, paths };
        for found in pass.run().await? {
            undone += found.undone.len();
            smaller += found.smaller_epochs.len();
            unobserved += found.unobserved.len();
            none += found.no_changes.len();
            row.count(found.into_deviations());
        }
    }
    row.figures = format!(
        "{undone} states undone, {smaller} smaller epochs, {unobserved} changes not observed, {none} observed that are none"
    );
    row.took = began.elapsed();
    Ok(row)
}

/// The circuits that are tested in parallel in one pass.
struct Pass<'a> {
    site: &'a Site,
    workers: &'a [Worker],
    paths: Vec<String>,
}

/// The violated guarantees for one circuit, one message each.
#[derive(Default, PartialEq, Eq, Debug)]
struct Found {
    undone: Vec<String>,
    smaller_epochs: Vec<String>,
    unobserved: Vec<String>,
    no_changes: Vec<String>,
}

impl Found {
    fn into_deviations(self) -> Vec<String> {
        [self.undone, self.smaller_epochs, self.unobserved, self.no_changes].concat()
    }
}

/// For each worker, the state of every circuit.
type Known = Vec<HashMap<String, Seen>>;

impl Pass<'_> {
    async fn run(&self) -> Result<Vec<Found>> {
        self.answer(Behaviour::Failing);
        let targets: Vec<_> =
            self.paths.iter().map(|path| Target { key: key(path), path: path.clone() }).collect();
        let per_second = PER_SECOND * u32::try_from(targets.len())?;
        let run = Run::new(targets, per_second);
        let runs = try_join_all(self.workers.iter().map(|worker| worker.run(run.clone()))).await?;
        self.until("all open", async || Ok(self.all(&self.known().await?, |seen| seen.status != "closed")))
            .await?;
        self.cut(true);
        self.until_health("the store is lost", |health| health.degraded.is_some()).await?;
        self.answer(Behaviour::Healthy(Duration::ZERO));
        self.until("all close alone", async || {
            Ok(self.all(&self.known().await?, |seen| seen.status == "closed"))
        })
        .await?;
        let mut watch = Watch { known: self.known().await?, found: HashMap::new() };

        self.site.backing.refuse_writes(true).await?;
        self.cut(false);
        self.acquire_while_refused(&mut watch).await?;
        self.cut(true);
        self.until_health("the store is lost again", |health| health.degraded.is_some()).await?;
        watch.look(self.known().await?);
        self.site.backing.refuse_writes(false).await?;
        self.cut(false);
        self.until_health("the store is back", |health| health.degraded.is_none()).await?;
        self.until("all agree", async || {
            watch.look(self.known().await?);
            self.agree(&watch.known).await
        })
        .await?;
        for (worker, run) in self.workers.iter().zip(runs) {
            worker.begin(WorkerCommand::Stop { run }).await?.tally().await?;
        }
        let observed = try_join_all(self.workers.iter().map(|worker| worker.changes())).await?;
        watch.compare(&observed);
        Ok(self.paths.iter().map(|path| watch.found.remove(&key(path)).unwrap_or_default()).collect())
    }

    fn answer(&self, behaviour: Behaviour) {
        self.paths.iter().for_each(|path| self.site.receiver.set(path, behaviour));
    }

    fn cut(&self, is_cut: bool) {
        let fault = if is_cut { NetworkFault::Cut } else { NetworkFault::None };
        self.workers.iter().for_each(|worker| worker.proxy.set(fault));
    }

    async fn known(&self) -> Result<Known> {
        let of_this_pass = |seen: Vec<Seen>| {
            let seen = seen.into_iter().filter(|seen| self.paths.iter().any(|path| key(path) == seen.key));
            seen.map(|seen| (seen.key.clone(), seen)).collect()
        };
        let known = try_join_all(self.workers.iter().map(|worker| worker.circuits())).await?;
        Ok(known.into_iter().map(of_this_pass).collect())
    }

    fn all(&self, known: &Known, is_so: impl Fn(&Seen) -> bool) -> bool {
        known.iter().all(|known| known.len() == self.paths.len() && known.values().all(&is_so))
    }

    /// Watches the processes while the store rejects writes. Ends when each process has seen the store as
    /// connected and then made [`REQUESTS`] requests, or after [`REFUSES_FOR`], because a process may rightly
    /// see the store as lost.
    async fn acquire_while_refused(&self, watch: &mut Watch) -> Result<()> {
        let limit = Instant::now() + REFUSES_FOR;
        let mut connected: Vec<Option<u64>> = vec![None; self.workers.len()];
        while Instant::now() < limit {
            watch.look(self.known().await?);
            let health = try_join_all(self.workers.iter().map(|worker| worker.health())).await?;
            for (since, health) in connected.iter_mut().zip(&health) {
                if health.degraded.is_none() {
                    since.get_or_insert(health.requests);
                }
            }
            let in_vain = |(since, health): (&Option<u64>, &Health)| {
                since.is_some_and(|since| health.requests >= since + REQUESTS)
            };
            if connected.iter().zip(&health).all(in_vain) {
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Returns whether every process agrees with the store about every circuit.
    async fn agree(&self, known: &Known) -> Result<bool> {
        for path in &self.paths {
            let key = key(path);
            let record = self.site.backing.record(&key).await?;
            let agrees = |known: &HashMap<String, Seen>| {
                known.get(&key).is_some_and(|seen| {
                    (seen.epoch, seen.status.as_str()) == (record.epoch, record.status().name())
                })
            };
            if !known.iter().all(agrees) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn until_health(&self, what: &str, is_so: impl Fn(&Health) -> bool) -> Result<()> {
        self.until(what, async || {
            let health = try_join_all(self.workers.iter().map(|worker| worker.health())).await?;
            Ok(health.iter().all(&is_so))
        })
        .await
    }

    async fn until(&self, what: &str, mut is_so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
        let limit = Instant::now() + WAIT_LIMIT;
        while !is_so().await? {
            ensure!(Instant::now() < limit, "{what}: not within {WAIT_LIMIT:?}");
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

fn key(path: &str) -> String {
    format!("proof {path}")
}

/// The last known states in every process, and the deviations found, by key.
struct Watch {
    known: Known,
    found: HashMap<String, Found>,
}

impl Watch {
    /// Compares the states with those of the previous call, and records states that were undone.
    fn look(&mut self, now: Known) {
        for (worker, (before, now)) in self.known.iter().zip(&now).enumerate() {
            for (key, before) in before {
                let Some(now) = now.get(key) else { continue };
                let found = self.found.entry(key.clone()).or_default();
                if now.status != "closed" && before.status == "closed" {
                    found.undone.push(format!("worker {worker}: {key} was closed, and is {}", now.status));
                }
                if now.epoch < before.epoch {
                    let (before, now) = (before.epoch.0, now.epoch.0);
                    found.smaller_epochs.push(format!("worker {worker}: {key}, epoch {before} then {now}"));
                }
            }
        }
        self.known = now;
    }

    /// Compares the current states with the changes that observers received.
    fn compare(&mut self, observed: &[Vec<ObservedChange>]) {
        for (worker, (known, observed)) in self.known.iter().zip(observed).enumerate() {
            for (key, known) in known {
                let observed = observed.iter().filter(|change| change.key == *key);
                let found = self.found.entry(key.clone()).or_default();
                check_observed(&format!("worker {worker}: {key}"), observed, known, found);
            }
        }
    }
}

/// Checks that the changes that an observer received lead to the known state, without a gap and with growing
/// epochs. The first state that a process learns for a circuit is not a change. A process that missed a whole
/// half-open period receives the change from half-open to open.
fn check_observed<'a>(
    who: &str,
    observed: impl Iterator<Item = &'a ObservedChange>,
    known: &Seen,
    found: &mut Found,
) {
    let (mut state, mut epoch) = (None, Epoch(0));
    for ObservedChange { from, to, epoch: next, .. } in observed {
        if from == to {
            found.no_changes.push(format!("{who}: heard {from} -> {to}"));
        }
        let opened_again = |state: &str| state == to && from == "half_open";
        if let Some(state) = state.filter(|state: &&String| *state != from && !opened_again(state)) {
            found.unobserved.push(format!("{who}: heard {from} -> {to} while {state}"));
        }
        if *next <= epoch {
            found.smaller_epochs.push(format!("{who}: heard of epoch {} after {}", next.0, epoch.0));
        }
        (state, epoch) = (Some(to), *next);
    }
    if let Some(state) = state.filter(|state| **state != known.status) {
        found.unobserved.push(format!("{who}: heard that it is {state}, and it is {}", known.status));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(status: &str, epoch: u64) -> Seen {
        Seen { key: "k".into(), status: status.into(), epoch: Epoch(epoch) }
    }

    fn known(status: &str, epoch: u64) -> Known {
        vec![HashMap::from([("k".to_owned(), seen(status, epoch))])]
    }

    #[test]
    fn a_state_that_is_undone_and_a_smaller_epoch_are_found() {
        // The state after closed in epoch 5, and the expected numbers of undone states and smaller epochs.
        for (status, epoch, undone, smaller) in [
            ("closed", 5, 0, 0),
            ("closed", 9, 0, 0),
            ("open", 9, 1, 0),
            ("closed", 4, 0, 1),
            ("open", 4, 1, 1),
        ] {
            let mut watch = Watch { known: known("closed", 5), found: HashMap::new() };
            watch.look(known(status, epoch));
            let found = &watch.found["k"];
            assert_eq!(
                (found.undone.len(), found.smaller_epochs.len()),
                (undone, smaller),
                "{status} {epoch}"
            );
        }
    }

    #[test]
    fn what_observers_hear_must_lead_to_what_is_known() {
        let observed = |changes: &[(&str, &str, u64)]| {
            let change = |&(from, to, epoch): &(&str, &str, u64)| ObservedChange {
                key: "k".into(),
                from: from.into(),
                to: to.into(),
                epoch: Epoch(epoch),
            };
            changes.iter().map(change).collect::<Vec<_>>()
        };
        let good = [("closed", "open", 1), ("open", "half_open", 2), ("half_open", "closed", 3)];
        // The changes, the final state, and the expected numbers of unobserved changes, smaller epochs, and
        // non-changes.
        let table: [(&[_], _, [usize; 3]); 7] = [
            (&good, "closed", [0, 0, 0]),
            (&good[1..], "closed", [0, 0, 0]),
            (&[good[0], good[2]], "closed", [1, 0, 0]),
            (&good[..1], "closed", [1, 0, 0]),
            (&[good[0], ("half_open", "open", 3)], "open", [0, 0, 0]),
            (&[("closed", "open", 2), ("open", "closed", 1)], "closed", [0, 1, 0]),
            (&[("closed", "closed", 1)], "closed", [0, 0, 1]),
        ];
        for (n, (changes, status, expected)) in table.into_iter().enumerate() {
            let mut found = Found::default();
            check_observed("w", observed(changes).iter(), &seen(status, 3), &mut found);
            let counts = [&found.unobserved, &found.smaller_epochs, &found.no_changes].map(Vec::len);
            assert_eq!(counts, expected, "{n}: {found:?}");
        }
    }
}
