//! Several processes on one queue.

use std::collections::HashSet;
use std::time::Duration;

use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{DeliveryState, Priority};
use breakerbox_storage::Settled;
use breakerbox_storage::conformance::queue::rig::{LEASE, Rig, Verbs, acme, event, with_key};
use tokio::task::JoinSet;

use super::PostgresRig;

#[tokio::test]
async fn processes_that_claim_at_once_share_what_waits() {
    let (one, lane) = acme::<PostgresRig>().await;
    one.submit(vec![event("a"); 200]).await;
    let mut claiming = JoinSet::new();
    for nth in 0..4 {
        let process = one.another(&format!("process {nth}")).await;
        claiming.spawn(async move {
            let mut found = Vec::new();
            loop {
                let leased = process.due(lane, Priority::Medium, 7).await;
                if leased.is_empty() {
                    return found;
                }
                for leased in &leased {
                    assert_eq!(process.settle(leased, NextStep::Delivered).await, Settled::Done);
                }
                found.extend(leased.into_iter().map(|leased| (leased.id, leased.lease)));
            }
        });
    }
    let found: Vec<_> = claiming.join_all().await.into_iter().flatten().collect();
    let ids: HashSet<_> = found.iter().map(|(id, _)| *id).collect();
    let leases: HashSet<_> = found.iter().map(|(_, lease)| *lease).collect();
    // A claim may find nothing while another process holds the last rows; nothing is claimed twice.
    assert_eq!((ids.len(), leases.len()), (found.len(), found.len()));
    let rest = one.due(lane, Priority::Medium, 200).await;
    assert_eq!(found.len() + rest.len(), 200);
}

#[tokio::test]
async fn the_same_key_at_two_processes_is_accepted_once() {
    let (one, _) = acme::<PostgresRig>().await;
    let two = one.another("two").await;
    let mut accepting = JoinSet::new();
    for nth in 0..20 {
        let queue = if nth % 2 == 0 { one.queue() } else { two.queue() };
        accepting.spawn(async move { queue.submit(with_key(vec![event("a")], "k", 1)).await.unwrap() });
    }
    let answers = accepting.join_all().await;
    assert_eq!(answers.iter().filter(|answer| !answer.repeated).count(), 1);
    assert!(answers.iter().all(|answer| answer.events == answers[0].events));
    assert_eq!(one.rows().await[..3], [1, 1, 1]);
}

#[tokio::test]
async fn a_start_voids_the_leases_of_its_own_name_alone() {
    let (one, lane) = acme::<PostgresRig>().await;
    let two = one.another("two").await;
    let (of_one, of_two) = (one.leased(lane).await, two.leased(lane).await);
    let one = one.crash().await;
    assert_eq!(one.state(of_one.id).await, DeliveryState::Pending);
    assert_eq!(one.state(of_two.id).await, DeliveryState::InFlight, "another process still sends it");
    assert_eq!(two.settle(&of_two, NextStep::Delivered).await, Settled::Done);
}

#[tokio::test]
async fn the_work_of_a_process_that_died_is_reclaimed_by_others() {
    let (one, lane) = acme::<PostgresRig>().await;
    let two = one.another("two").await;
    let leased = one.leased(lane).await;
    assert_eq!(two.queue().reclaim(9).await.unwrap().done, 0, "its lease is current");
    two.pass(LEASE);
    let batch = two.queue().reclaim(9).await.unwrap();
    assert_eq!(batch.woken.iter().map(|woken| woken.lane).collect::<Vec<_>>(), [lane]);
    let again = two.due(lane, Priority::Medium, 9).await;
    assert_eq!(again.iter().map(|leased| leased.id).collect::<Vec<_>>(), [leased.id]);
    assert_eq!(one.settle(&leased, NextStep::Delivered).await, Settled::Fenced, "it comes too late");
    assert_eq!(two.settle(&again[0], NextStep::Delivered).await, Settled::Done);
}

#[tokio::test]
async fn a_process_hears_of_what_another_one_accepts() {
    let (one, lane) = acme::<PostgresRig>().await;
    let two = one.another("two").await;
    let queue = two.queue();
    let hearing = tokio::spawn(async move {
        loop {
            let woken = queue.woken_by_others().await;
            if let Some(woken) = woken.into_iter().find(|woken| woken.lane == lane) {
                return woken;
            }
        }
    });
    // The second process may not listen yet. Then it hears of the first event when it begins to.
    one.submit(vec![event("a")]).await;
    let woken = tokio::time::timeout(Duration::from_secs(60), hearing).await.unwrap().unwrap();
    assert_eq!(woken.next_due[Priority::Medium.index()], Some(one.now()));
    let leased = two.due(lane, Priority::Medium, 9).await;
    assert_eq!(two.settle(&leased[0], NextStep::Delivered).await, Settled::Done);
    let queue = two.queue();
    let hearing = tokio::spawn(async move { queue.woken_by_others().await });
    one.submit(vec![event("a")]).await;
    let woken = tokio::time::timeout(Duration::from_secs(60), hearing).await.unwrap().unwrap();
    assert_eq!(woken.iter().map(|woken| woken.lane).collect::<Vec<_>>(), [lane], "without a gap");
}
