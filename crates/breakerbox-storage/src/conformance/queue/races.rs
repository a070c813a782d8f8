//! Concurrent tasks: no delivery is lost, and none is leased twice.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::{Claim, Leased, Queue, Settled, Settlement};
use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{Backlog, Filter, LaneId, Priority};
use tokio::task::JoinSet;

use super::rig::{LEASE, Rig, acme, at, attempt, batch, event, retry, with_key};

const TASKS: u64 = 8;
const EVENTS: u64 = 25;

/// Records which task holds which delivery, as the tasks report it.
#[derive(Default)]
struct Witness {
    held: Mutex<HashSet<i64>>,
    delivered: Mutex<HashSet<i64>>,
    handled: AtomicU64,
}

impl Witness {
    /// Handles a leased delivery, and checks that no delivery is leased or delivered twice. Of every five deliveries,
    /// one is handed back, one fails and is retried, and three are delivered.
    async fn handle(&self, queue: &Arc<dyn Queue>, leased: Leased) {
        assert!(self.held.lock().unwrap().insert(leased.id.number()), "held twice");
        tokio::task::yield_now().await;
        let nth = self.handled.fetch_add(1, Ordering::SeqCst);
        self.held.lock().unwrap().remove(&leased.id.number());
        let now = queue.now();
        let settle = |next| Settlement {
            id: leased.id,
            lease: leased.lease,
            attempt: attempt(now),
            next,
            stands_for: None,
        };
        let settled = match nth % 5 {
            0 => queue.hand_back(leased.id, leased.lease).await,
            1 => queue.settle(settle(retry(now))).await,
            _ => {
                let settled = queue.settle(settle(NextStep::Delivered)).await;
                assert!(self.delivered.lock().unwrap().insert(leased.id.number()), "delivered twice");
                settled
            }
        };
        assert_eq!(settled.unwrap(), Settled::Done);
    }
}

pub async fn many_tasks_deliver_each_event_once<R: Rig>() {
    let rig = R::new().await;
    let mut lanes: Vec<LaneId> = Vec::new();
    for name in ["one", "two"] {
        rig.add_tenant(name, Backlog::default()).await;
        lanes.push(rig.add_endpoint(name, Filter::ALL, None).await);
        lanes.push(rig.add_endpoint(name, Filter::ALL, None).await);
    }
    rig.reservations().takes(lanes[0], 40);
    let witness = Arc::new(Witness::default());
    let wanted = TASKS * EVENTS * 2;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (queue, watched) = (rig.queue(), Arc::clone(&witness));
        tasks.spawn(async move {
            for nth in 0..EVENTS {
                let mut batch = batch(vec![at(Priority::ALL[usize::try_from(nth % 4).unwrap()])]);
                batch.tenant = if task % 2 == 0 { "one" } else { "two" }.parse().unwrap();
                for taken in queue.submit(batch).await.unwrap().taken {
                    watched.handle(&queue, taken).await;
                }
            }
        });
        let (queue, witness, lanes) = (rig.queue(), Arc::clone(&witness), lanes.clone());
        tasks.spawn(async move {
            let start = Instant::now();
            while (witness.delivered.lock().unwrap().len() as u64) < wanted {
                assert!(start.elapsed() < Duration::from_secs(60), "it hangs");
                let claim = |lane: &LaneId| {
                    Priority::ALL.map(|priority| Claim::Due { lane: *lane, priority, limit: 3, lease: LEASE })
                };
                let claims = lanes.iter().flat_map(claim).collect();
                for claimed in queue.claim(claims).await.unwrap() {
                    for leased in claimed.deliveries {
                        witness.handle(&queue, leased).await;
                    }
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    assert_eq!(witness.delivered.lock().unwrap().len() as u64, wanted);
    for name in ["one", "two"] {
        let (kept, counted) = rig.backlog(name).await;
        assert_eq!((kept, counted.count), (counted, 0));
    }
    assert!(rig.queue().waiting_lanes(None, 9).await.unwrap().is_empty());
}

pub async fn the_same_key_at_once_is_accepted_once<R: Rig>() {
    let (rig, _) = acme::<R>().await;
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let queue = rig.queue();
        tasks.spawn(async move { queue.submit(with_key(vec![event("a")], "k", 1)).await.unwrap() });
    }
    let mut answers = Vec::new();
    while let Some(answer) = tasks.join_next().await {
        answers.push(answer.unwrap());
    }
    assert_eq!(answers.iter().filter(|answer| !answer.repeated).count(), 1);
    assert!(answers.iter().all(|answer| answer.events == answers[0].events));
    assert_eq!(rig.rows().await[..3], [1, 1, 1]);
}
