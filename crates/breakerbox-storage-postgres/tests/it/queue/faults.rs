//! The server is killed, answers are lost: nothing that was accepted is lost, and nothing is reported as accepted that may not be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{Backlog, DeliveryState, EventId, Filter, Priority};
use breakerbox_storage::conformance::queue::rig::{Rig, Verbs, attempt, batch, event, with_key};
use breakerbox_storage::{Claim, QueueError, Settled, Settlement, SubmitError};
use breakerbox_testkit::proxy::Proxy;
use breakerbox_testkit::servers::{PostgresOptions, PostgresServer};
use tokio::task::JoinSet;

use super::PostgresRig;

/// The maximum time that a test waits for something, so that none hangs forever.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + WAIT_LIMIT;
    while !holds().await {
        assert!(Instant::now() < limit, "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_is_not_reported_as_accepted() {
    let server = PostgresServer::start().unwrap();
    let proxy = Proxy::before_port(server.port()).await.unwrap();
    let url = server.url().replace(&server.port().to_string(), &proxy.port().to_string());
    let rig = PostgresRig::at(url).await;
    rig.add_tenant("acme", Backlog::default()).await;
    let lane = rig.add_endpoint("acme", Filter::ALL, None).await;
    rig.reservations().takes(lane, 1);
    // Not the beginning, which says that the transaction is to read what is committed.
    proxy.lose_answer_to(*b"COMMIT\0");
    let lost = rig.queue().submit(with_key(vec![event("a")], "k", 1)).await;
    assert!(matches!(lost, Err(SubmitError::Queue(QueueError::Database(_) | QueueError::Busy))), "{lost:?}");
    assert_eq!(proxy.lost_answers(), 1);
    assert_eq!(rig.reservations().lost.load(Ordering::SeqCst), 1, "nobody sends it");
    // The client tries again, with its key. Whatever became of the first request, the event is there once.
    let again = rig.queue().submit(with_key(vec![event("a")], "k", 1)).await.unwrap();
    assert_eq!((again.events.len(), rig.rows().await[..3].to_vec()), (1, vec![1, 1, 1]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_the_server_loses_nothing_that_was_accepted() {
    let mut server = PostgresOptions::new().durable().start().unwrap();
    let rig = PostgresRig::at(server.url()).await;
    rig.add_tenant("acme", Backlog::default()).await;
    rig.add_endpoint("acme", Filter::ALL, None).await;
    let ends = Arc::new(AtomicBool::new(false));
    let mut accepting = JoinSet::new();
    for _ in 0..4 {
        let (queue, ends) = (rig.queue(), Arc::clone(&ends));
        accepting.spawn(async move {
            let mut accepted = Vec::new();
            while !ends.load(Ordering::SeqCst) {
                match queue.submit(batch(vec![event("a")])).await {
                    Ok(submitted) => accepted.push(submitted.events[0].id),
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
            accepted
        });
    }
    for _ in 0..2 {
        let before = server.query("SELECT count(*) FROM pg_stat_activity").unwrap();
        assert!(!before.is_empty());
        let rows = rig.rows().await[0];
        until("events are accepted", async || rig.rows().await[0] > rows + 20).await;
        server.kill().unwrap();
        server.restart().unwrap();
        until("it accepts again", async || rig.queue().submit(batch(vec![event("a")])).await.is_ok()).await;
    }
    ends.store(true, Ordering::SeqCst);
    let accepted: Vec<i64> = accepting.join_all().await.into_iter().flatten().map(EventId::number).collect();
    let sql = "SELECT count(*) FROM unnest($1) AS a (id) JOIN events e ON e.id = a.id JOIN deliveries d ON d.event = e.id";
    let found: i64 = rig.database.read(sql, &[&accepted]).await.unwrap()[0].get(0);
    assert!(accepted.len() > 40);
    assert_eq!(found.unsigned_abs(), accepted.len() as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_end_by_the_clock_of_the_server() {
    let server = PostgresServer::start().unwrap();
    let rig = PostgresRig::at(server.url()).await;
    rig.add_tenant("acme", Backlog::default()).await;
    let lane = rig.add_endpoint("acme", Filter::ALL, None).await;
    rig.queue().submit(batch(vec![event("a")])).await.unwrap();
    let lease = Duration::from_millis(200);
    let claim = Claim::Due { lane, priority: Priority::Medium, limit: 9, lease };
    let first = rig.claim_one(claim).await.deliveries.remove(0);
    until("the lease ends", async || rig.queue().reclaim(9).await.unwrap().done == 1).await;
    let second = rig.claim_one(claim).await.deliveries.remove(0);
    assert_eq!(second.id, first.id);
    let settle = |leased: &breakerbox_storage::Leased| Settlement {
        id: leased.id,
        lease: leased.lease,
        attempt: attempt(rig.queue().now()),
        next: NextStep::Delivered,
        stands_for: None,
    };
    assert_eq!(rig.queue().settle(settle(&first)).await.unwrap(), Settled::Fenced);
    assert_eq!(rig.queue().settle(settle(&second)).await.unwrap(), Settled::Done);
    assert_eq!(rig.state(second.id).await, DeliveryState::Delivered);
}
