//! A database that answers reads and refuses writes, or that has lost its tables: the store reports it, and a
//! fleet goes on without the store until it recovers. Also: a store whose runtime has ended.

use breakerbox::StoreHealth;
use breakerbox::store::Store;
use breakerbox_postgres::PostgresStore;
use breakerbox_testkit::fleet_checks::{
    KEY, Process, outlasts_refused_writes, says_that_its_runtime_has_ended,
};
use breakerbox_testkit::servers::PostgresServer;

use crate::samples::{put, read, record, unique, whole};
use crate::server::{patient, until};

async fn connect(url: &str) -> PostgresStore {
    patient(url).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_whose_database_is_read_only_goes_on_alone_and_returns() {
    let server = PostgresServer::start().unwrap();
    let (refuse, allow) = (|| server.refuse_writes().unwrap(), || server.allow_writes().unwrap());
    let connect = async || connect(&server.url()).await;
    outlasts_refused_writes(connect, &["read-only transaction"], refuse, allow).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_whose_rights_are_revoked_goes_on_alone_and_returns() {
    let server = PostgresServer::start().unwrap();
    let url = server.add_user("fleet").unwrap();
    let refuse = || server.revoke_writes("breakerbox", "fleet").unwrap();
    let allow = || server.grant_writes("breakerbox", "fleet").unwrap();
    outlasts_refused_writes(async || connect(&url).await, &["permission denied"], refuse, allow).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_missing_for_any_table_is_found() {
    let server = PostgresServer::start().unwrap();
    let url = server.add_user("fleet").unwrap();
    let store = connect(&url).await;
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
    let (store, url) = (connect(&server.url()).await, server.url());
    let fleet = [Process::start(connect(&url).await), Process::start(connect(&url).await)];
    Process::open(&fleet).await;
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
    let store = connect(&url).await;
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
    let server = PostgresServer::start().unwrap();
    says_that_its_runtime_has_ended(async || connect(&server.url()).await);
}
