//! Two processes of a fleet share one database, through the library.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use breakerbox::{Breakerbox, CircuitStatus, Consistency, OnStoreLoss, Policy, StoredKeys};
use breakerbox_postgres::PostgresStore;
use breakerbox_testkit::servers::PostgresServer;

use crate::samples::unique;
use crate::server::{patient, until};

async fn process(server: &PostgresServer) -> Breakerbox {
    process_with(server, Consistency::LocalFirst).await
}

async fn process_with(server: &PostgresServer, consistency: Consistency) -> Breakerbox {
    process_storing(server, consistency, StoredKeys::Text).await
}

async fn process_storing(
    server: &PostgresServer,
    consistency: Consistency,
    stored: StoredKeys,
) -> Breakerbox {
    let store: PostgresStore = patient(&server.url()).connect().await.unwrap();
    let policy =
        Policy::builder().consecutive_failures(3).cool_off(Duration::from_millis(400)).jitter(0).probes(1);
    Breakerbox::builder()
        .policy(policy.build().unwrap())
        .store(store)
        .store_timeout(Duration::from_secs(20))
        .on_store_loss(OnStoreLoss::Local)
        .consistency(consistency)
        .stored_keys(stored)
        .build()
}

/// Verifies the following for two processes:
/// - A trip in one process opens the circuit in the other, even after a server restart.
/// - Only one of all callers probes.
/// - When the destination recovers, both processes close the circuit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_process_learns_the_other_knows() {
    let mut server = PostgresServer::start().unwrap();
    let (one, other) = (process(&server).await, process(&server).await);
    for restarted in [false, true] {
        let key = unique("fleet");
        let circuits = [one.circuit(&key).unwrap(), other.circuit(&key).unwrap()];
        for _ in 0..3 {
            assert!(circuits[0].call(async { Err::<(), _>("down") }).await.is_err());
        }
        until("both know that it is down", async || {
            circuits.iter().all(|c| c.status() != CircuitStatus::Closed)
        })
        .await;
        if restarted {
            server.restart().unwrap();
        }
        let (probes, at_once) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        until("both know that it is up", async || {
            for circuit in &circuits {
                let (probes, at_once) = (Arc::clone(&probes), Arc::clone(&at_once));
                let closed = circuit.status() == CircuitStatus::Closed;
                let _ = circuit
                    .call(async move {
                        probes.fetch_add(usize::from(!closed), Ordering::SeqCst);
                        assert_eq!(at_once.fetch_add(1, Ordering::SeqCst), 0);
                        tokio::task::yield_now().await;
                        at_once.fetch_sub(1, Ordering::SeqCst);
                        Ok::<_, ()>(())
                    })
                    .await;
            }
            circuits.iter().all(|circuit| circuit.status() == CircuitStatus::Closed)
        })
        .await;
        assert!(probes.load(Ordering::SeqCst) >= 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strictly_what_one_process_counted_stops_the_next() {
    let server = PostgresServer::start().unwrap();
    let fleet =
        [process_with(&server, Consistency::Strict).await, process_with(&server, Consistency::Strict).await];
    let key = unique("strict");
    let circuits = fleet.map(|breakers| breakers.circuit(&key).unwrap());
    for n in [0, 1, 0] {
        assert!(circuits[n].call(async { Err::<(), _>("down") }).await.is_err());
        assert_ne!(circuits[n].try_acquire().map(drop), Ok(()), "without the store there is no answer");
    }
    assert_eq!(
        circuits[0].status(),
        CircuitStatus::Open,
        "and the third failure opened it before it was handed out"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_hashed_keys_no_text_of_a_key_is_in_the_database() {
    let server = PostgresServer::start().unwrap();
    let process = || process_storing(&server, Consistency::LocalFirst, StoredKeys::Hashed);
    let fleet = [process().await, process().await];
    let circuits = fleet.map(|breakers| breakers.circuit("acme https://hooks.acme.example/s3cret").unwrap());
    for _ in 0..3 {
        assert!(circuits[0].call(async { Err::<(), _>("down") }).await.is_err());
    }
    until("both know that it is down", async || circuits.iter().all(|c| c.status() != CircuitStatus::Closed))
        .await;
    let tables = "SELECT string_agg(format('%I.%I', schemaname, tablename), ' ') FROM pg_tables
                  WHERE schemaname NOT IN ('pg_catalog', 'information_schema')";
    let tables = server.query(tables).unwrap();
    let mut held = String::new();
    for table in tables.split_whitespace() {
        // Bytes as text: otherwise no words could be found in them.
        let rows = format!("SELECT coalesce(string_agg(t::text, ' '), '') FROM {table} t");
        held += &server.query(&format!("SET bytea_output = 'escape'; {rows}")).unwrap();
    }
    assert!(held.contains('#'), "{tables}: {held}");
    assert!(!held.contains("hooks") && !held.contains("acme"), "{held}");
}
