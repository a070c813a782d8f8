//! Measures the writer's throughput and CPU time. It is a benchmark, not a test: run it by hand, with `cargo test
//! --release -p breakerbox-storage-sqlite --test it -- --ignored --nocapture --test-threads=1 queue::speed`.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{Backlog, Filter, NewEvent, Priority};
use breakerbox_storage::conformance::queue::rig::{LEASE, Rig, attempt, batch, event};
use breakerbox_storage::{Claim, Queue, Settlement};
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::rig::SqliteRig;

const TASKS: usize = 32;

/// The CPU time of the thread with this name, in nanoseconds. There must be exactly one such thread: with two
/// measurements in one process, each would count the other's work.
fn spent(name: &str) -> u64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten().map(|entry| entry.path());
    let is_named =
        |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
    let named: Vec<_> = tasks.filter(is_named).collect();
    assert_eq!(named.len(), 1, "{name}: run one measurement at a time, with --test-threads=1");
    let stat = fs::read_to_string(named[0].join("schedstat")).unwrap();
    stat.split_whitespace().next().unwrap().parse().unwrap()
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn accepted_and_settled() {
    let (seconds, lanes) = (number("SECONDS_EACH", 5), number("LANES", 10));
    let rig = SqliteRig::new().await;
    rig.add_tenant("acme", Backlog { count: u64::MAX, bytes: u64::MAX }).await;
    for lane in 0..lanes {
        let filter = Filter::any_of([format!("to.{lane}").as_str()]).unwrap();
        let lane = rig.add_endpoint("acme", filter, None).await;
        rig.reservations().takes(lane, u32::MAX);
    }
    let unsettled = Arc::new(Semaphore::new(1_024));
    let settled = Arc::new(AtomicU64::new(0));
    let (writer, copier) = (spent("queue-writer"), spent("queue-checkpoin"));
    let start = Instant::now();
    let end = start + Duration::from_secs(seconds);
    let mut tasks = JoinSet::new();
    for task in 0..TASKS as u64 {
        let (queue, unsettled, settled) = (rig.queue(), Arc::clone(&unsettled), Arc::clone(&settled));
        tasks.spawn(async move {
            let payload = Bytes::from(vec![b'x'; 512]);
            let mut took = Vec::new();
            let mut nth = task;
            while Instant::now() < end {
                nth += 1;
                let kind = format!("to.{}", nth % lanes);
                let began = Instant::now();
                let event = NewEvent { payload: payload.clone(), ..event(&kind) };
                let accepted = queue.submit(batch(vec![event])).await.unwrap();
                took.push(began.elapsed());
                for taken in accepted.taken {
                    let permit = Arc::clone(&unsettled).acquire_owned().await.unwrap();
                    let (queue, settled) = (Arc::clone(&queue), Arc::clone(&settled));
                    tokio::spawn(async move {
                        let attempt = attempt(queue.now());
                        let settle = Settlement {
                            id: taken.id,
                            lease: taken.lease,
                            attempt,
                            next: NextStep::Delivered,
                            stands_for: None,
                        };
                        queue.settle(settle).await.unwrap();
                        settled.fetch_add(1, Ordering::Relaxed);
                        drop(permit);
                    });
                }
            }
            took
        });
    }
    let mut took = Vec::new();
    while let Some(done) = tasks.join_next().await {
        took.extend(done.unwrap());
    }
    drop(unsettled.acquire_many(1_024).await.unwrap());
    let elapsed = start.elapsed();
    let (writer, copier) = (spent("queue-writer") - writer, spent("queue-checkpoin") - copier);
    assert!(u128::from(writer) <= elapsed.as_nanos(), "one thread can't be busier than all the time");
    took.sort();
    let events = took.len() as u64;
    assert_eq!(settled.load(Ordering::Relaxed), events);
    let at = |percent: usize| took[(took.len() - 1) * percent / 100];
    println!(
        "{events} events, {:.0}/s; writer {:.1} us each, checkpoints {:.1} us each; accept p50 {:?} p99 {:?} max {:?}",
        events as f64 / elapsed.as_secs_f64(),
        writer as f64 / 1e3 / events as f64,
        copier as f64 / 1e3 / events as f64,
        at(50),
        at(99),
        at(100),
    );
    for name in ["breakerbox.db", "breakerbox.db-wal"] {
        let bytes = fs::metadata(rig.database.path().with_file_name(name)).map_or(0, |file| file.len());
        println!("{name}: {:.1} MB, {} bytes each", bytes as f64 / 1e6, bytes / events.max(1));
    }
}

/// Drains a backlog with claims of 64 deliveries and settlements.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn drained() {
    let count = number("EVENTS", 50_000);
    let rig = SqliteRig::new().await;
    rig.add_tenant("acme", Backlog { count: u64::MAX, bytes: u64::MAX }).await;
    let lane = rig.add_endpoint("acme", Filter::ALL, None).await;
    let payload = Bytes::from(vec![b'x'; 512]);
    let before = spent("queue-writer");
    for _ in 0..count / 500 {
        let events = vec![NewEvent { payload: payload.clone(), ..event("a") }; 500];
        rig.queue().submit(batch(events)).await.unwrap();
    }
    println!(
        "accepted in batches: writer {:.1} us each",
        (spent("queue-writer") - before) as f64 / 1e3 / count as f64
    );
    let before = spent("queue-writer");
    let start = Instant::now();
    let mut done = 0;
    while done < count {
        let claim = Claim::Due { lane, priority: Priority::Medium, limit: 64, lease: LEASE };
        let claimed = rig.queue().claim(vec![claim; 4]).await.unwrap();
        let mut settles = JoinSet::new();
        for leased in claimed.into_iter().flat_map(|claimed| claimed.deliveries) {
            let queue: Arc<dyn Queue> = rig.queue();
            done += 1;
            settles.spawn(async move {
                let attempt = attempt(queue.now());
                let next = NextStep::Delivered;
                queue
                    .settle(Settlement {
                        id: leased.id,
                        lease: leased.lease,
                        attempt,
                        next,
                        stands_for: None,
                    })
                    .await
                    .unwrap();
            });
        }
        while settles.join_next().await.is_some() {}
    }
    let (spent, elapsed) = (spent("queue-writer") - before, start.elapsed());
    assert!(u128::from(spent) <= elapsed.as_nanos(), "one thread can't be busier than all the time");
    println!(
        "claimed and settled: {:.0}/s; writer {:.1} us each",
        count as f64 / elapsed.as_secs_f64(),
        spent as f64 / 1e3 / count as f64
    );
}
