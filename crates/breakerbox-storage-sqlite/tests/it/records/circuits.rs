//! Tests of the circuit store in the gateway's database: the conformance suite, and what survives a restart.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::{BucketDelta, Delta, ListQuery, RunDelta, Store, Swap, Swapped};
use breakerbox::{
    Breakerbox, CircuitStatus, Classification, Clock, Consistency, ManualClock, Refusal, Settlement,
};
use breakerbox_core::{Attribution, Mode, OverrideCommand, PolicyBuilder, Record, Timestamp, Version};
use breakerbox_storage::QueueError;
use breakerbox_storage_sqlite::{Database, JobError, Options, SqliteCircuits};
use breakerbox_testkit::StoreWithServer;
use tempfile::TempDir;

const KEY: &str = "acme https://a.example/in";

mod conformance {
    use super::*;

    async fn on_a_file() -> StoreWithServer<SqliteCircuits, TempDir> {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteCircuits::open(database(&folder, Options::default())).await.unwrap();
        StoreWithServer { store, server: folder }
    }

    breakerbox_testkit::store_conformance!(on_a_file());
}

fn database(folder: &TempDir, options: Options) -> Database {
    Database::open(folder.path(), options).unwrap()
}

/// A gateway's circuits in a database, with a clock that the tests set.
struct Site {
    folder: TempDir,
    clock: ManualClock,
    open: Option<(Database, SqliteCircuits, Breakerbox)>,
}

impl Site {
    async fn new() -> Self {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_763_000_000));
        let mut site = Self { folder: tempfile::tempdir().unwrap(), clock, open: None };
        site.start().await;
        site
    }

    async fn start(&mut self) {
        let options = Options { clock: Arc::new(self.clock.clone()), ..Options::default() };
        let database = database(&self.folder, options);
        let store = SqliteCircuits::open(database.clone()).await.unwrap();
        let policy = PolicyBuilder::default()
            .failures(2)
            .cool_off(Duration::from_secs(60))
            .jitter(0)
            .probe_timeout(Duration::from_secs(10))
            .probes(1);
        let breakers = Breakerbox::builder()
            .policy(policy.build().unwrap())
            .clock(self.clock.clone())
            .store(store.clone())
            .consistency(Consistency::Strict)
            .store_timeout(Duration::from_secs(60))
            .build();
        self.open = Some((database, store, breakers));
    }

    /// Restarts like a killed process, without closing the store.
    async fn restart(&mut self) {
        let (database, ..) = self.open.take().unwrap();
        database.close().await;
        self.start().await;
    }

    fn store(&self) -> &SqliteCircuits {
        &self.open.as_ref().unwrap().1
    }

    fn circuit(&self, key: &str) -> breakerbox::Circuit {
        self.open.as_ref().unwrap().2.circuit(key).unwrap()
    }

    async fn fail(&self, key: &str) {
        let circuit = self.circuit(key);
        let permit = circuit.acquire().await.unwrap();
        permit.settle_and_confirm(Classification::FAILURE).await;
    }

    async fn record(&self, key: &str) -> Option<Record> {
        self.store().read(&[key.into()]).await.unwrap().value.remove(0).unwrap()
    }

    async fn refused(&self, key: &str) -> Option<Refusal> {
        self.circuit(key).acquire().await.map(drop).err()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_open_stays_open_until_its_time_and_remembers_its_trips() {
    let mut site = Site::new().await;
    let opened = site.clock.now();
    site.fail(KEY).await;
    site.fail(KEY).await;
    let tripped = site.record(KEY).await.unwrap();
    assert_eq!((tripped.status(), tripped.trips), (CircuitStatus::Open, 1));
    site.clock.advance(Duration::from_secs(59));
    site.restart().await;
    assert_eq!(site.record(KEY).await, Some(tripped.clone()), "to the last field");
    let refused = site.refused(KEY).await;
    let until = opened + Duration::from_secs(60);
    assert!(matches!(refused, Some(Refusal::Open { retry_at, .. }) if retry_at == until), "{refused:?}");
    site.clock.advance(Duration::from_secs(1));
    site.restart().await;
    let circuit = site.circuit(KEY);
    let probe = circuit.acquire().await.unwrap();
    assert!(probe.is_probe());
    assert_eq!(probe.settle_and_confirm(Classification::FAILURE).await, Settlement::Counted);
    site.restart().await;
    let again = site.record(KEY).await.unwrap();
    assert_eq!((again.status(), again.trips), (CircuitStatus::Open, 2), "the second trip is the second");
    assert!(again.epoch > tripped.epoch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_of_operators_survive() {
    let mut site = Site::new().await;
    let by = Attribution::new("ops", "maintenance").unwrap();
    let orders = [
        ("a", OverrideCommand::ForceOpen, Mode::ForcedOpen(by.clone())),
        ("b", OverrideCommand::ForceClosed, Mode::ForcedClosed(by.clone())),
        ("c", OverrideCommand::Disable, Mode::Disabled(by.clone())),
    ];
    for (key, command, _) in &orders {
        site.circuit(key).apply_override(*command, &by).await.unwrap();
    }
    site.clock.advance(Duration::from_secs(86_400 * 365));
    site.restart().await;
    for (key, _, mode) in orders {
        assert_eq!(site.record(key).await.unwrap().mode, mode);
    }
    let refused = (site.refused("a").await, site.refused("b").await, site.refused("c").await);
    assert!(matches!(refused, (Some(_), None, Some(Refusal::Disabled))), "{refused:?}");
    let query = ListQuery { status: Some(CircuitStatus::Disabled), ..ListQuery::default() };
    let listed = site.store().list(&query).await.unwrap().circuits;
    assert_eq!(listed.iter().map(|(key, _)| &**key).collect::<Vec<_>>(), ["c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_the_start_before_ends_when_it_would_have_ended() {
    let mut site = Site::new().await;
    site.fail(KEY).await;
    site.fail(KEY).await;
    site.clock.advance(Duration::from_secs(60));
    let circuit = site.circuit(KEY);
    let probe = circuit.acquire().await.unwrap();
    let lease = site.record(KEY).await.unwrap().lease.unwrap();
    assert_eq!(lease.expires_at.since(site.clock.now()), Duration::from_secs(12), "probe_timeout and 2 s");
    // The process is killed: its probe is never settled.
    std::mem::forget(probe);
    site.clock.advance(Duration::from_secs(5));
    site.restart().await;
    let refused = site.refused(KEY).await;
    assert!(
        matches!(refused, Some(Refusal::Probing { .. })),
        "its request may still be under way: {refused:?}"
    );
    site.clock.advance(Duration::from_secs(7));
    let circuit = site.circuit(KEY);
    let next = circuit.acquire().await.unwrap();
    assert!(next.is_probe(), "not after another cool-off");
    assert_eq!(next.settle_and_confirm(Classification::SUCCESS).await, Settlement::Counted);
    site.restart().await;
    assert_eq!(site.record(KEY).await.unwrap().status(), CircuitStatus::Closed);
}

/// A record that replaces none or the one with the expected version.
fn swap(key: &str, expected: Option<u128>, version: u128, keep_for: Option<Duration>) -> Swap {
    let record = Record::fresh(breakerbox_core::Epoch(1), Version(version), Timestamp::ZERO);
    let not_after = Timestamp::from_micros(u64::MAX);
    Swap { key: key.into(), expected: expected.map(Version), record, not_after, keep_for }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_swaps_at_once_the_last_one_is_in_the_file() {
    let mut site = Site::new().await;
    for round in 0..20_u128 {
        let key = format!("k{round}");
        let mut tasks = Vec::new();
        site.store().swap_if(&swap(&key, None, 1, None)).await.unwrap();
        for version in 2..10 {
            let store = site.store().clone();
            let key = key.clone();
            tasks.push(tokio::spawn(async move {
                // Each record replaces the previous one, once that is in place.
                loop {
                    let answer = store.swap_if(&swap(&key, Some(version - 1), version, None)).await.unwrap();
                    if answer.value == Swapped::Won {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    }
    site.restart().await;
    for round in 0..20 {
        assert_eq!(site.record(&format!("k{round}")).await.unwrap().version, Version(9));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_records_go_from_the_file_and_the_others_stay() {
    let mut site = Site::new().await;
    let hour = Duration::from_secs(3_600);
    for (key, keep_for) in [("short", Some(hour)), ("long", Some(3 * hour)), ("for ever", None)] {
        site.store().swap_if(&swap(key, None, 1, keep_for)).await.unwrap();
    }
    site.clock.advance(2 * hour);
    site.store().swap_if(&swap("another", None, 1, None)).await.unwrap();
    let keys = |site: &Site| {
        let database = site.open.as_ref().unwrap().0.clone();
        async move {
            database
                .read(|connection| {
                    let mut statement = connection.prepare("SELECT key FROM circuits ORDER BY key")?;
                    let rows = statement.query_map([], |row| row.get(0))?;
                    Ok::<Vec<String>, JobError<QueueError>>(rows.collect::<Result<_, _>>()?)
                })
                .await
                .unwrap()
        }
    };
    assert_eq!(keys(&site).await, ["another", "for ever", "long"]);
    site.restart().await;
    assert!(site.record("short").await.is_none() && site.record("long").await.is_some());
    site.clock.advance(2 * hour);
    assert!(
        site.record("long").await.is_none(),
        "what was left of its time is counted from the start before"
    );
    site.restart().await;
    assert!(site.record("long").await.is_none() && site.record("for ever").await.is_some());
}

/// Returns a report of one failure that just happened, for a circuit with this epoch.
fn failure(key: &str, epoch: u64) -> Delta {
    Delta {
        key: key.into(),
        epoch: breakerbox_core::Epoch(epoch),
        window: Duration::from_secs(60),
        buckets: vec![BucketDelta { failures: 1, ..BucketDelta::default() }],
        last_success: None,
        run: Some(RunDelta { count: 1, began: Duration::ZERO, last: Duration::ZERO }),
        keep_for: Duration::from_secs(60),
    }
}

impl Site {
    /// Returns a circuit's run of failures.
    async fn run(&self, key: &str, epoch: u64) -> u64 {
        let nothing = Delta { buckets: Vec::new(), run: None, ..failure(key, epoch) };
        self.store().merge(&[nothing]).await.unwrap().all().unwrap().value[0].totals.failure_run
    }

    async fn merge(&self, delta: Delta) {
        self.store().merge(&[delta]).await.unwrap();
    }

    /// Returns the number of rows in the table of runs.
    async fn stored_runs(&self) -> u64 {
        let database = self.open.as_ref().unwrap().0.clone();
        database
            .read(|connection| {
                let count: i64 =
                    connection.query_row("SELECT count(*) FROM circuit_runs", [], |row| row.get(0))?;
                Ok::<_, JobError<QueueError>>(count.unsigned_abs())
            })
            .await
            .unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_failures_survives_restarts_until_a_success_or_a_week() {
    let mut site = Site::new().await;
    let hour = Duration::from_secs(3_600);
    for n in 1..=4 {
        site.merge(failure(KEY, 0)).await;
        assert_eq!(site.store().write_rest().await.unwrap(), 0);
        site.clock.advance(2 * hour);
        site.restart().await;
        assert_eq!(site.run(KEY, 0).await, n);
    }
    // A success ends it, in the file too.
    let success = Delta { last_success: Some(Duration::ZERO), run: None, ..failure(KEY, 0) };
    site.merge(success).await;
    site.store().write_rest().await.unwrap();
    assert_eq!(site.stored_runs().await, 0);
    site.restart().await;
    assert_eq!(site.run(KEY, 0).await, 0);
    // So does a week.
    for key in [KEY, "another"] {
        site.merge(failure(key, 0)).await;
    }
    site.store().write_rest().await.unwrap();
    site.clock.advance(7 * 24 * hour - Duration::from_secs(1));
    site.restart().await;
    assert_eq!(site.run(KEY, 0).await, 1);
    site.clock.advance(Duration::from_secs(1));
    assert_eq!(site.run(KEY, 0).await, 0);
    site.restart().await;
    assert_eq!(site.run(KEY, 0).await, 0);
    site.merge(failure("new", 0)).await;
    site.store().write_rest().await.unwrap();
    assert_eq!(site.stored_runs().await, 1, "and its row goes with the next write");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_belongs_to_its_epoch_and_keeps_the_record_of_it() {
    let mut site = Site::new().await;
    let hour = Duration::from_secs(3_600);
    site.store().swap_if(&swap(KEY, None, 1, Some(hour))).await.unwrap();
    site.merge(failure(KEY, 1)).await;
    site.store().write_rest().await.unwrap();
    site.clock.advance(5 * hour);
    site.restart().await;
    assert!(site.record(KEY).await.is_some(), "though its hour is over");
    assert_eq!(site.run(KEY, 1).await, 1);
    // A new epoch drops the run, in the file too.
    let mut next = swap(KEY, Some(1), 2, None);
    next.record.epoch = breakerbox_core::Epoch(2);
    site.store().swap_if(&next).await.unwrap();
    site.store().write_rest().await.unwrap();
    assert_eq!(site.stored_runs().await, 0);
    site.restart().await;
    assert_eq!((site.run(KEY, 1).await, site.run(KEY, 2).await), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_written_in_batches_and_healthy_circuits_cost_nothing() {
    let site = Site::new().await;
    let healthy = |n: usize| Delta {
        last_success: Some(Duration::ZERO),
        run: None,
        ..failure(&format!("healthy {n}"), 0)
    };
    let deltas: Vec<_> = (0..1_000).map(healthy).collect();
    site.store().merge(&deltas).await.unwrap();
    site.store().write_rest().await.unwrap();
    assert_eq!(site.stored_runs().await, 0);
    for _ in 0..3 {
        let failing: Vec<_> = (0..1_000).map(|n| failure(&format!("failing {n}"), 0)).collect();
        site.store().merge(&failing).await.unwrap();
    }
    assert_eq!(site.stored_runs().await, 0, "not with each failure");
    site.store().write_rest().await.unwrap();
    assert_eq!(site.stored_runs().await, 1_000, "but all at once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn circuits_go_on_while_the_file_can_not_be_written_and_are_written_later() {
    let mut site = Site::new().await;
    let database = site.open.as_ref().unwrap().0.clone();
    // Simulates a failing disk: the table does not exist.
    let rename = async |from: &'static str, to: &'static str| {
        database
            .write(move |transaction| {
                transaction.connection().execute(&format!("ALTER TABLE {from} RENAME TO {to}"), [])?;
                Ok::<_, JobError<QueueError>>(())
            })
            .await
            .unwrap();
    };
    rename("circuits", "elsewhere").await;
    site.fail(KEY).await;
    site.fail(KEY).await;
    assert_eq!(site.record(KEY).await.unwrap().status(), CircuitStatus::Open);
    assert!(site.store().write_rest().await.is_err());
    rename("elsewhere", "circuits").await;
    assert_eq!(site.store().write_rest().await.unwrap(), 0);
    site.restart().await;
    assert_eq!(site.record(KEY).await.unwrap().status(), CircuitStatus::Open);
}
