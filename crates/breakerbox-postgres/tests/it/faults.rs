//! The server is restarted, killed, paused, or down. The store reports it in time, and recovers automatically.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use breakerbox::store::{Changes, ListQuery, Store, StoreError, StoreEvent, Unreadable};
use breakerbox_postgres::PostgresStore;
use breakerbox_testkit::servers::{PostgresOptions, PostgresServer};
use tokio::net::TcpListener;

use crate::samples::{counted, failures, put, read, record, swap, unique, whole};
use crate::server::{WAIT_LIMIT, alone, patient, until};

/// Waits for a change, or for the event that some changes were missed.
async fn next_event(changes: &mut Changes) -> StoreEvent {
    let next = tokio::time::timeout(Duration::from_secs(20), changes.next());
    next.await.expect("something is heard in time").expect("the store is there")
}

async fn is_back(store: &PostgresStore) {
    until("the store answers again", async || store.read(&[]).await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_it_is_back_by_itself_and_says_that_changes_were_missed() {
    let mut server = PostgresServer::start().unwrap();
    let store = patient(&server.url()).connect().await.unwrap();
    let key = unique("restarted");
    let mut changes = store.changes();
    put(&store, &key, None, record(5, 1)).await;
    next_event(&mut changes).await;
    for round in 2..5 {
        server.restart().unwrap();
        assert_eq!(next_event(&mut changes).await, StoreEvent::Missed);
        is_back(&store).await;
        assert_eq!(read(&store, &key).await, Some(record(5, round - 1)));
        put(&store, &key, Some(round - 1), record(5, round)).await;
        let expected = StoreEvent::Changed { key: Arc::clone(&key), record: Arc::new(record(5, round)) };
        assert_eq!(next_event(&mut changes).await, expected, "it listens again");
    }
}

/// Verifies that a server crash may lose counts, but no records.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_loses_counts_and_no_records() {
    let mut server = PostgresOptions::new().durable().start().unwrap();
    let store = patient(&server.url()).connect().await.unwrap();
    let (recorded, counts) = (unique("recorded"), unique("counts"));
    put(&store, &recorded, None, record(5, 1)).await;
    store.merge(&[failures(&counts, 3)]).await.unwrap();
    server.kill().unwrap();
    assert!(matches!(store.read(&[]).await, Err(StoreError::Unavailable(_))));
    server.restart().unwrap();
    is_back(&store).await;
    assert_eq!(read(&store, &recorded).await, Some(record(5, 1)));
    assert_eq!(counted(&store, &counts).await, 0);
}

/// Verifies that a regular restart of the server loses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_loses_nothing() {
    let mut server = PostgresServer::start().unwrap();
    let store = patient(&server.url()).connect().await.unwrap();
    let counts = unique("counts");
    store.merge(&[failures(&counts, 3)]).await.unwrap();
    server.restart().unwrap();
    is_back(&store).await;
    assert_eq!(counted(&store, &counts).await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_server_stands_still_every_verb_times_out() {
    let mut server = PostgresServer::start().unwrap();
    let limit = Duration::from_millis(300);
    let store = PostgresStore::builder(&server.url()).time_limit(limit).connect().await.unwrap();
    let key = unique("paused");
    until("it is quick enough", async || store.read(&[]).await.is_ok()).await;
    server.pause().unwrap();
    for _ in 0..8 {
        let began = Instant::now();
        // The server hangs all this time, so only the timeout can end the operation.
        let merged = tokio::time::timeout(WAIT_LIMIT, store.merge(&[failures(&key, 1)])).await;
        let error = merged.expect("it ends").unwrap_err();
        assert!(matches!(error, StoreError::TimedOut { limit: stated } if stated == limit), "{error}");
        assert!(began.elapsed() >= limit, "{:?}", began.elapsed());
    }
    server.resume().unwrap();
    is_back(&store).await;
}

/// Verifies that a listening connection is replaced if it stops responding without being closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listening_connection_that_is_dead_is_replaced() {
    let mut server = PostgresServer::start().unwrap();
    let store = patient(&server.url()).heartbeat_every(Duration::from_millis(300)).connect().await.unwrap();
    let mut changes = store.changes();
    let key = unique("dead");
    server.pause().unwrap();
    // Its attempts to reconnect wait for a response too, and so does this call.
    let missed = tokio::spawn(async move {
        let missed = next_event(&mut changes).await;
        (changes, missed)
    });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!missed.is_finished(), "there is nobody who could have answered");
    server.resume().unwrap();
    let (mut changes, missed) = missed.await.unwrap();
    assert_eq!(missed, StoreEvent::Missed);
    put(&store, &key, None, record(5, 1)).await;
    assert!(matches!(next_event(&mut changes).await, StoreEvent::Changed { .. }));
}

/// Listens on a stopped server's port. Retries if another connection uses the port for a moment, because ports
/// are assigned at random.
async fn listen_in_its_place(port: u16) -> TcpListener {
    let began = Instant::now();
    loop {
        match TcpListener::bind(("127.0.0.1", port)).await {
            Ok(listener) => return listener,
            Err(error) => assert!(began.elapsed() < WAIT_LIMIT, "{port}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Verifies that while the server is down, the store makes far fewer connection attempts than there are calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_to_connect_are_few_while_the_server_is_away() {
    let mut server = PostgresServer::start().unwrap();
    let store = patient(&server.url()).connect().await.unwrap();
    store.read(&[]).await.unwrap();
    let port = server.port();
    server.kill().unwrap();
    // A listener that closes connections at once takes the server's place, and counts the attempts.
    let listener = listen_in_its_place(port).await;
    let attempts = Arc::new(AtomicUsize::new(0));
    let counting = tokio::spawn({
        let attempts = Arc::clone(&attempts);
        async move {
            while listener.accept().await.is_ok() {
                attempts.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let (began, mut calls) = (Instant::now(), 0);
    while calls < 1_000 || attempts.load(Ordering::Relaxed) < 2 {
        let error = store.read(&[]).await.unwrap_err();
        assert!(whole(&error).contains("no Postgres answers at 127.0.0.1"), "{error}");
        assert!(began.elapsed() < WAIT_LIMIT, "{calls} calls");
        calls += 1;
        tokio::task::yield_now().await;
    }
    counting.abort();
    let _ = counting.await;
    // Each pause is longer than the one before; the listening connection retries as well.
    let most = 2 * (2 + usize::try_from(began.elapsed().as_millis() / 25).unwrap());
    assert!(
        attempts.load(Ordering::Relaxed) < most.min(calls / 4),
        "{attempts:?} attempts for {calls} calls"
    );
    server.restart().unwrap();
    is_back(&store).await;
}

/// Reads a record that another program or a newer version wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_makes_no_sense_is_named() {
    let held = alone("senseless").await;
    let key = unique("senseless");
    put(&held, &key, None, record(5, 1)).await;
    held.server.query("UPDATE senseless.circuits SET record = 'nonsense'").unwrap();
    let fine = unique("fine");
    put(&held, &fine, None, record(5, 9)).await;
    let is_it = |unreadable: &Unreadable| unreadable.key == *key;
    // The other circuits are not affected.
    let found = held.read(&[Arc::clone(&key), Arc::clone(&fine)]).await.unwrap().value;
    assert!(is_it(found[0].as_ref().unwrap_err()));
    assert_eq!(found[1], Ok(Some(record(5, 9))));
    let merged = held.merge(&[failures(&key, 1), failures(&fine, 1)]).await.unwrap().value;
    assert!(is_it(merged[0].as_ref().unwrap_err()));
    assert_eq!(merged[1].as_ref().unwrap().record, Some(record(5, 9)));
    let page = held.list(&ListQuery::default()).await.unwrap();
    assert_eq!(page.circuits, [(fine, record(5, 9))]);
    assert!(page.unreadable.iter().all(is_it) && page.unreadable.len() == 1);
    let error = held.swap_if(&swap(&key, Some(7), record(6, 2))).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreadable(unreadable) if is_it(&unreadable)));
    // A caller that knows the version can replace the record.
    put(&held, &key, Some(1), record(6, 2)).await;
    assert_eq!(read(&held, &key).await, Some(record(6, 2)));
}
