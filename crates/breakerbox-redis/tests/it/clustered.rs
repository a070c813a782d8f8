//! A cluster whose slots are moved and whose masters fail and are replaced.

use std::time::{Duration, Instant};

use breakerbox::store::{Changes, Delta, ListQuery, Store, StoreError, StoreEvent, Swapped};
use breakerbox_redis::RedisStore;
use breakerbox_testkit::servers::RedisCluster;

use crate::faults::{eventually, missed_before, next};
use crate::server::{connect, delta, message, put, record, swap};

/// Returns the hash slot of the key that matches `pattern`, and the index of the node that owns the slot.
fn located(cluster: &RedisCluster, pattern: &str) -> (u16, usize) {
    for (n, node) in cluster.nodes().iter().enumerate() {
        let keys: Vec<String> = node.query(&["KEYS", pattern]).unwrap_or_default();
        if let Some(key) = keys.first() {
            return (node.query(&["CLUSTER", "KEYSLOT", key]).unwrap(), n);
        }
    }
    panic!("{pattern} is nowhere");
}

/// Returns the number of a circuit's bucket. A Redis node computes the CRC16, independently of the store's
/// code.
fn bucket(cluster: &RedisCluster, key: &str) -> u16 {
    cluster.nodes()[0].query::<u16>(&["CLUSTER", "KEYSLOT", key]).unwrap() % 1_024
}

/// Merges the deltas, and returns how many times each delta was counted.
async fn merged(store: &RedisStore, deltas: &[Delta]) -> Vec<u64> {
    let merged = store.merge(deltas).await.unwrap().all().unwrap().value;
    merged.iter().map(|merged| merged.totals.successes / 3).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_are_followed_and_nothing_counts_twice() {
    let cluster = RedisCluster::start().unwrap();
    let store = connect(&cluster.url()).await;
    // A store that makes no requests, so it is never redirected.
    let idle = connect(&cluster.url()).await;
    let (mut changes, mut idle_changes) = (store.changes(), idle.changes());
    put(&store, "e1", record(1)).await;
    missed_before(&mut changes, "e1", 1).await;
    missed_before(&mut idle_changes, "e1", 1).await;
    let (slot, from) = located(&cluster, "*:record:e1");
    let to = (from + 1) % 3;
    // One of them has counts in the moving slot, but no record.
    let names = (0..).map(|n| format!("many {n}"));
    let moving = bucket(&cluster, "e1");
    let here = names.clone().find(|name| bucket(&cluster, name) == moving).unwrap();
    let others = names.filter(|name| bucket(&cluster, name) != moving).take(200);
    let many: Vec<_> = std::iter::once(here).chain(others).map(|name| delta(&name)).collect();
    let counted = |moved: u64, rest: u64| [vec![moved], vec![rest; 200]].concat();
    assert_eq!(merged(&store, &many).await, counted(1, 1));

    cluster.begin_move(slot, from, to).unwrap();
    // Some keys of a call may be on either node: the servers respond "try again", and the store retries up to a
    // limit.
    let torn = store.merge(&many).await.unwrap_err();
    assert!(message(&torn).contains("being rearranged"), "{torn:?}");
    // A single key is on one node or the other.
    assert_eq!(store.read(&["e1".into()]).await.unwrap().value, [Ok(Some(record(1)))]);
    cluster.move_keys(slot, from, to).unwrap();
    assert_eq!(
        store.read(&["e1".into()]).await.unwrap().value,
        [Ok(Some(record(1)))],
        "sent on, for this once"
    );

    let moved = Instant::now();
    cluster.end_move(slot, to).unwrap();
    assert_eq!(merged(&store, &many).await, counted(2, 3), "only what was not done was sent again");
    assert_eq!(merged(&store, &many).await, counted(3, 4));
    let answer = store.swap_if(&swap("e1", Some(1), record(2))).await.unwrap();
    assert_eq!(answer.value, Swapped::Won);
    assert_eq!(located(&cluster, "*:record:e1"), (slot, to));

    // The listeners are redirected as well. Changes made before they are subscribed again are reported as
    // missed.
    changes_until_heard(&store, &mut changes, Some(1)).await;
    assert_eq!(next(&mut idle_changes).await, StoreEvent::Missed);
    assert!(moved.elapsed() < Duration::from_secs(9), "sooner than nodes are asked anyway, every 10 s");
    changes_until_heard(&store, &mut idle_changes, None).await;
}

/// Changes the circuit `e1` repeatedly until a listener receives one of the changes. No change after the
/// version `latest` may be skipped without a `Missed` event. `None` means that this event was already received.
async fn changes_until_heard(store: &RedisStore, changes: &mut Changes, latest: Option<u128>) {
    let mut is_gap_known = latest.is_none();
    eventually("a change is heard", async || {
        let version = store.read(&["e1".into()]).await.unwrap().all().unwrap().value[0].as_ref()?.version.0;
        store.swap_if(&swap("e1", Some(version), record(version + 1))).await.unwrap();
        match tokio::time::timeout(Duration::from_millis(200), changes.next()).await.ok()?? {
            StoreEvent::Missed => is_gap_known = true,
            StoreEvent::Changed { key, record } if &*key == "e1" => {
                let is_next = latest.is_some_and(|latest| record.version.0 == latest + 1);
                assert!(is_next || is_gap_known, "version {:?} came after {latest:?}", record.version);
                return Some(());
            }
            _ => {}
        }
        None
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_takes_over_is_found_and_the_rest_goes_on_meanwhile() {
    let mut cluster = RedisCluster::start().unwrap();
    let store = connect(&cluster.url()).await;
    let keys: Vec<_> = (0..30).map(|n| format!("circuit {n}")).collect();
    for key in &keys {
        put(&store, key, record(1)).await;
    }
    let (dead, alive): (Vec<_>, Vec<_>) =
        keys.iter().partition(|key| located(&cluster, &format!("*:record:{key}")).1 == 0);
    assert!(!dead.is_empty() && !alive.is_empty());
    let replica = cluster.add_replica_of(0).unwrap();
    let mut changes = store.changes();

    cluster.node_mut(0).unwrap().kill().unwrap();
    let gone = eventually("it is gone", async || store.read(&[dead[0].as_str().into()]).await.err()).await;
    assert!(matches!(gone, StoreError::Unavailable(_) | StoreError::TimedOut { .. }), "{gone}");
    let alive =
        eventually("the rest goes on", async || store.read(&[alive[0].as_str().into()]).await.ok()).await;
    assert_eq!(alive.value, [Ok(Some(record(1)))]);

    cluster.take_over(replica).unwrap();
    for key in &dead {
        let found = eventually("it is back", async || store.read(&[key.as_str().into()]).await.ok()).await;
        assert_eq!(found.value, [Ok(Some(record(1)))], "{key}");
    }
    assert_eq!(next(&mut changes).await, StoreEvent::Missed);
    let page = eventually("all are listed", async || store.list(&ListQuery::default()).await.ok()).await;
    assert_eq!(page.circuits.len(), 30);
    eventually("changes are heard again", async || {
        let version =
            store.read(&[dead[0].as_str().into()]).await.ok()?.all().ok()?.value[0].as_ref()?.version.0;
        store.swap_if(&swap(dead[0], Some(version), record(version + 1))).await.ok()?;
        let event = tokio::time::timeout(Duration::from_millis(200), changes.next()).await.ok()??;
        matches!(event, StoreEvent::Changed { key, .. } if *key == **dead[0]).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_of_the_url_will_do() {
    let cluster = RedisCluster::start().unwrap();
    let dead = breakerbox_testkit::servers::free_port().unwrap();
    let url = format!("redis+cluster://127.0.0.1:{dead},127.0.0.1:{}", cluster.nodes()[2].port());
    let store = connect(&url).await;
    for n in 0..50 {
        put(&store, &format!("circuit {n}"), record(1)).await;
    }
    let page = store.list(&ListQuery::default()).await.unwrap();
    assert_eq!((page.circuits.len(), page.next), (50, None));
    let here = cluster.nodes().iter().filter(|node| node.query::<u64>(&["DBSIZE"]).unwrap() > 0);
    assert_eq!(here.count(), 3, "and all nodes are used");
}
