//! Lock waits: deadlines apply after a wait too, waits are bounded, and there are no deadlocks.

use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::{Store, StoreError, Swap, Swapped};
use breakerbox_postgres::PostgresStore;
use tokio_postgres::Client;

use crate::samples::{counted, failures, put, read, record, swap, unique};
use crate::server::{StoreWithServer, WAIT_LIMIT, alone, client, on_shared, patient, until};

/// Returns a connection that the store does not use.
async fn another(held: &StoreWithServer) -> Client {
    client(&held.server.url()).await.unwrap()
}

/// Returns the number of statements on a schema that wait for a lock now.
async fn waiting(client: &Client, schema: &str) -> i64 {
    let sql =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND strpos(query, $1) > 0";
    client.query_one(sql, &[&format!("\"{schema}\"")]).await.unwrap().get(0)
}

/// Swaps while another connection holds a lock, which it releases once the deadline has passed.
async fn swap_after_a_wait(
    schema: &str,
    hold: &str,
    let_go: &str,
    key: &Arc<str>,
    expected: Option<u128>,
) -> Swapped {
    let held = Arc::new(alone(schema).await);
    let (holder, observer) = (another(&held).await, another(&held).await);
    let hold = hold.replace("KEY", &format!("convert_to('{key}', 'UTF8')")).replace("SCHEMA", schema);
    holder.batch_execute(&hold).await.unwrap();
    let now = held.read(&[]).await.unwrap().now;
    let deadline = now + Duration::from_millis(300);
    let swap = Swap { not_after: deadline, ..swap(key, expected, record(9, 9)) };
    let swapping = tokio::spawn({
        let held = Arc::clone(&held);
        async move { held.swap_if(&swap).await.unwrap() }
    });
    until("the swap waits", async || waiting(&observer, schema).await == 1).await;
    until("the deadline passes", async || held.read(&[]).await.unwrap().now > deadline).await;
    holder.batch_execute(let_go).await.unwrap();
    let answer = swapping.await.unwrap();
    assert!(answer.now > deadline);
    answer.value
}

/// Verifies that a swap whose deadline passed while it waited for a lock is too late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_counts_after_a_wait_for_the_record() {
    let schema = "wait_for_record";
    let held = alone(schema).await;
    let key = unique("locked record");
    put(&held, &key, None, record(5, 1)).await;
    for let_go in ["ROLLBACK", "COMMIT"] {
        let hold = "BEGIN; SELECT FROM SCHEMA.circuits WHERE key = KEY FOR UPDATE";
        let swapped = swap_after_a_wait(schema, hold, let_go, &key, Some(1)).await;
        assert_eq!(swapped, Swapped::TooLate(Some(record(5, 1))), "{let_go}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_counts_after_a_wait_for_the_first_record() {
    let schema = "wait_for_place";
    let key = unique("locked place");
    let hold = "BEGIN; INSERT INTO SCHEMA.circuits (key) VALUES (KEY)";
    assert_eq!(swap_after_a_wait(schema, hold, "ROLLBACK", &key, None).await, Swapped::TooLate(None));
    let held = alone(schema).await;
    assert_eq!(read(&held, &key).await, None);
    put(&held, &key, None, record(5, 1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_counts_after_a_wait_for_the_counts() {
    let schema = "wait_for_counts";
    let held = alone(schema).await;
    let key = unique("locked counts");
    held.merge(&[failures(&key, 3)]).await.unwrap();
    let hold = "BEGIN; SELECT FROM SCHEMA.counts WHERE key = KEY FOR UPDATE";
    assert_eq!(swap_after_a_wait(schema, hold, "ROLLBACK", &key, None).await, Swapped::TooLate(None));
    assert_eq!(counted(&held, &key).await, 3, "nothing was dropped");
}

/// Verifies that a statement that takes too long returns an error in time, and does not continue in the
/// background.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_waits_too_long_is_ended() {
    let (schema, limit) = ("wait_too_long", Duration::from_millis(300));
    let held = alone(schema).await;
    let key = unique("too long");
    put(&held, &key, None, record(5, 1)).await;
    let (holder, observer) = (another(&held).await, another(&held).await);
    holder.batch_execute(&format!("BEGIN; SELECT FROM {schema}.circuits FOR UPDATE")).await.unwrap();
    let hasty =
        PostgresStore::builder(&held.server.url()).schema(schema).time_limit(limit).connect().await.unwrap();
    for _ in 0..5 {
        let swap = swap(&key, Some(1), record(6, 2));
        let swapped = tokio::time::timeout(WAIT_LIMIT, hasty.swap_if(&swap)).await;
        // The lock that the swap waits for is held all this time.
        let error = swapped.expect("it ends").unwrap_err();
        assert!(matches!(error, StoreError::TimedOut { limit: stated } if stated == limit), "{error}");
    }
    until("nobody waits any more", async || waiting(&observer, schema).await == 0).await;
    // A caller that gives up before the timeout, which is long here, leaves nothing behind either.
    let _server = Arc::clone(&held.server);
    let given_up = tokio::spawn(async move { held.swap_if(&swap(&key, Some(1), record(6, 2))).await });
    until("one waits", async || waiting(&observer, schema).await == 1).await;
    given_up.abort();
    until("it does not any more", async || waiting(&observer, schema).await == 0).await;
    holder.batch_execute("ROLLBACK").await.unwrap();
    put(&hasty, &unique("afterwards"), None, record(5, 1)).await;
}

/// Verifies that batches acquire locks in key order, whatever the order of their deltas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_in_other_orders_and_swaps_do_not_wait_in_a_circle() {
    const TASKS: usize = 16;
    const ROUNDS: usize = 12;
    let held = Arc::new(on_shared().await);
    let store = Arc::new(patient(&held.server.url()).connections(TASKS).connect().await.unwrap());
    let keys: Vec<_> = (0..60).map(|_| unique("circle")).collect();
    let merging = |n: usize, store: Arc<PostgresStore>, keys: Vec<Arc<str>>| async move {
        for round in 0..ROUNDS {
            let mut deltas: Vec<_> = keys.iter().map(|key| failures(key, 1)).collect();
            let (by, half) = ((n * 7 + round * 13) % keys.len(), keys.len() / 2);
            deltas.rotate_left(by);
            if n.is_multiple_of(2) {
                deltas[..half].reverse();
            }
            store.merge(&deltas).await.unwrap();
        }
    };
    // The records have the epoch of the counts, so that no counts are dropped.
    let swapping = |n: u128, store: Arc<PostgresStore>, keys: Vec<Arc<str>>| async move {
        for (key, version) in keys.iter().zip(1..) {
            let there = read(&*store, key).await.map(|record| record.version.0);
            store.swap_if(&swap(key, there, record(0, version * 10 + n))).await.unwrap();
        }
    };
    let mut tasks: Vec<_> =
        (0..TASKS).map(|n| tokio::spawn(merging(n, Arc::clone(&store), keys.clone()))).collect();
    tasks.extend((0..4).map(|n| tokio::spawn(swapping(n, Arc::clone(&store), keys.clone()))));
    for task in tasks {
        task.await.unwrap();
    }
    let deltas: Vec<_> = keys.iter().map(|key| failures(key, 0)).collect();
    for merged in store.merge(&deltas).await.unwrap().all().unwrap().value {
        assert_eq!(merged.totals.failures, (TASKS * ROUNDS) as u64);
    }
    let deadlocks = held.server.query("SELECT sum(deadlocks) FROM pg_stat_database").unwrap();
    assert_eq!(deadlocks, "0");
}
