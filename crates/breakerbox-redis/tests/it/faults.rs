//! A single server that forgets scripts, loses responses, hangs, stops or restarts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use breakerbox::store::{Changes, Delta, ListQuery, Store, StoreError, StoreEvent, Swapped};
use breakerbox::{Nonce, Version};
use breakerbox_redis::RedisStore;
use breakerbox_testkit::proxy::Proxy;
use breakerbox_testkit::servers::{RedisOptions, RedisServer, Restart};

use crate::server::{WAIT_LIMIT, connect, delta, message, on_one, put, record, swap};

/// Retries `look` until it returns a value. Panics after a timeout.
pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let limit = Instant::now() + WAIT_LIMIT;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < limit, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns the next event that the listener receives. Panics after a timeout.
pub(crate) async fn next(changes: &mut Changes) -> StoreEvent {
    tokio::time::timeout(WAIT_LIMIT, changes.next())
        .await
        .expect("something is heard")
        .expect("the store is there")
}

/// Waits until the listener receives this version of this circuit. Returns whether it received a `Missed` event
/// before.
pub(crate) async fn missed_before(changes: &mut Changes, of: &str, version: u128) -> bool {
    let mut missed = false;
    loop {
        match next(changes).await {
            StoreEvent::Missed => missed = true,
            StoreEvent::Changed { key, record } if *key == *of && record.version == Version(version) => {
                return missed;
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_server_that_forgets_its_scripts_is_told_them_again() {
    let held = on_one().await;
    let (store, keys) = (&held.store, ["e1".into(), "e2".into()]);
    let forget = || held.server.query::<()>(&["SCRIPT", "FLUSH", "SYNC"]).unwrap();
    for round in 1..=3_u64 {
        forget();
        let merged = store.merge(&[delta("e1")]).await.unwrap().all().unwrap().value;
        assert_eq!(merged[0].totals.successes, 3 * round);
        forget();
        assert_eq!(store.read(&keys).await.unwrap().value, [Ok(None), Ok(None)]);
        forget();
        put(store, &format!("r{round}"), record(1)).await;
        forget();
        assert_eq!(store.list(&ListQuery::default()).await.unwrap().circuits.len() as u64, round);
        forget();
        assert!(store.lead("office", Nonce(1), WAIT_LIMIT).await.unwrap().value.leads);
        forget();
        // Many calls in one pipeline: none is executed twice.
        let many: Vec<_> = (0..1_000).map(|n| delta(&format!("many {n}"))).collect();
        let merged = store.merge(&many).await.unwrap().all().unwrap().value;
        assert!(merged.iter().all(|merged| merged.totals.successes == 3 * round));
    }
}

#[tokio::test]
async fn a_swap_whose_answer_was_lost_is_seen_by_its_version_and_announced_once() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::before_port(server.port()).await.unwrap();
    let store = connect(&format!("redis://127.0.0.1:{}", proxy.port())).await;
    let elsewhere = connect(&server.url()).await;
    let mut changes = elsewhere.changes();
    put(&store, "e1", record(1)).await; // The script is known from here on.

    proxy.lose_answer_to(b"EVAL");
    let error = store.swap_if(&swap("e1", Some(1), record(2))).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    let found = eventually("it connects again", async || store.read(&["e1".into()]).await.ok()).await;
    assert_eq!(found.value, [Ok(Some(record(2)))], "it was done");
    put(&store, "e2", record(3)).await;
    let mut versions = Vec::new();
    while versions.last() != Some(&3) {
        let StoreEvent::Changed { record, .. } = next(&mut changes).await else {
            panic!("nothing was missed")
        };
        versions.push(record.version.0);
    }
    assert_eq!((versions, proxy.lost_answers()), (vec![1, 2, 3], 1));
}

#[tokio::test]
async fn a_lost_answer_to_a_merge_counts_once() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::before_port(server.port()).await.unwrap();
    let store = connect(&format!("redis://127.0.0.1:{}", proxy.port())).await;
    store.merge(&[delta("warm")]).await.unwrap();
    for lost in 1..=5 {
        proxy.lose_answer_to(b"EVAL");
        eventually("an answer is lost", async || {
            let _ = store.merge(&[delta("e1")]).await;
            (proxy.lost_answers() == lost).then_some(())
        })
        .await;
    }
    // Each merge that reached the server counted once: five whose responses were lost, and this one.
    let merged = eventually("it connects again", async || store.merge(&[delta("e1")]).await.ok()).await;
    assert_eq!(merged.all().unwrap().value[0].totals.successes, 6 * 3);
    assert!(proxy.connections() >= 6);
}

#[tokio::test]
async fn a_server_that_hangs_costs_no_more_than_the_limit() {
    let mut server = RedisServer::start().unwrap();
    let limit = Duration::from_millis(150);
    let store = RedisStore::builder(&server.url()).time_limit(limit).connect().await.unwrap();
    let mut changes = store.changes();
    put(&store, "e1", record(1)).await;
    missed_before(&mut changes, "e1", 1).await;
    server.pause().unwrap();
    for _ in 0..3 {
        // The server hangs all this time, so only the timeout can end the call.
        let answer = tokio::time::timeout(WAIT_LIMIT, store.merge(&[delta("e1")])).await.expect("it ends");
        let error = answer.unwrap_err();
        assert!(matches!(error, StoreError::TimedOut { limit: told } if told == limit), "{error}");
    }
    // Once the server is known to be down, calls fail at once.
    eventually("it is known", async || {
        let since = Instant::now();
        let error = store.read(&["e1".into()]).await.unwrap_err();
        assert!(matches!(error, StoreError::TimedOut { .. }), "{error}");
        (since.elapsed() < limit / 2).then_some(())
    })
    .await;
    server.resume().unwrap();
    let found = eventually("it is back", async || store.read(&["e1".into()]).await.ok()).await;
    assert_eq!(found.value, [Ok(Some(record(1)))]);
    assert_eq!(next(&mut changes).await, StoreEvent::Missed);
}

/// Simulates a failover in which the old master's packets are dropped.
#[tokio::test]
async fn a_connection_that_is_dead_without_an_end_is_replaced_however_impatient_callers_are() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::before_port(server.port()).await.unwrap();
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let store = RedisStore::builder(&url).time_limit(Duration::from_secs(1)).connect().await.unwrap();
    let mut changes = store.changes();
    proxy.silence();
    eventually("it is replaced", async || {
        // The caller gives up before the store's own timeout.
        let answer = tokio::time::timeout(Duration::from_millis(100), store.read(&[])).await;
        answer.ok()?.ok()
    })
    .await;
    assert_eq!(next(&mut changes).await, StoreEvent::Missed);
    put(&store, "e1", record(1)).await;
    missed_before(&mut changes, "e1", 1).await;
}

#[tokio::test]
async fn a_listener_that_hears_nothing_finds_out_by_itself_that_its_connection_is_dead() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::before_port(server.port()).await.unwrap();
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let store = RedisStore::builder(&url).time_limit(Duration::from_millis(500)).connect().await.unwrap();
    let mut changes = store.changes();
    proxy.silence();
    assert_eq!(next(&mut changes).await, StoreEvent::Missed);
    let elsewhere = connect(&server.url()).await;
    put(&elsewhere, "e1", record(1)).await;
    missed_before(&mut changes, "e1", 1).await;
}

#[tokio::test]
async fn a_hang_that_ends_is_no_reason_to_connect_again() {
    let mut server = RedisServer::start().unwrap();
    let store =
        RedisStore::builder(&server.url()).time_limit(Duration::from_secs(1)).connect().await.unwrap();
    let before = server_connections(&server);
    server.pause().unwrap();
    assert!(matches!(store.read(&[]).await, Err(StoreError::TimedOut { .. })));
    // From now on, the store suspects the connection and tests it.
    server.resume().unwrap();
    store.read(&[]).await.unwrap();
    store.read(&[]).await.unwrap();
    assert_eq!(server_connections(&server), before + 1, "only the one that asks");
}

fn server_connections(server: &RedisServer) -> u64 {
    server.info("stats", "total_connections_received").unwrap().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_server_that_restarts_is_found_again_and_listeners_hear_that_they_missed_something() {
    let mut server = RedisOptions::new().append_only().start().unwrap();
    let store = connect(&server.url()).await;
    let mut changes = store.changes();
    put(&store, "e1", record(1)).await;
    assert!(!missed_before(&mut changes, "e1", 1).await, "so far nothing");

    server.kill().unwrap();
    let error = eventually("it is gone", async || store.read(&[]).await.err()).await;
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    eventually("it is known why", async || {
        let error = message(&store.read(&[]).await.unwrap_err());
        error.contains("can't connect").then_some(())
    })
    .await;
    assert!(store.merge(&[delta("e1")]).await.is_err());

    server.restart(Restart::WithData).unwrap();
    let found = eventually("it is back", async || store.read(&["e1".into()]).await.ok()).await;
    assert_eq!(found.value, [Ok(Some(record(1)))]);
    assert_eq!(next(&mut changes).await, StoreEvent::Missed, "by itself");
    store.swap_if(&swap("e1", Some(1), record(2))).await.unwrap();
    missed_before(&mut changes, "e1", 2).await;
}

#[tokio::test]
async fn a_server_that_comes_back_empty_takes_records_as_if_for_the_first_time() {
    let mut server = RedisServer::start().unwrap();
    let store = connect(&server.url()).await;
    put(&store, "e1", record(1)).await;
    server.restart(Restart::Empty).unwrap();
    let answer =
        eventually("it is back", async || store.swap_if(&swap("e1", Some(1), record(2))).await.ok()).await;
    assert_eq!(answer.value, Swapped::Lost(None));
    put(&store, "e1", record(3)).await;
}

#[tokio::test]
async fn a_master_that_became_a_replica_is_left() {
    let (server, other) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let store = connect(&server.url()).await;
    store.merge(&[delta("e1")]).await.unwrap();
    server.replica_of(&other).unwrap();
    let error = message(&store.merge(&[delta("e1")]).await.unwrap_err());
    assert!(error.contains("replica"), "{error}");
    // The store does not even read from a replica, because its data may be stale.
    eventually("it is left", async || {
        let error = message(&store.read(&["e1".into()]).await.err()?);
        error.contains("this is a replica").then_some(())
    })
    .await;
    server.promote().unwrap();
    eventually("it is found again", async || store.merge(&[delta("e1")]).await.ok()).await;
}

#[tokio::test]
async fn a_listener_whose_connection_is_killed_hears_that_it_missed_something() {
    let held = on_one().await;
    let mut changes = held.store.changes();
    let subscribers = || {
        let counts: Vec<(String, u64)> =
            held.server.query(&["PUBSUB", "NUMSUB", "breakerbox:changes"]).unwrap();
        counts[0].1
    };
    assert_eq!(subscribers(), 1, "once it is connected, it listens");
    held.server.query::<()>(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
    assert_eq!(next(&mut changes).await, StoreEvent::Missed);
    assert_eq!(subscribers(), 1, "and what comes now is heard");
    put(&held.store, "e1", record(1)).await;
    assert!(!missed_before(&mut changes, "e1", 1).await);
    drop(held.store);
    let last = tokio::time::timeout(WAIT_LIMIT, async { while changes.next().await.is_some() {} });
    last.await.expect("nobody is left to say anything");
}

#[tokio::test]
async fn a_service_can_start_before_its_store() {
    let mut server = RedisServer::start().unwrap();
    server.kill().unwrap();
    let store = RedisStore::builder(&server.url()).open().unwrap();
    let mut changes = store.changes();
    let error = message(&store.read(&[]).await.unwrap_err());
    assert!(error.contains("can't connect"), "{error}");
    server.restart(Restart::Empty).unwrap();
    eventually("it is there", async || store.read(&[]).await.ok()).await;
    assert_eq!(next(&mut changes).await, StoreEvent::Missed);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_named_and_can_be_deleted() {
    let held = on_one().await;
    put(&held.store, "acme e1", record(1)).await;
    let name = format!("breakerbox:{{{}}}:record:acme e1", bucket(&held.server));
    held.server.query::<()>(&["HSET", &name, "record", r#"{"state":"ajar"}"#]).unwrap();
    put(&held.store, "other", record(7)).await;
    let of_epoch = |key| Delta { epoch: record(7).epoch, ..delta(key) };
    let found = held.store.read(&["other".into(), "acme e1".into()]).await.unwrap().value;
    let merged = held.store.merge(&[of_epoch("acme e1"), of_epoch("other")]).await.unwrap().value;
    let page = held.store.list(&ListQuery::default()).await.unwrap();
    let error = held.store.swap_if(&swap("acme e1", Some(9), record(2))).await.unwrap_err();
    let StoreError::Unreadable(swapped) = error else { panic!("{error}") };
    let unreadable =
        [found[1].clone().unwrap_err(), merged[0].clone().unwrap_err(), page.unreadable[0].clone(), swapped];
    for unreadable in unreadable {
        assert_eq!(unreadable.key, "acme e1");
        assert!(unreadable.reason.contains(&name) && unreadable.reason.contains("ajar"), "{unreadable}");
    }
    // The other circuits are not affected.
    assert_eq!(found[0], Ok(Some(record(7))));
    assert_eq!(merged[1].as_ref().unwrap().totals.successes, 3);
    assert_eq!(page.circuits, [("other".into(), record(7))]);
    // A caller that knows the version can replace the record; any other caller can delete it.
    let answer = held.store.swap_if(&swap("acme e1", Some(1), record(2))).await.unwrap();
    assert_eq!(answer.value, Swapped::Won);
    held.server.query::<()>(&["DEL", &name]).unwrap();
    assert_eq!(held.store.read(&["acme e1".into()]).await.unwrap().value, [Ok(None)]);
    let page = held.store.list(&ListQuery::default()).await.unwrap();
    assert_eq!((page.circuits.len(), page.unreadable.len()), (1, 0));
}

fn bucket(server: &RedisServer) -> String {
    let keys: Vec<String> = server.query(&["KEYS", "*:circuits"]).unwrap();
    let (_, rest) = keys[0].split_once('{').unwrap();
    rest.split_once('}').unwrap().0.to_owned()
}

#[tokio::test]
async fn keys_of_another_kind_are_refused_and_nothing_is_written() {
    let held = on_one().await;
    put(&held.store, "e1", record(1)).await;
    let name = format!("breakerbox:{{{}}}:record:e1", bucket(&held.server));
    held.server.query::<()>(&["SET", &name, "somebody else's"]).unwrap();
    let error = held.store.merge(&[delta("e1")]).await.unwrap_err();
    assert!(message(&error).contains("WRONGTYPE"), "{error:?}");
    let windows: Vec<String> = held.server.query(&["KEYS", "*window*"]).unwrap();
    assert!(windows.is_empty());
}

#[tokio::test]
async fn fleets_with_a_namespace_each_share_a_server() {
    let server = RedisServer::start().unwrap();
    let [shop, bank] = ["shop", "bank:eu-1"]
        .map(|name| RedisStore::builder(&server.url()).namespace(name).time_limit(WAIT_LIMIT));
    let (shop, bank) = (shop.connect().await.unwrap(), bank.connect().await.unwrap());
    let mut event = bank.changes();
    put(&shop, "e1", record(1)).await;
    assert_eq!(bank.read(&["e1".into()]).await.unwrap().value, [Ok(None)]);
    assert!(bank.list(&ListQuery::default()).await.unwrap().circuits.is_empty());
    put(&bank, "e1", record(2)).await;
    assert!(
        matches!(next(&mut event).await, StoreEvent::Changed { record, .. } if record.version == Version(2))
    );
    let (shop, bank) = (Arc::new(shop), Arc::new(bank));
    assert!(shop.lead("office", Nonce(1), WAIT_LIMIT).await.unwrap().value.leads);
    assert!(bank.lead("office", Nonce(2), WAIT_LIMIT).await.unwrap().value.leads);
}
