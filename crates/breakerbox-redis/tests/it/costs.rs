//! Costs: commands, the server's CPU time, and memory. These tests print the figures in
//! `docs/operating/redis.md` (`cargo test -p breakerbox-redis costs -- --nocapture`), and fail if they grow.

use std::collections::HashSet;
use std::time::Duration;

use breakerbox::CircuitStatus;
use breakerbox::store::{BucketDelta, Cursor, Delta, ListQuery, RunDelta, Store, Swapped};
use breakerbox_testkit::servers::RedisServer;

use crate::server::{delta, on_cluster, on_one, put, record, swap};

const CIRCUITS: u64 = 2_000;

/// Returns how often a command was called since the previous call of this function, and how long the server was
/// busy with it, in microseconds.
fn since_last_look(server: &RedisServer, command: &str) -> (u64, u64) {
    let stats: String = server.query(&["INFO", "commandstats"]).unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")));
    server.query::<()>(&["CONFIG", "RESETSTAT"]).unwrap();
    let number = |name: &str| {
        let found = line?.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        found?.parse().ok()
    };
    (number("calls").unwrap_or(0), number("usec").unwrap_or(0))
}

fn used_memory(server: &RedisServer) -> u64 {
    server.info("memory", "used_memory").unwrap().unwrap().parse().unwrap()
}

/// Returns a delta for an endpoint under constant load, which has counts in every bucket of a minute.
fn full_window(key: &str, failing: bool) -> Delta {
    let bucket = |n: u64| BucketDelta {
        age: Duration::from_secs(54 - 6 * n),
        successes: 1_234,
        failures: if failing { 321 } else { 0 },
        slow: if failing { 12 } else { 0 },
        latency_sum: Duration::from_millis(123_456),
    };
    let second = Duration::from_secs(1);
    let run = failing.then_some(RunDelta { count: 30, began: 54 * second, last: second });
    Delta { buckets: (0..10).map(bucket).collect(), run, last_success: None, ..delta(key) }
}

fn name(n: u64) -> String {
    format!("tenant-{} https://hooks.customer-{n}.example/webhooks/in", n % 100)
}

#[tokio::test]
async fn a_thousand_merges_are_one_pipeline_of_few_calls() {
    let held = on_one().await;
    let deltas: Vec<_> = (0..1_000).map(|n| full_window(&name(n), n % 2 == 0)).collect();
    held.store.merge(&deltas).await.unwrap();
    since_last_look(&held.server, "evalsha");
    held.store.merge(&deltas).await.unwrap();
    let (calls, micros) = since_last_look(&held.server, "evalsha");
    println!("1,000 circuits of ten buckets merged: {calls} script calls, {micros} us of the server's time");
    assert_eq!(calls, 32);
    let one: Vec<_> = (0..1_000).map(|n| delta(&name(n))).collect();
    held.store.merge(&one).await.unwrap();
    let (_, micros) = since_last_look(&held.server, "evalsha");
    println!("1,000 circuits of one bucket merged: {micros} us of the server's time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_there_is_a_call_for_each_bucket() {
    let held = on_cluster().await;
    let deltas: Vec<_> = (0..1_000).map(|n| delta(&format!("costs {}", name(n)))).collect();
    held.store.merge(&deltas).await.unwrap();
    // Other tests use the cluster as well, so count only the windows of this test.
    let of_node = |node: &RedisServer| node.query::<Vec<String>>(&["KEYS", "*window:costs*"]).unwrap();
    let keys: Vec<_> = held.server.nodes().iter().flat_map(of_node).collect();
    let buckets: HashSet<_> = keys.iter().filter_map(|key| key.split(['{', '}']).nth(1)).collect();
    let count = buckets.len();
    println!("1,000 circuits merged in a cluster: {count} script calls, in one pipeline to each of 3 nodes");
    assert!((600..=800).contains(&count), "{count}");
}

#[tokio::test]
async fn memory_for_each_circuit() {
    let held = on_one().await;
    let measure = |what: &str, before: u64| {
        let bytes = (used_memory(&held.server) - before) / CIRCUITS;
        println!("{what}: {bytes} bytes each");
        bytes
    };
    held.store.merge(&[delta("warm")]).await.unwrap();
    put(&held.store, "warm", record(1)).await;

    let empty = used_memory(&held.server);
    for failing in [false, true] {
        let deltas: Vec<_> =
            (0..CIRCUITS).map(|n| full_window(&format!("{failing} {}", name(n)), failing)).collect();
        let before = used_memory(&held.server);
        for part in deltas.chunks(1_000) {
            held.store.merge(part).await.unwrap();
        }
        let what =
            if failing { "some failures in every bucket, no record" } else { "successes only, no record" };
        let bytes = measure(what, before);
        assert!(bytes < if failing { 2_000 } else { 1_000 });
    }
    let before = used_memory(&held.server);
    for n in 0..CIRCUITS {
        let answer = held.store.swap_if(&swap(&name(n), None, record(1))).await.unwrap();
        assert_eq!(answer.value, Swapped::Won);
    }
    assert!(measure("open, with its place in the index", before) < 1_500);
    assert!(used_memory(&held.server) > empty);
}

#[tokio::test]
async fn a_page_costs_the_same_however_many_circuits_there_are() {
    let held = on_one().await;
    let page = async |limit, after: Option<Cursor>, status| {
        let query = ListQuery { limit, after, status, ..ListQuery::default() };
        since_last_look(&held.server, "zrange");
        let page = held.store.list(&query).await.unwrap();
        let stats: String = held.server.query(&["INFO", "commandstats"]).unwrap();
        let calls = |command: &str| -> u64 {
            let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
            line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
        };
        let (_, micros) = since_last_look(&held.server, "zrange");
        (page, calls("zrange"), calls("evalsha") + calls("eval"), micros)
    };
    let (found, ranges, scripts, micros) = page(100, None, None).await;
    println!("a page of an empty store: {ranges} ZRANGE, {scripts} scripts, {micros} us for the ranges");
    assert_eq!((found.circuits.len(), found.next, ranges, scripts), (0, None, 1_024, 0));

    for n in 0..CIRCUITS {
        held.store.swap_if(&swap(&name(n), None, record(1))).await.unwrap();
    }
    let mut after = None;
    let mut seen = 0;
    for _ in 0..5 {
        let (found, ranges, scripts, micros) = page(100, after, Some(CircuitStatus::Open)).await;
        println!(
            "a page of 100 of {CIRCUITS}: {ranges} ZRANGE, {scripts} scripts, {micros} us for the ranges"
        );
        assert!(ranges <= 84 && scripts <= 4, "{ranges} {scripts}");
        seen += found.circuits.len();
        after = found.next;
        assert!(after.is_some());
    }
    assert_eq!(seen, 500);
    let (found, ranges, scripts, _) = page(usize::MAX, None, None).await;
    assert_eq!(found.circuits.len(), 1_000, "no page is longer");
    assert!(ranges <= 1_024 && scripts <= 16, "{ranges} {scripts}");
}
