//! A database that answers reads and refuses writes, or that has lost its tables: the store says so, and a fleet goes on without
//! it until it is back. And a store whose runtime has ended.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use breakerbox::store::{Store, StoreError};
use breakerbox::{Breakerbox, Circuit, Policy, Status, StoreHealth};
use breakerbox_postgres::PostgresStore;
use breakerbox_testkit::servers::PostgresServer;

use crate::samples::{put, read, record, unique, whole};
use crate::server::{patient, until};

const KEY: &str = "acme https://hooks.acme.example/in";

/// One process, and how its store's health changed.
struct Process {
    _breakers: Breakerbox,
    circuit: Circuit,
    health: Arc<Mutex<Vec<StoreHealth>>>,
}

impl Process {
    async fn start(url: &str) -> Self {
        let policy =
            Policy::builder().failure_rate(None).consecutive_failures(3).cool_off(Duration::from_secs(1));
        let health = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&health);
        let breakers = Breakerbox::builder()
            .policy(policy.probes(1).build().unwrap())
            .store(patient(url).connect().await.unwrap())
            // Only what the server says counts, however busy the machine is.
            .store_timeout(Duration::from_secs(30))
            .store_observer(move |health| seen.lock().unwrap().push(health.clone()))
            .build();
        let circuit = breakers.circuit(KEY).unwrap();
        Self { _breakers: breakers, circuit, health }
    }

    fn health(&self) -> Vec<StoreHealth> {
        self.health.lock().unwrap().clone()
    }
}

/// Trips a circuit; makes the server refuse writes; and looks that the loss is reported with its cause, that circuits of a
/// healed destination close all the same, and that all is well when writes are accepted again.
async fn goes_on_alone_and_returns(url: &str, cause: &str, refuse: impl FnOnce(), allow: impl FnOnce()) {
    let fleet = [Process::start(url).await, Process::start(url).await];
    for n in [0, 1, 0] {
        let _ = fleet[n].circuit.call(async { Err::<(), _>("down") }).await;
    }
    let all_are = |status| fleet.iter().all(|process| process.circuit.status() == status);
    until("all are open", async || all_are(Status::Open)).await;

    refuse();
    let refused_at = std::time::Instant::now();
    until("the loss is reported, with its cause", async || {
        fleet.iter().all(|process| match &process.health()[..] {
            [StoreHealth::Degraded { error }] => {
                assert!(error.contains(cause), "{error}");
                true
            }
            other => {
                assert!(other.is_empty(), "{other:?}");
                false
            }
        })
    })
    .await;
    println!("{cause}: reported after {:?}", refused_at.elapsed());
    until("the healed destination's circuits close", async || {
        for process in &fleet {
            let _ = process.circuit.call(async { Ok::<_, ()>(()) }).await;
        }
        all_are(Status::Closed)
    })
    .await;
    for process in &fleet {
        assert_eq!(process.health().len(), 1, "lost once, and not back and forth");
    }

    allow();
    until("it is back", async || {
        fleet.iter().all(|process| process.health().last() == Some(&StoreHealth::Connected))
    })
    .await;
    let store = patient(url).connect().await.unwrap();
    until("what was decided alone is everybody's", async || {
        let stored = store.read(&[KEY.into()]).await.unwrap().all().unwrap().value[0].clone();
        stored.is_some_and(|stored| stored.status() == Status::Closed)
    })
    .await;
    assert!(all_are(Status::Closed));
    assert!(fleet.iter().all(|process| process.health().len() == 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_whose_database_is_read_only_goes_on_alone_and_returns() {
    let server = PostgresServer::start().unwrap();
    let (refuse, allow) = (|| server.refuse_writes().unwrap(), || server.allow_writes().unwrap());
    goes_on_alone_and_returns(&server.url(), "read-only transaction", refuse, allow).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_whose_rights_are_revoked_goes_on_alone_and_returns() {
    let server = PostgresServer::start().unwrap();
    let url = server.add_user("fleet").unwrap();
    let refuse = || server.revoke_writes("breakerbox", "fleet").unwrap();
    let allow = || server.grant_writes("breakerbox", "fleet").unwrap();
    goes_on_alone_and_returns(&url, "permission denied", refuse, allow).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_missing_for_any_table_is_found() {
    let server = PostgresServer::start().unwrap();
    let url = server.add_user("fleet").unwrap();
    let store = patient(&url).connect().await.unwrap();
    store.check_write().await.unwrap();
    for (right, table) in [
        ("INSERT", "circuits"),
        ("UPDATE", "circuits"),
        ("INSERT", "counts"),
        ("UPDATE", "counts"),
        ("DELETE", "counts"),
        ("INSERT", "leases"),
        ("UPDATE", "leases"),
    ] {
        server.query(&format!("REVOKE {right} ON breakerbox.{table} FROM fleet")).unwrap();
        let error = whole(&store.check_write().await.unwrap_err());
        assert!(error.contains("permission denied") && error.contains(table), "{right} {table}: {error}");
        server.query(&format!("GRANT {right} ON breakerbox.{table} TO fleet")).unwrap();
        store.check_write().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_are_gone_are_created_again() {
    let server = PostgresServer::start().unwrap();
    let store = patient(&server.url()).connect().await.unwrap();
    let fleet = [Process::start(&server.url()).await, Process::start(&server.url()).await];
    for n in [0, 1, 0] {
        let _ = fleet[n].circuit.call(async { Err::<(), _>("down") }).await;
    }
    until("all are open", async || fleet.iter().all(|one| one.circuit.status() == Status::Open)).await;
    let epoch = read(&store, &KEY.into()).await.unwrap().epoch;
    for dropped in ["SCHEMA breakerbox CASCADE", "TABLE breakerbox.circuits", "TABLE breakerbox.counts"] {
        server.query(&format!("DROP {dropped}")).unwrap();
        until("the tables are there again", async || store.check_write().await.is_ok()).await;
        let key = unique("after");
        put(&store, &key, None, record(5, 1)).await;
        assert_eq!(read(&store, &key).await, Some(record(5, 1)));
        until("the fleet publishes what it knows", async || {
            let healthy =
                |one: &Process| one.health().last().is_none_or(|health| *health == StoreHealth::Connected);
            let stored = store.read(&[KEY.into()]).await.unwrap().all().unwrap().value[0].clone();
            fleet.iter().all(healthy) && stored.is_some_and(|stored| stored.epoch >= epoch)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_are_gone_and_may_not_be_created_are_reported() {
    let server = PostgresServer::start().unwrap();
    let url = server.add_user("fleet").unwrap();
    let store = patient(&url).connect().await.unwrap();
    server.query("REVOKE CREATE ON DATABASE postgres FROM fleet").unwrap();
    server.query("DROP SCHEMA breakerbox CASCADE").unwrap();
    until("it says why", async || {
        let error = whole(&store.check_write().await.unwrap_err());
        assert!(error.contains("does not exist"), "{error}");
        error.contains("could not be created again: ") && error.contains("permission denied")
    })
    .await;
    server.query("GRANT CREATE ON DATABASE postgres TO fleet").unwrap();
    until("it is back", async || store.check_write().await.is_ok()).await;
}

#[test]
fn a_store_whose_runtime_has_ended_says_so() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = PostgresServer::start().unwrap();
    let first = runtime();
    let store: PostgresStore = first.block_on(async {
        let store = patient(&server.url()).connect().await.unwrap();
        store.check_write().await.unwrap();
        store
    });
    drop(first);
    let second = runtime();
    for _ in 0..3 {
        let error = second.block_on(store.read(&[])).unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)));
        let error = whole(&error);
        assert!(error.contains("runtime that this store was connected on has ended"), "{error}");
    }
    second.block_on(async { drop(store) });
}
