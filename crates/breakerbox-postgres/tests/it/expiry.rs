//! Expiry: for all operations, expired data does not exist, and its rows are deleted eventually.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::{Delta, ListQuery, Store, Swap, Swapped};
use breakerbox::{CircuitStatus, Epoch, Nonce, State};
use breakerbox_postgres::PostgresStoreBuilder;

use crate::samples::{failures, put, read, record, swap, unique};
use crate::server::{StoreWithServer, on_shared_with, until};

const SOON: Duration = Duration::from_millis(20);

fn closed(epoch: u64, version: u128) -> breakerbox::Record {
    let mut record = record(epoch, version);
    record.state = State::Closed;
    record
}

async fn put_for(held: &StoreWithServer, key: &Arc<str>, keep_for: Duration, record: breakerbox::Record) {
    let swap = Swap { keep_for: Some(keep_for), ..swap(key, None, record) };
    assert_eq!(held.swap_if(&swap).await.unwrap().value, Swapped::Won);
}

async fn has_passed(held: &StoreWithServer, by: Duration) {
    let end = held.read(&[]).await.unwrap().now + by;
    until("time passes", async || held.read(&[]).await.unwrap().now > end).await;
}

/// Returns a delta with failures that make no run, because a run is kept for a week.
fn without_run(key: &Arc<str>, count: u64) -> Delta {
    Delta { run: None, ..failures(key, count) }
}

/// Returns a store in whose schema no cleanup runs.
async fn never_cleaned(schema: &str) -> StoreWithServer {
    let rarely =
        |builder: PostgresStoreBuilder| builder.schema(schema).clean_every(Duration::from_secs(3_600));
    let first = on_shared_with(rarely).await;
    // Another store holds the cleanup term for days, examines the empty tables, and is dropped.
    let offices = format!("SELECT count(*) FROM {schema}.leases");
    until("somebody is in office", async || first.server.query(&offices).unwrap() == "1").await;
    let held = on_shared_with(rarely).await;
    drop(first);
    held
}

/// Verifies that no operation sees expired rows, even while the rows still exist.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_expired_is_not_there_for_any_verb() {
    let held = never_cleaned("expired").await;
    let key = unique("expired");
    held.merge(&[failures(&key, 3)]).await.unwrap();
    put_for(&held, &key, SOON, closed(5, 1)).await;
    has_passed(&held, SOON).await;
    assert_eq!(held.server.query("SELECT count(*) FROM expired.circuits").unwrap(), "1");
    assert_eq!(read(&held, &key).await, None);
    for status in [None, Some(CircuitStatus::Closed)] {
        let query = ListQuery { status, ..ListQuery::default() };
        assert!(held.list(&query).await.unwrap().circuits.is_empty());
    }
    let stale = held.swap_if(&swap(&key, Some(1), record(6, 2))).await.unwrap().value;
    assert_eq!(stale, Swapped::Lost(None));
    let merged = held.merge(&[failures(&key, 1)]).await.unwrap().all().unwrap().value.remove(0);
    assert_eq!(
        (merged.late, merged.totals.failures, merged.record),
        (false, 1, None),
        "and its counts went with it"
    );
    put(&held, &key, None, record(6, 3)).await;
    assert_eq!(read(&held, &key).await, Some(record(6, 3)));
}

/// Verifies that counts that no merge has added to for a long time expire, unless their record is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_expire_unless_their_record_stays() {
    let held = never_cleaned("expired_counts").await;
    let (alone, with_record) = (unique("alone"), unique("with record"));
    put(&held, &with_record, None, record(5, 1)).await;
    let brief = |key: &Arc<str>, count| Delta { keep_for: SOON, ..without_run(key, count) };
    let both = |count| [brief(&alone, count), Delta { epoch: Epoch(5), ..brief(&with_record, count) }];
    held.merge(&both(3)).await.unwrap();
    has_passed(&held, SOON).await;
    let merged = held.merge(&both(1)).await.unwrap().all().unwrap().value;
    assert_eq!(merged[0].totals.failures, 1);
    assert_eq!(merged[1].totals.failures, 4, "they live as long as the record");
    // A late delta gets the same response.
    has_passed(&held, SOON).await;
    let late = |key: &Arc<str>| Delta { epoch: Epoch(9), ..brief(key, 1) };
    let merged = held.merge(&[late(&alone), late(&with_record)]).await.unwrap().all().unwrap().value;
    assert!(merged.iter().all(|merged| merged.late));
    assert_eq!((merged[0].totals.failures, merged[1].totals.failures), (0, 4));
}

/// Verifies that a record's retention time starts anew with each merge.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_prolongs_a_record() {
    let held =
        on_shared_with(|builder| builder.schema("prolonged").clean_every(Duration::from_millis(1))).await;
    let mut keep_for = Duration::from_millis(100);
    let key = loop {
        let key = unique("prolonged");
        put_for(&held, &key, keep_for, closed(5, 1)).await;
        let merged = held
            .merge(&[Delta { epoch: Epoch(5), ..without_run(&key, 1) }])
            .await
            .unwrap()
            .all()
            .unwrap()
            .value
            .remove(0);
        if !merged.late {
            break key;
        }
        // The machine is busy: the record had already expired.
        keep_for *= 2;
        assert!(keep_for < Duration::from_secs(10));
    };
    has_passed(&held, keep_for).await;
    assert_eq!(read(&held, &key).await, Some(closed(5, 1)));
    for status in [None, Some(CircuitStatus::Closed)] {
        let query = ListQuery { status, ..ListQuery::default() };
        assert_eq!(held.list(&query).await.unwrap().circuits.len(), 1);
    }
    put(&held, &key, Some(1), record(6, 2)).await;
}

/// Cleans up more rows than one step examines, some of which must stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_have_expired_are_cleared_and_no_others() {
    let held =
        on_shared_with(|builder| builder.schema("cleared").clean_every(Duration::from_millis(1))).await;
    let deltas = |keep_for: Duration, name: &str| -> Vec<Delta> {
        (0..700).map(|_| Delta { keep_for, ..without_run(&unique(name), 1) }).collect()
    };
    held.merge(&deltas(SOON, "a")).await.unwrap();
    held.merge(&deltas(Duration::from_secs(600), "b")).await.unwrap();
    held.merge(&deltas(SOON, "c")).await.unwrap();
    for n in 0..20_u64 {
        put_for(&held, &unique("goes"), SOON, closed(5 + n, 1)).await;
        put(&held, &unique("stays"), None, record(5 + n, 1)).await;
        // A swap that did not win leaves nothing behind either.
        held.swap_if(&swap(&unique("never was"), Some(1), record(5, 2))).await.unwrap();
    }
    for (office, ttl) in [("ended", Duration::from_millis(1)), ("led", Duration::from_secs(600))] {
        held.lead(office, Nonce(1), ttl).await.unwrap();
    }
    // If a record stays, its counts stay too.
    let kept = unique("kept");
    put(&held, &kept, None, record(5, 1)).await;
    held.merge(&[Delta { epoch: Epoch(5), keep_for: SOON, ..without_run(&kept, 1) }]).await.unwrap();
    // A run of failures stays for a week, and so does the record of its epoch.
    let (failing, was_failing) = (unique("failing"), unique("was-failing"));
    put_for(&held, &failing, SOON, closed(5, 1)).await;
    let run = |key: &Arc<str>| Delta { epoch: Epoch(5), keep_for: SOON, ..failures(key, 1) };
    loop {
        if !held.merge(&[run(&failing)]).await.unwrap().all().unwrap().value[0].late {
            break;
        }
        // The machine is busy: the record had already expired.
        put_for(&held, &failing, Duration::from_secs(1), closed(5, 1)).await;
    }
    // Once a success has ended it, it goes like any other.
    let ended = Delta { last_success: Some(Duration::ZERO), ..without_run(&was_failing, 0) };
    held.merge(&[Delta { epoch: Epoch(0), ..run(&was_failing) }]).await.unwrap();
    held.merge(&[Delta { keep_for: SOON, ..ended }]).await.unwrap();
    let rows = "SELECT (SELECT count(*) FROM cleared.circuits), (SELECT count(*) FROM cleared.counts)";
    until("they are cleared", async || held.server.query(rows).unwrap() == "22|702").await;
    let expires = "SELECT expires_at - run_last FROM cleared.counts WHERE run_count > 0";
    assert_eq!(held.server.query(expires).unwrap(), "604800000000", "a week after the last failure");
    let sql =
        "SELECT string_agg(DISTINCT split_part(convert_from(key, 'UTF8'), ' ', 1), ',') FROM cleared.counts";
    assert_eq!(held.server.query(sql).unwrap(), "b,failing,kept");
    let offices = "SELECT string_agg(convert_from(name, 'UTF8'), ',' ORDER BY name) FROM cleared.leases";
    until("terms that have ended are", async || {
        held.server.query(offices).unwrap() == "breakerbox clean-up,led"
    })
    .await;
}
