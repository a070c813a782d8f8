//! The memory store's behaviour over time. The testkit's conformance suite checks what every store must do.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::{
    BucketDelta, Delta, ListQuery, MemorySnapshot, MemoryStore, RunDelta, Store, StoreEvent, Swap, Swapped,
};
use breakerbox::{Clock, Epoch, FailureRun, ManualClock, Nonce, Record, Timestamp, Version};

use crate::service::{Service, secs, simple};

fn store() -> (MemoryStore, ManualClock) {
    let clock = ManualClock::new();
    clock.advance(secs(1_000_000));
    (MemoryStore::with_clock(clock.clone()), clock)
}

fn key(text: &str) -> Arc<str> {
    text.into()
}

/// Returns a record like those that the library writes, with this version.
fn record(version: u128) -> Record {
    let service = Service::new(&simple());
    let mut record = service.tripped("e1").record();
    record.version = Version(version);
    record
}

fn swap(of: &str, expected: Option<u128>, version: u128) -> Swap {
    let not_after = Timestamp::from_micros(u64::MAX);
    let expected = expected.map(Version);
    Swap { key: key(of), expected, record: record(version), not_after, keep_for: None }
}

fn delta(of: &str, age: Duration) -> Delta {
    Delta {
        key: key(of),
        epoch: Epoch::default(),
        window: secs(10),
        buckets: vec![BucketDelta { age, failures: 1, ..BucketDelta::default() }],
        last_success: None,
        run: Some(RunDelta { count: 1, began: age, last: age }),
        keep_for: secs(60),
    }
}

async fn failures(store: &MemoryStore, delta: Delta) -> (u64, u64) {
    let totals = store.merge(&[delta]).await.unwrap().all().unwrap().value[0].totals;
    (totals.failures, totals.failure_run)
}

#[tokio::test]
async fn the_window_slides_by_its_buckets() {
    let (store, clock) = store();
    let nothing = || Delta { buckets: Vec::new(), run: None, ..delta("e1", secs(0)) };
    assert_eq!(failures(&store, delta("e1", secs(0))).await, (1, 1));
    clock.advance(secs(9));
    assert_eq!(failures(&store, delta("e1", secs(0))).await, (2, 2));
    assert_eq!(failures(&store, nothing()).await, (2, 2));
    clock.advance(secs(1));
    assert_eq!(failures(&store, nothing()).await, (1, 2), "ten buckets later the first one is out");
    clock.advance(secs(9));
    assert_eq!(failures(&store, nothing()).await, (0, 2), "the run of failures is not part of the window");
}

#[tokio::test]
async fn a_run_of_failures_is_kept_for_a_week_and_no_longer_than_it_lasts() {
    let (store, clock) = store();
    let week = FailureRun::KEPT_FOR;
    let nothing = || Delta { buckets: Vec::new(), run: None, ..delta("e1", secs(0)) };
    failures(&store, delta("e1", secs(0))).await;
    clock.advance(week - secs(1));
    assert_eq!(failures(&store, delta("e1", secs(0))).await, (1, 2), "kept, though nothing was reported");
    let (epoch, run) = store.run("e1").unwrap();
    assert_eq!((epoch, run.count, run.last.since(run.began)), (Epoch::default(), 2, week - secs(1)));
    clock.advance(week);
    assert_eq!((store.len(), store.run("e1")), (0, None), "a week after its last failure it is gone");
    assert_eq!(failures(&store, nothing()).await, (0, 0));
    // A circuit whose run has ended is kept no longer than one that never had a run.
    failures(&store, delta("e1", secs(0))).await;
    failures(&store, Delta { last_success: Some(secs(0)), ..nothing() }).await;
    clock.advance(secs(60));
    assert!(store.is_empty());
}

#[tokio::test]
async fn a_deadline_is_the_last_moment() {
    let (store, clock) = store();
    let due = clock.now() + secs(5);
    let swap = |expected, version| Swap { not_after: due, ..swap("e1", expected, version) };
    clock.advance(secs(5));
    assert_eq!(store.swap_if(&swap(None, 1)).await.unwrap().value, Swapped::Won);
    clock.advance(Duration::from_micros(1));
    let answer = store.swap_if(&swap(Some(1), 2)).await.unwrap().value;
    assert_eq!(answer, Swapped::TooLate(Some(record(1))));
}

#[tokio::test]
async fn what_is_idle_goes_and_what_is_used_or_kept_stays() {
    let (store, clock) = store();
    // A run of failures would be kept for a week.
    let delta = |key, age| Delta { run: None, ..delta(key, age) };
    failures(&store, delta("idle", secs(0))).await;
    failures(&store, delta("used", secs(0))).await;
    let brief = Swap { keep_for: Some(secs(60)), ..swap("brief", None, 1) };
    assert_eq!(store.swap_if(&brief).await.unwrap().value, Swapped::Won);
    assert_eq!(store.swap_if(&swap("kept", None, 1)).await.unwrap().value, Swapped::Won);
    clock.advance(secs(59));
    failures(&store, delta("used", secs(0))).await;
    // A late merge keeps the record too, because it shows that the endpoint is in use.
    let answer = store.merge(&[delta("kept", secs(0))]).await.unwrap().all().unwrap();
    assert!(answer.value[0].late);
    assert_eq!(store.len(), 4);
    clock.advance(secs(1));
    assert_eq!(store.len(), 2);
    clock.advance(secs(59));
    assert_eq!(store.len(), 1);
    clock.advance(secs(1_000_000));
    let page = store.list(&ListQuery::default()).await.unwrap();
    let keys: Vec<_> = page.circuits.iter().map(|(key, _)| &**key).collect();
    assert_eq!(keys, ["kept"], "and it is no longer listed");
}

#[tokio::test]
async fn a_record_may_be_kept_for_ever_and_later_for_a_while() {
    let (store, clock) = store();
    store.swap_if(&swap("e1", None, 1)).await.unwrap();
    store.swap_if(&Swap { keep_for: Some(secs(60)), ..swap("e1", Some(1), 2) }).await.unwrap();
    clock.advance(secs(30));
    store.swap_if(&swap("e1", Some(2), 3)).await.unwrap();
    clock.advance(secs(60));
    assert_eq!(store.len(), 1);
    store.swap_if(&Swap { keep_for: Some(secs(60)), ..swap("e1", Some(3), 4) }).await.unwrap();
    clock.advance(secs(60));
    assert!(store.is_empty());
}

#[tokio::test]
async fn a_listener_that_is_too_slow_hears_that_it_missed_something() {
    let (store, _) = store();
    let mut changes = store.changes();
    let mut expected = None;
    for version in 1..=2_000 {
        store.swap_if(&swap("e1", expected, version)).await.unwrap();
        expected = Some(version);
    }
    let mut next = async || tokio::time::timeout(secs(20), changes.next()).await.expect("a change");
    assert_eq!(next().await, Some(StoreEvent::Missed));
    let mut last = 0;
    while last != 2_000 {
        let Some(StoreEvent::Changed { record, .. }) = next().await else { panic!("missed twice") };
        assert!(record.version.0 > last, "in their order");
        last = record.version.0;
    }
    drop(store);
    assert_eq!(next().await, None);
}

#[tokio::test]
async fn a_term_ends_by_the_stores_clock() {
    let (store, clock) = store();
    let leads =
        async |candidate, ttl| store.lead("sampler", Nonce(candidate), ttl).await.unwrap().value.leads;
    assert!(leads(1, secs(10)).await);
    clock.advance(Duration::from_micros(9_999_999));
    assert!(!leads(2, secs(10)).await);
    clock.advance(Duration::from_micros(1));
    assert!(leads(2, secs(10)).await);
    assert!(!leads(1, secs(10)).await);
}

#[tokio::test]
async fn a_store_that_is_restored_has_forgotten_what_came_since() {
    let (store, _) = store();
    store.swap_if(&swap("e1", None, 1)).await.unwrap();
    let before = store.snapshot();
    store.swap_if(&swap("e1", Some(1), 2)).await.unwrap();
    store.swap_if(&swap("e2", None, 3)).await.unwrap();
    let versions = async || {
        let records = store.read(&[key("e1"), key("e2")]).await.unwrap().all().unwrap().value;
        records.into_iter().map(|record| record.map(|record| record.version.0)).collect::<Vec<_>>()
    };
    assert_eq!(versions().await, [Some(2), Some(3)]);
    store.restore(before);
    assert_eq!(versions().await, [Some(1), None]);
    store.restore(MemorySnapshot::default());
    assert!(store.is_empty());
}

#[tokio::test]
async fn a_clone_is_the_same_store() {
    let (store, _) = store();
    let clone = store.clone();
    failures(&clone, delta("e1", secs(0))).await;
    assert_eq!((store.len(), clone.len()), (1, 1));
}
