//! Tests what is recorded when a process ends between two writes, and when the circuit store is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use breakerbox::store::{MemoryStore, Store, Swap};
use breakerbox::{Breakerbox, Outcome, OverrideCommand, SystemClock};
use breakerbox_core::{
    Attribution, Cause, Circuit, CircuitStatus, Policy, RandomBits, Record, Timestamp, TripRule,
};
use breakerbox_model::notifications::News;
use breakerbox_model::objects::Moment;
use breakerbox_storage::Defaults;
use breakerbox_storage::records::{History, NotificationFilter, Notifications, PageOf, PastNotification};
use breakerbox_storage::secrets::{Keyring, MasterKey};
use breakerbox_storage_sqlite::{Database, Options, SqliteRecords};
use breakerbox_testkit::faults::{Fault, FaultyStore};

use super::{history, notifications};
use crate::notifications::NotificationBuilder;
use crate::telemetry::Metrics;

const KEY: &str = "acme https://hooks.example.com/in";

struct World {
    records: Arc<SqliteRecords>,
    database: Database,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("there is room");
        let options = Options { reserve: 0, ..Options::default() };
        let database = Database::open(folder.path(), options).expect("it opens");
        let keyring = Keyring::new(&MasterKey::random());
        let records =
            SqliteRecords::open(database.clone(), keyring, Defaults::default()).await.expect("it opens");
        Self { records: Arc::new(records), database, _folder: folder }
    }

    fn now(&self) -> Timestamp {
        self.database.now()
    }

    async fn told(&self) -> Vec<PastNotification> {
        let page = self
            .records
            .notifications(&NotificationFilter::default(), &PageOf::first(500))
            .await
            .expect("it answers");
        page.items.into_iter().rev().collect()
    }

    async fn kinds(&self) -> Vec<&'static str> {
        self.told().await.iter().map(|past| past.notification.kind().name()).collect()
    }

    async fn until(&self, expected: &[&str]) {
        let give_up_at = Instant::now() + Duration::from_secs(60);
        while self.kinds().await != expected {
            assert!(Instant::now() < give_up_at, "{:?}", self.kinds().await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn notification_builder(&self) -> NotificationBuilder {
        let breakers = Breakerbox::builder().policy(policy()).build();
        NotificationBuilder::new(breakers, Arc::clone(self.records.directory()), Duration::ZERO)
    }

    /// Catches up on missing history, as the gateway does at startup.
    async fn catch_up(&self, store: &dyn Store) -> u64 {
        history::catch_up(store, &*self.records, &self.notification_builder(), self.now())
            .await
            .expect("it answers")
    }
}

fn policy() -> Policy {
    Policy::builder()
        .failure_rate(None)
        .consecutive_failures(2)
        .probes(1)
        .jitter(0)
        .build()
        .expect("it is right")
}

/// A circuit that is called over time, and the records that it produces.
struct Life(Circuit, Timestamp, u128);

impl Life {
    fn new(now: Timestamp) -> Self {
        Self(Circuit::new(&policy(), now), now, 0)
    }

    fn call(&mut self, outcome: &Outcome) -> Record {
        self.2 += 2;
        if let Some(retry_at) = self.0.record().retry_at {
            self.1 = self.1.max(retry_at);
        }
        let asked = self.0.try_acquire(&policy(), RandomBits(self.2), self.1);
        if let breakerbox_core::Decision::Admitted(permit) = asked.decision {
            self.0.settle(permit, outcome, &policy(), RandomBits(self.2 + 1), self.1);
        }
        self.0.record()
    }
}

fn failure() -> Outcome {
    Outcome::failure(Duration::from_millis(1))
}

async fn put(store: &MemoryStore, key: &str, record: Record) {
    let read =
        store.read(&[key.into()]).await.expect("memory answers").value.remove(0).expect("it can be read");
    let not_after = Timestamp::from_micros(u64::MAX);
    let expected = read.map(|record| record.version);
    let swap = Swap { key: key.into(), expected, record, not_after, keep_for: None };
    store.swap_if(&swap).await.expect("memory answers");
}

#[tokio::test]
async fn a_change_that_was_not_written_down_is_told_at_the_next_start_once() {
    let world = World::new().await;
    let store = MemoryStore::with_clock(SystemClock);
    let mut life = Life::new(world.now());
    life.call(&failure());
    put(&store, KEY, life.call(&failure())).await;
    for expected in [1, 0, 0] {
        assert_eq!(world.catch_up(&store).await, expected);
    }
    assert_eq!(world.kinds().await, ["trip"]);
    let history = world.records.circuit_history(KEY, &PageOf::first(9)).await.expect("it answers").items;
    let change = &history[0].change;
    assert_eq!((change.from, change.to), (CircuitStatus::Closed, CircuitStatus::Open));
    assert_eq!(change.cause, Cause::Rule(TripRule::ConsecutiveFailures));
    // The next change, which was not recorded either.
    put(&store, KEY, life.call(&Outcome::success(Duration::ZERO))).await;
    assert_eq!(world.catch_up(&store).await, 1);
    assert_eq!(world.kinds().await, ["trip", "recovery"]);
}

#[tokio::test]
async fn an_outage_whose_beginning_is_missing_is_told_by_what_is_left() {
    let world = World::new().await;
    let store = MemoryStore::with_clock(SystemClock);
    let mut life = Life::new(world.now());
    life.call(&failure());
    life.call(&failure());
    // A failed probe, while no notification of the trip was sent.
    put(&store, KEY, life.call(&failure())).await;
    assert_eq!(world.catch_up(&store).await, 1);
    assert_eq!(world.kinds().await, ["trip"]);
    put(&store, KEY, life.call(&failure())).await;
    assert_eq!(world.catch_up(&store).await, 1);
    assert_eq!(world.kinds().await, ["trip"], "and the next one is no news");
}

#[tokio::test]
async fn what_is_old_or_an_operators_is_not_told() {
    let world = World::new().await;
    let store = MemoryStore::with_clock(SystemClock);
    let mut old = Life::new(world.now().before(Duration::from_secs(25 * 3_600)));
    old.call(&failure());
    put(&store, "acme old.example", old.call(&failure())).await;
    let mut forced = Life::new(world.now());
    let by = Attribution::new("ops", "a drill").expect("it is short");
    forced.0.apply_override(OverrideCommand::ForceOpen, &by, &policy(), RandomBits(9), world.now());
    put(&store, "acme forced.example", forced.0.record()).await;
    put(&store, "acme new.example", Life::new(world.now()).call(&failure())).await;
    assert_eq!(world.catch_up(&store).await, 1, "what an operator did is history");
    assert!(world.told().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_lost_and_comes_back_is_told_once_each() {
    let world = World::new().await;
    let metrics = Arc::new(Metrics::new());
    let (history_writer, history_task) =
        history::channel(&metrics, breakerbox_storage::clock::Clocks::system().store());
    let faulty = FaultyStore::new(Arc::new(MemoryStore::with_clock(SystemClock)));
    let (of_store, clock) = (history_writer.clone(), world.database.clone());
    let breakers = Breakerbox::builder()
        .policy(policy())
        .store(Arc::clone(&faulty) as Arc<dyn Store>)
        .clock(SystemClock)
        .store_timeout(Duration::from_millis(200))
        .observer(move |heard| history_writer.record(heard))
        .store_observer(move |health| of_store.notify(notifications::of_store(health, clock.now())))
        .build();
    let notification_builder =
        NotificationBuilder::new(breakers.clone(), Arc::clone(world.records.directory()), Duration::ZERO);
    let task = tokio::spawn(history_task.run(world.records.clone(), notification_builder));
    let circuit = breakers.circuit(KEY).expect("it is a key");
    // Each outcome is reported to the store.
    let call = || {
        if let Ok(permit) = circuit.try_acquire() {
            permit.settle(Outcome::success(Duration::ZERO));
        }
    };
    let until = async |expected: &[&str]| {
        let give_up_at = Instant::now() + Duration::from_secs(60);
        while world.kinds().await != expected {
            assert!(Instant::now() < give_up_at, "{:?}", world.kinds().await);
            call();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    call();
    faulty.set(Fault::Refuses);
    until(&["store_lost"]).await;
    faulty.set(Fault::None);
    until(&["store_lost", "store_back"]).await;
    faulty.set(Fault::Refuses);
    until(&["store_lost", "store_back", "store_lost"]).await;
    // The process ends in the meantime; the next start finds the store available.
    task.abort();
    for _ in 0..2 {
        history::store_is_here(&*world.records, world.now()).await.expect("it answers");
    }
    world.until(&["store_lost", "store_back", "store_lost", "store_back"]).await;
    let told = world.told().await;
    let News::StoreBack { since } = &told[3].notification.news else { panic!("{told:?}") };
    assert_eq!(since.expect("it was lost").to_string(), Moment(told[2].notification.at).to_string());
}
