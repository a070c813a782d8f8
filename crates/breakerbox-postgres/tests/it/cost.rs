//! The costs of the store's operations: round trips, WAL, scans, disk space.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use breakerbox::store::{BucketDelta, Delta, ListQuery, Store};
use breakerbox::{CircuitStatus, Nonce};
use breakerbox_testkit::servers::{PostgresOptions, PostgresServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::samples::{failures, read, record, swap, unique};
use crate::server::{alone, on_shared, patient, until};

/// How long the store must be idle before the proxy passes on the server's responses.
const SILENCE: Duration = Duration::from_millis(30);

/// A proxy between the store and the server that counts round trips. It holds back the server's responses until
/// the store sends nothing more, which is the end of one round trip.
struct Between {
    port: u16,
    answers: Arc<AtomicUsize>,
}

impl Between {
    async fn new(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (port, answers) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&answers);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                tokio::spawn(pass(near, far, Arc::clone(&counted)));
            }
        });
        Self { port, answers }
    }

    /// Returns the number of round trips since the previous call.
    fn answers(&self) -> usize {
        self.answers.swap(0, Ordering::SeqCst)
    }
}

async fn pass(mut near: TcpStream, mut far: TcpStream, answers: Arc<AtomicUsize>) -> std::io::Result<()> {
    let (mut sent, mut received, mut held_back) = (vec![0; 1 << 16], vec![0; 1 << 16], Vec::new());
    let mut listens = false;
    loop {
        tokio::select! {
            biased;
            length = near.read(&mut sent) => match length? {
                0 => return Ok(()),
                length => {
                    // On a listening connection, notifications are not responses to a request.
                    listens |= sent[..length].windows(6).any(|words| words == b"LISTEN");
                    far.write_all(&sent[..length]).await?;
                }
            },
            length = far.read(&mut received) => match length? {
                0 => return Ok(()),
                length => held_back.extend_from_slice(&received[..length]),
            },
            () = tokio::time::sleep(SILENCE), if !held_back.is_empty() => {
                answers.fetch_add(usize::from(!listens), Ordering::SeqCst);
                near.write_all(&held_back).await?;
                held_back.clear();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verb_costs_one_round_trip_even_for_a_thousand_circuits() {
    let held = on_shared().await;
    let between = Between::new(held.server.port()).await;
    let url = held.server.url().replace(&held.server.port().to_string(), &between.port.to_string());
    // One connection, and no cleanup.
    let builder = patient(&url).schema("round_trips").connections(1).clean_every(Duration::from_secs(3_600));
    let store = builder.connect().await.unwrap();
    let deltas: Vec<_> = (0..1_000).map(|_| failures(&unique("round trip"), 1)).collect();
    let keys: Vec<_> = deltas.iter().map(|delta| Arc::clone(&delta.key)).collect();
    let by_status = ListQuery { status: Some(CircuitStatus::Open), limit: 1_000, ..ListQuery::default() };
    let mut least = BTreeMap::new();
    // In the first round, statements are prepared; in any round, a busy machine may pause at the wrong moment.
    for round in 1..6_u128 {
        let mut costs = |verb: &'static str| {
            let answers = between.answers();
            least.entry(verb).and_modify(|least: &mut usize| *least = answers.min(*least)).or_insert(answers);
        };
        between.answers();
        store.merge(&deltas).await.unwrap();
        costs("merge");
        store.read(&keys).await.unwrap();
        costs("read");
        store.swap_if(&swap(&keys[0], (round > 1).then(|| round - 1), record(0, round))).await.unwrap();
        costs("swap");
        store.list(&by_status).await.unwrap();
        costs("list of one state");
        store.list(&ListQuery::default()).await.unwrap();
        costs("list");
        store.lead("office", Nonce(1), Duration::from_secs(60)).await.unwrap();
        costs("lead");
        store.merge(&[&deltas[..], &deltas[..1]].concat()).await.unwrap();
        costs("merge with a key twice");
    }
    let twice = least.remove("merge with a key twice");
    assert_eq!(twice, Some(2), "a statement changes a row once");
    assert_eq!(least.len(), 6);
    assert!(least.values().all(|answers| *answers == 1), "{least:?}");
}

/// Verifies that a merge writes almost no WAL, does not wait for the disk, and leaves no dead rows for vacuum.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merges_write_no_log_and_stay_in_their_pages() {
    const MERGES: i64 = 50;
    const CIRCUITS: i64 = 100;
    let server = PostgresServer::start().unwrap();
    let store = patient(&server.url()).clean_every(Duration::from_secs(3_600)).connect().await.unwrap();
    let deltas: Vec<_> = (0..CIRCUITS).map(|_| failures(&unique("hot"), 1)).collect();
    store.merge(&deltas).await.unwrap();
    let log = || server.query("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").unwrap();
    let before: i64 = log().parse().unwrap();
    for _ in 0..MERGES {
        store.merge(&deltas).await.unwrap();
    }
    let written = log().parse::<i64>().unwrap() - before;
    assert!(written < MERGES * 1_000, "{written} bytes of log for {MERGES} merges of {CIRCUITS}");
    // A connection reports its statistics at the latest when it ends.
    drop(store);
    let sql = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'counts'";
    let mut updates = (0, 0);
    until("all updates are told", async || {
        let told = server.query(sql).unwrap();
        let (all, hot) = told.split_once('|').unwrap();
        updates = (all.parse().unwrap(), hot.parse().unwrap());
        updates.0 == MERGES * CIRCUITS
    })
    .await;
    assert!(updates.1 * 100 >= updates.0 * 95, "{} of {} stayed in their pages", updates.1, updates.0);
    let pages: i64 =
        server.query("SELECT pg_relation_size('breakerbox.counts') / 8192").unwrap().parse().unwrap();
    assert!(pages <= CIRCUITS, "{pages} pages for {CIRCUITS} circuits");
}

/// Verifies that each operation uses an index, so that its cost does not depend on the number of circuits, even
/// if its plan was made while the tables were empty and without statistics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_verb_looks_at_all_circuits() {
    let server = PostgresOptions::new().set("autovacuum", "off").start().unwrap();
    // The cleanup examines all rows, but in steps.
    let store =
        patient(&server.url()).connections(1).clean_every(Duration::from_millis(1)).connect().await.unwrap();
    let keys: Vec<Arc<str>> = (1..=1_000).map(|n| format!("many {n}").into()).collect();
    let use_all = async |n: usize| {
        store.read(&keys).await.unwrap();
        store.merge(&keys.iter().map(|key| failures(key, 1)).collect::<Vec<_>>()).await.unwrap();
        for status in [None, Some(CircuitStatus::Open), Some(CircuitStatus::Disabled)] {
            let query = ListQuery { status, prefix: "many 1".to_owned(), ..ListQuery::default() };
            store.list(&query).await.unwrap();
        }
        let there = read(&store, &keys[n]).await.map(|record| record.version.0);
        store.swap_if(&swap(&keys[n], there, record(6, 7))).await.unwrap();
        store.lead("office", Nonce(1), Duration::from_secs(60)).await.unwrap();
    };
    use_all(0).await;
    // Many circuits. Half of their records have expired but are kept by their counts.
    server
        .query(
            "INSERT INTO breakerbox.circuits (key, version, epoch, status, record, expires_at)
                SELECT convert_to('more ' || n, 'UTF8'), version, epoch, status, record,
                    CASE WHEN n % 2 = 0 THEN expires_at ELSE 0 END
                FROM breakerbox.circuits, generate_series(1, 20000) AS n;
            INSERT INTO breakerbox.counts
                SELECT convert_to('more ' || n, 'UTF8'), 6, merged_at, since, 9e18, NULL, NULL, NULL,
                    begins, successes, failures, slow, latency_sum, run
                FROM (SELECT * FROM breakerbox.counts LIMIT 1) AS one, generate_series(1, 20000) AS n",
        )
        .unwrap();
    server.query("SELECT pg_stat_reset()").unwrap();
    for n in 1..4 {
        use_all(n).await;
    }
    drop(store);
    let quiet = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'breakerbox'";
    until("it is gone", async || server.query(quiet).unwrap() == "0").await;
    let sql = "SELECT relname, seq_scan FROM pg_stat_user_tables \
               WHERE relname IN ('circuits', 'counts') AND idx_scan > 1000 ORDER BY 1";
    until("all scans are told", async || server.query(sql).unwrap().lines().count() == 2).await;
    assert_eq!(server.query(sql).unwrap(), "circuits|0\ncounts|0");
}

/// Verifies that buckets that have left the window are dropped, whatever the lengths of the windows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_has_no_more_buckets_than_count() {
    let held = alone("buckets").await;
    let key = unique("buckets");
    let aged = |seconds: u64| BucketDelta {
        age: Duration::from_secs(seconds),
        successes: 1,
        ..BucketDelta::default()
    };
    let told = |window: u64, ages: &[u64]| Delta {
        window: Duration::from_secs(window),
        buckets: ages.iter().copied().map(aged).collect(),
        ..failures(&key, 0)
    };
    let many: Vec<_> = (0..1_000).rev().map(|n| n * 7).collect();
    for (window, ages, most) in
        [(7_200, &many[..], 1_000), (7_200, &many, 11), (60, &[0], 2), (600, &[0], 3), (1, &[0], 4)]
    {
        held.merge(&[told(window, ages)]).await.unwrap();
        let buckets: usize =
            held.server.query("SELECT cardinality(begins) FROM buckets.counts").unwrap().parse().unwrap();
        assert!(buckets <= most, "{buckets} buckets in a window of {window} s");
    }
}
