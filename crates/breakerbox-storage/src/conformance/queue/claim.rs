//! Claiming: due deliveries are leased in order, each once; and the choice of the delivery for a probe.

use crate::{Claim, Leased};
use breakerbox_core::Epoch;
use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{DeliveryState, FailReason, LaneId, NewEvent, Priority};

use super::rig::{LEASE, Rig, Verbs, acme, at, event, retry, seconds};

const OUTAGE: Epoch = Epoch(77);

fn probing(lane: LaneId) -> Claim {
    Claim::Probe { lane, outage: OUTAGE, lease: LEASE }
}

async fn probe<R: Rig>(rig: &R, lane: LaneId) -> Leased {
    let mut claimed = rig.claim_one(probing(lane)).await;
    assert_eq!(claimed.deliveries.len(), 1);
    claimed.deliveries.remove(0)
}

pub async fn what_is_due_is_claimed_once_the_longest_due_first<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(rig.waiting(lane, event("a")).await);
        rig.pass(seconds(1));
    }
    let first = rig.due(lane, Priority::Medium, 2).await;
    let rest = rig.due(lane, Priority::Medium, 9).await;
    let claimed: Vec<_> = first.iter().chain(&rest).map(|leased| leased.id).collect();
    assert_eq!((first.len(), claimed), (2, ids));
    assert!(rig.due(lane, Priority::Medium, 9).await.is_empty());
    // A delivery that is due again is ordered by its new due time.
    rig.settle(&first[0], retry(rig.now() + seconds(5))).await;
    rig.settle(&first[1], retry(rig.now() + seconds(3))).await;
    rig.pass(seconds(10));
    let again: Vec<_> = rig.due(lane, Priority::Medium, 9).await.iter().map(|leased| leased.id).collect();
    assert_eq!(again, [first[1].id, first[0].id]);
}

pub async fn priorities_are_claimed_apart<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    for priority in Priority::ALL {
        rig.waiting(lane, at(priority)).await;
    }
    for priority in Priority::ALL.into_iter().rev() {
        let leased = rig.due(lane, priority, 9).await;
        assert_eq!(leased.iter().map(|leased| leased.priority).collect::<Vec<_>>(), [priority]);
    }
}

pub async fn a_claim_says_when_the_rest_is_due<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let later = rig.now() + seconds(30);
    rig.waiting(lane, at(Priority::High)).await;
    rig.waiting(lane, NewEvent { not_before: Some(later), ..at(Priority::High) }).await;
    rig.waiting(lane, at(Priority::Low)).await;
    let due = Claim::Due { lane, priority: Priority::High, limit: 9, lease: LEASE };
    let claimed = rig.claim_one(due).await;
    assert_eq!(claimed.deliveries.len(), 1);
    assert_eq!(claimed.next_due, [Some(later), None, None, Some(rig.now())]);
    let nowhere = Claim::Due {
        lane: LaneId(breakerbox_model::objects::Id::from_number(5).unwrap()),
        priority: Priority::Low,
        limit: 9,
        lease: LEASE,
    };
    let two = rig.queue().claim(vec![nowhere, due]).await.unwrap();
    assert_eq!((two.len(), two[0].next_due, two[1].next_due[0]), (2, [None; 4], Some(later)));
}

pub async fn a_probe_prefers_what_is_due_and_has_not_failed_one<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let first = rig.waiting(lane, event("a")).await;
    rig.pass(seconds(1));
    let second = rig.waiting(lane, event("a")).await;
    let probed = probe(&rig, lane).await;
    assert_eq!((probed.id, probed.pulled_from), (first, None));
    let failed =
        NextStep::Retry { due_at: rig.now() + seconds(5), uses_attempt: true, failed_probe: Some(OUTAGE) };
    rig.settle(&probed, failed).await;
    rig.pass(seconds(10));
    // This delivery has been due for longer than all later ones, but it has failed a probe.
    let third = rig.waiting(lane, event("a")).await;
    assert_eq!(probe(&rig, lane).await.id, second);
    assert_eq!(probe(&rig, lane).await.id, third);
    let last = probe(&rig, lane).await;
    assert_eq!((last.id, last.pulled_from), (first, None), "else nothing could be found out");
    rig.queue().hand_back(last.id, last.lease).await.unwrap();
    let fourth = rig.waiting(lane, event("a")).await;
    let other = Claim::Probe { lane, outage: Epoch(78), lease: LEASE };
    assert_eq!(rig.claim_one(other).await.deliveries[0].id, first, "another outage, another chance");
    assert_eq!(probe(&rig, lane).await.id, fourth);
    assert!(rig.claim_one(probing(lane)).await.deliveries.is_empty());
}

pub async fn a_probe_takes_the_highest_priority_first<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    for priority in [Priority::Low, Priority::High, Priority::Medium] {
        rig.waiting(lane, at(priority)).await;
        rig.pass(seconds(1));
    }
    for priority in [Priority::High, Priority::Medium, Priority::Low] {
        assert_eq!(probe(&rig, lane).await.priority, priority);
    }
}

pub async fn a_probe_pulls_forward_what_backs_off<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let leased = rig.leased(lane).await;
    let other = {
        rig.submit(vec![at(Priority::High)]).await;
        rig.due(lane, Priority::High, 1).await.remove(0)
    };
    let (sooner, later) = (rig.now() + seconds(100), rig.now() + seconds(200));
    rig.settle(&leased, retry(sooner)).await;
    rig.settle(&other, retry(later)).await;
    let pulled = probe(&rig, lane).await;
    assert_eq!(
        (pulled.id, pulled.pulled_from),
        (leased.id, Some(sooner)),
        "the soonest, whatever its priority"
    );
    assert_eq!(pulled.attempts, 1);
    // A delivery that is handed back keeps its old due time.
    rig.queue().hand_back(pulled.id, pulled.lease).await.unwrap();
    assert_eq!(rig.stored_delivery(pulled.id).await.unwrap().due_at, sooner);
    let pulled = probe(&rig, lane).await;
    let failed = NextStep::Retry { due_at: sooner, uses_attempt: false, failed_probe: Some(OUTAGE) };
    rig.settle(&pulled, failed).await;
    let seen = rig.stored_delivery(pulled.id).await.unwrap();
    assert_eq!((seen.attempts, seen.requests, seen.due_at), (1, 2, sooner), "no attempt is used up");
}

pub async fn a_poison_payload_does_not_keep_a_lane_shut<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let poison = rig.leased(lane).await;
    let good = rig.leased(lane).await;
    // The poison delivery is due long before the good one, and both are backing off.
    rig.settle(&poison, retry(rig.now() + seconds(1_000))).await;
    rig.settle(&good, retry(rig.now() + seconds(9_000))).await;
    let first = probe(&rig, lane).await;
    assert_eq!(first.id, poison.id);
    let failed = NextStep::Retry {
        due_at: first.pulled_from.unwrap(),
        uses_attempt: false,
        failed_probe: Some(OUTAGE),
    };
    rig.settle(&first, failed).await;
    assert_eq!(probe(&rig, lane).await.id, good.id, "another one has its chance");
    assert!(rig.claim_one(probing(lane)).await.deliveries.is_empty(), "it had its chance in this wait");
    rig.pass(seconds(1_000));
    let again = probe(&rig, lane).await;
    assert_eq!((again.id, again.pulled_from), (poison.id, None), "it is due, and there is no other");
}

/// Fails a probe with a delivery: at its old time if it was pulled forward, otherwise with a new wait.
async fn fail<R: Rig>(rig: &R, probe: &Leased, wait: u64) {
    let due_at = probe.pulled_from.unwrap_or(rig.now() + seconds(wait));
    let uses_attempt = probe.pulled_from.is_none();
    rig.settle(probe, NextStep::Retry { due_at, uses_attempt, failed_probe: Some(OUTAGE) }).await;
}

pub async fn a_delivery_is_pulled_forward_once_in_each_wait<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let leased = rig.leased(lane).await;
    rig.settle(&leased, retry(rig.now() + seconds(100))).await;
    for wait in [200, 300] {
        let pulled = probe(&rig, lane).await;
        assert!(pulled.pulled_from.is_some());
        // A probe that was not sent does not count.
        rig.queue().hand_back(pulled.id, pulled.lease).await.unwrap();
        let pulled = probe(&rig, lane).await;
        fail(&rig, &pulled, 0).await;
        assert!(rig.claim_one(probing(lane)).await.deliveries.is_empty());
        let other = Claim::Probe { lane, outage: Epoch(78), lease: LEASE };
        assert!(rig.claim_one(other).await.deliveries.is_empty(), "nor in another outage");
        rig.pass(seconds(wait));
        let due = probe(&rig, lane).await;
        assert_eq!(due.pulled_from, None, "it is due");
        fail(&rig, &due, wait + 100).await;
    }
    let seen = rig.stored_delivery(leased.id).await.unwrap();
    assert_eq!((seen.attempts, seen.requests), (3, 5), "one more request in each wait");
}

pub async fn what_was_pulled_forward_is_known_after_a_crash<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let (settled, in_flight) = (rig.leased(lane).await, rig.leased(lane).await);
    rig.settle(&settled, retry(rig.now() + seconds(100))).await;
    let pulled = probe(&rig, lane).await;
    fail(&rig, &pulled, 0).await;
    rig.settle(&in_flight, retry(rig.now() + seconds(200))).await;
    assert_eq!(probe(&rig, lane).await.id, in_flight.id);
    let rig = rig.crash().await;
    assert!(rig.claim_one(probing(lane)).await.deliveries.is_empty(), "both may have been sent");
    rig.pass(seconds(100));
    assert_eq!(probe(&rig, lane).await.id, settled.id);
}

pub async fn nothing_is_pulled_before_its_time<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let not_before = Some(rig.now() + seconds(30));
    let id = rig.waiting(lane, NewEvent { not_before, ..event("a") }).await;
    assert!(rig.claim_one(probing(lane)).await.deliveries.is_empty());
    rig.pass(seconds(30));
    assert_eq!(probe(&rig, lane).await.id, id);
}

pub async fn what_has_expired_is_never_leased<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let expires_at = Some(rig.now() + seconds(10));
    let mut expired = Vec::new();
    for _ in 0..5 {
        expired.push(rig.waiting(lane, NewEvent { expires_at, ..event("a") }).await);
    }
    let good = rig.waiting(lane, event("a")).await;
    rig.pass(seconds(10));
    let leased = rig.due(lane, Priority::Medium, 2).await;
    assert_eq!(leased.iter().map(|leased| leased.id).collect::<Vec<_>>(), [good]);
    let late = rig.waiting(lane, NewEvent { expires_at, ..event("a") }).await;
    assert!(rig.claim_one(probing(lane)).await.deliveries.is_empty());
    for id in expired.into_iter().chain([late]) {
        assert_eq!(rig.state(id).await, DeliveryState::Failed(FailReason::Expired));
    }
    let (kept, counted) = rig.backlog("acme").await;
    assert_eq!((kept, counted.count), (counted, 1));
}
