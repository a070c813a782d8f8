//! The index of circuits: expired circuits are removed, and live ones stay.

use std::time::Duration;

use breakerbox::store::{ListQuery, Store, Swap, Swapped};
use breakerbox::{CircuitStatus, Record, State};
use breakerbox_redis::RedisStore;
use breakerbox_testkit::servers::RedisServer;

use crate::faults::eventually;
use crate::server::{delta, on_one, put, record, swap};

const BRIEF: Duration = Duration::from_millis(1);

async fn put_briefly(store: &RedisStore, key: &str, keep_for: Duration) {
    let swap = Swap { keep_for: Some(keep_for), ..swap(key, None, closed(1)) };
    assert_eq!(store.swap_if(&swap).await.unwrap().value, Swapped::Won);
}

fn closed(version: u128) -> Record {
    let mut record = record(version);
    record.state = State::Closed;
    record
}

/// Returns the entries of all indices of this kind.
fn entries(server: &RedisServer, kind: &str) -> Vec<String> {
    let keys: Vec<String> = server.query(&["KEYS", &format!("*:{kind}")]).unwrap();
    let mut entries: Vec<String> = keys
        .iter()
        .flat_map(|key| server.query::<Vec<String>>(&["ZRANGE", key, "0", "-1"]).unwrap())
        .collect();
    entries.sort();
    entries
}

async fn listed(store: &RedisStore, status: Option<CircuitStatus>) -> Vec<String> {
    let page = store.list(&ListQuery { status, ..ListQuery::default() }).await.unwrap();
    page.circuits.iter().map(|(key, _)| key.to_string()).collect()
}

#[tokio::test]
async fn whoever_lists_what_has_expired_takes_it_out() {
    let held = on_one().await;
    for n in 0..300 {
        put_briefly(&held.store, &format!("brief {n}"), BRIEF).await;
    }
    put(&held.store, "stays", record(1)).await;
    eventually("all have expired", async || {
        let records: Vec<String> = held.server.query(&["KEYS", "*:record:*"]).unwrap();
        (records.len() == 1).then_some(())
    })
    .await;
    assert!(entries(&held.server, "circuits").len() > 250);
    assert_eq!(listed(&held.store, None).await, ["stays"]);
    assert_eq!(entries(&held.server, "circuits"), ["stays"]);
    assert_eq!(entries(&held.server, "states"), ["open:stays"]);
    assert!(entries(&held.server, "expiries").is_empty());
}

#[tokio::test]
async fn whoever_swaps_takes_out_what_has_expired_in_its_bucket() {
    let held = on_one().await;
    let bucket = |key: &str| crc16(key) % 1_024;
    let mut same = (0..).map(|n| format!("circuit {n}")).filter(|key| bucket(key) == bucket("circuit 0"));
    let mut of_bucket = || same.next().unwrap();
    let first: Vec<_> = (0..20).map(|_| of_bucket()).collect();
    for key in &first {
        put_briefly(&held.store, key, BRIEF).await;
    }
    // Each swap removes at most sixteen. The circuits of the swaps themselves stay.
    let mut kept = Vec::new();
    eventually("nothing expired is left", async || {
        let key = of_bucket();
        put(&held.store, &key, record(1)).await;
        kept.push(key);
        kept.sort();
        (entries(&held.server, "circuits") == kept).then_some(())
    })
    .await;
    assert!(entries(&held.server, "expiries").is_empty());
    assert_eq!(entries(&held.server, "states").len(), kept.len());
}

#[tokio::test]
async fn what_is_still_used_stays_in_the_index() {
    let held = on_one().await;
    let merges = |keep_for| breakerbox::store::Delta { keep_for, epoch: closed(1).epoch, ..delta("used") };
    put_briefly(&held.store, "used", Duration::from_millis(300)).await;
    held.store.merge(&[merges(Duration::from_secs(600))]).await.unwrap();
    eventually("its first expiry is over", async || {
        let expiries = entries(&held.server, "expiries");
        assert_eq!(expiries, ["used"]);
        let scores: Vec<String> = held.server.query(&["KEYS", "*:expiries"]).unwrap();
        let score: f64 = held.server.query(&["ZSCORE", &scores[0], "used"]).unwrap();
        let now: (u64, u64) = held.server.query(&["TIME"]).unwrap();
        (score < (now.0 * 1_000 + now.1 / 1_000) as f64).then_some(())
    })
    .await;
    // A swap in its bucket checks the circuit, and finds that it was used meanwhile.
    let answer = held.store.swap_if(&swap("used", Some(1), record(2))).await.unwrap();
    assert_eq!(answer.value, Swapped::Won);
    assert_eq!(listed(&held.store, None).await, ["used"]);
    assert!(entries(&held.server, "expiries").is_empty(), "now it stays for ever");
}

#[tokio::test]
async fn a_circuit_that_returns_after_its_expiry_is_in_one_state_only() {
    let held = on_one().await;
    put_briefly(&held.store, "e1", BRIEF).await;
    eventually("it has expired", async || {
        (held.store.read(&["e1".into()]).await.unwrap().value == [Ok(None)]).then_some(())
    })
    .await;
    put(&held.store, "e1", record(2)).await;
    assert_eq!(entries(&held.server, "states"), ["open:e1"]);
    assert_eq!(listed(&held.store, Some(CircuitStatus::Open)).await, ["e1"]);
    assert!(listed(&held.store, Some(CircuitStatus::Closed)).await.is_empty());
}

#[tokio::test]
async fn windows_and_records_expire_together_or_stay_together() {
    let held = on_one().await;
    let ttl = |kind: &str| -> i64 {
        let keys: Vec<String> = held.server.query(&["KEYS", &format!("*:{kind}:e1")]).unwrap();
        held.server.query(&["PTTL", keys.first().map_or("none", String::as_str)]).unwrap()
    };
    let of_epoch = |epoch| breakerbox::store::Delta { epoch, run: None, ..delta("e1") };
    held.store.merge(&[of_epoch(breakerbox::Epoch(0))]).await.unwrap();
    assert!((599_000..=600_000).contains(&ttl("window")), "{}", ttl("window"));
    put_briefly(&held.store, "e1", Duration::from_secs(60)).await;
    assert!(
        (59_000..=60_000).contains(&ttl("record")) && ttl("window") == -2,
        "a new epoch drops the window"
    );
    held.store.merge(&[of_epoch(closed(1).epoch)]).await.unwrap();
    assert!((599_000..=600_000).contains(&ttl("record")) && (599_000..=600_000).contains(&ttl("window")));
    held.store.swap_if(&swap("e1", Some(1), closed(2))).await.unwrap();
    assert_eq!((ttl("record"), ttl("window")), (-1, -1), "for ever");
    assert!(entries(&held.server, "expiries").is_empty());
    held.store.merge(&[of_epoch(closed(1).epoch)]).await.unwrap();
    assert_eq!((ttl("record"), ttl("window")), (-1, -1), "a merge changes nothing about that");
    let brief = Swap { keep_for: Some(Duration::from_secs(60)), ..swap("e1", Some(2), closed(3)) };
    held.store.swap_if(&brief).await.unwrap();
    assert!((59_000..=60_000).contains(&ttl("record")) && (59_000..=60_000).contains(&ttl("window")));
}

#[tokio::test]
async fn a_run_of_failures_keeps_the_window_and_the_record_for_a_week() {
    let held = on_one().await;
    let ttl = |kind: &str| -> Option<u64> {
        let keys: Vec<String> = held.server.query(&["KEYS", &format!("*:{kind}:e1")]).unwrap();
        let ttl: i64 = held.server.query(&["PTTL", keys.first().map_or("none", String::as_str)]).unwrap();
        u64::try_from(ttl).ok().map(|ms| ms / 1_000)
    };
    let week = 7 * 24 * 3_600;
    let is_about =
        |seconds: u64, ttl: Option<u64>| ttl.is_some_and(|ttl| (seconds - 5..=seconds).contains(&ttl));
    let of = |epoch, keep_for| breakerbox::store::Delta {
        epoch,
        keep_for: Duration::from_secs(keep_for),
        last_success: None,
        ..delta("e1")
    };
    let success =
        |epoch| breakerbox::store::Delta { last_success: Some(Duration::ZERO), run: None, ..of(epoch, 60) };
    let (none, first) = (breakerbox::Epoch(0), closed(1).epoch);
    held.store.merge(&[of(none, 600)]).await.unwrap();
    assert!(is_about(week, ttl("window")), "{:?}", ttl("window"));
    held.store.merge(&[success(none)]).await.unwrap();
    assert!(is_about(600, ttl("window")), "as long as without the run: {:?}", ttl("window"));
    put_briefly(&held.store, "e1", Duration::from_secs(300)).await;
    held.store.merge(&[of(first, 60)]).await.unwrap();
    assert!(is_about(week, ttl("record")) && is_about(week, ttl("window")), "{:?}", ttl("record"));
    let again = Swap { keep_for: Some(Duration::from_secs(200)), ..swap("e1", Some(1), closed(2)) };
    held.store.swap_if(&again).await.unwrap();
    assert!(is_about(week, ttl("record")) && is_about(week, ttl("window")), "a swap in the epoch keeps it");
    held.store.merge(&[success(first)]).await.unwrap();
    assert!(is_about(200, ttl("record")) && is_about(200, ttl("window")), "{:?}", ttl("record"));
}

/// Earlier versions kept a part of the run in each bucket, and its first failure in another field.
#[tokio::test]
async fn a_window_of_an_earlier_version_can_be_read() {
    let held = on_one().await;
    held.store.merge(&[delta("e1")]).await.unwrap();
    let keys: Vec<String> = held.server.query(&["KEYS", "*:window:e1"]).unwrap();
    let now: (u64, u64) = held.server.query(&["TIME"]).unwrap();
    let micros = now.0 * 1_000_000 + now.1;
    let bucket = (micros - micros % 6_000_000).to_string();
    held.server.query::<u64>(&["DEL", &keys[0]]).unwrap();
    let second = micros.to_string();
    held.server.query::<u64>(&["HSET", &keys[0], &bucket, "3 2 0 7 2", "R", &second]).unwrap();
    let merged = held.store.merge(&[delta("e1")]).await.unwrap().all().unwrap().value.remove(0);
    assert_eq!((merged.totals.failures, merged.totals.failure_run), (3, 1), "only the new run counts");
    // An earlier version that adds a success does not know the run.
    let later = (micros + 60_000_000).to_string();
    held.server.query::<u64>(&["HSET", &keys[0], "S", &later]).unwrap();
    let nothing =
        breakerbox::store::Delta { buckets: Vec::new(), last_success: None, run: None, ..delta("e1") };
    let merged = held.store.merge(&[nothing]).await.unwrap().all().unwrap().value.remove(0);
    assert_eq!(merged.totals.failure_run, 0, "it ends the run nevertheless");
}

/// An independent implementation of Redis Cluster's CRC16, to verify that a circuit's bucket never changes.
fn crc16(key: &str) -> u16 {
    key.bytes().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}
