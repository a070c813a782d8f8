//! Settling and handing back with current and outdated leases.

use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{DeliveryState, FailReason, Priority};

use crate::Settled;

use super::rig::{LEASE, Rig, Verbs, acme, event, retry, seconds};

pub async fn every_end_is_kept<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    for (next, state) in [
        (NextStep::Delivered, DeliveryState::Delivered),
        (NextStep::Failed(FailReason::Rejected), DeliveryState::Failed(FailReason::Rejected)),
        (NextStep::Failed(FailReason::Exhausted), DeliveryState::Failed(FailReason::Exhausted)),
        (NextStep::Failed(FailReason::Gone), DeliveryState::Failed(FailReason::Gone)),
    ] {
        let leased = rig.leased(lane).await;
        assert_eq!(rig.settle(&leased, next).await, Settled::Done);
        let seen = rig.stored_delivery(leased.id).await.unwrap();
        assert_eq!((seen.state, seen.attempts, seen.requests), (state, 1, 1), "{next:?}");
        let (kept, counted) = rig.backlog("acme").await;
        assert_eq!((kept, counted.count), (counted, 0), "{next:?}");
    }
    assert_eq!(rig.rows().await[3], 4, "each attempt is kept");
    assert!(rig.queue().waiting_lanes(None, 9).await.unwrap().is_empty());
}

pub async fn a_retry_waits_until_it_is_due<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let leased = rig.leased(lane).await;
    assert_eq!(rig.settle(&leased, retry(rig.now() + seconds(5))).await, Settled::Done);
    assert_eq!(rig.state(leased.id).await, DeliveryState::Retrying);
    assert!(rig.due(lane, Priority::Medium, 1).await.is_empty());
    rig.pass(seconds(5));
    let again = rig.due(lane, Priority::Medium, 1).await.remove(0);
    assert_eq!((again.id, again.event, again.attempts), (leased.id, leased.event, 1));
    assert_ne!(again.lease, leased.lease);
    let uncounted = NextStep::Retry { due_at: rig.now(), uses_attempt: false, failed_probe: None };
    rig.settle(&again, uncounted).await;
    let third = rig.due(lane, Priority::Medium, 1).await.remove(0);
    assert_eq!(third.attempts, 1);
    rig.settle(&third, NextStep::Delivered).await;
    let seen = rig.stored_delivery(leased.id).await.unwrap();
    assert_eq!((seen.attempts, seen.requests), (2, 3));
    assert_eq!(rig.rows().await[3], 3);
}

pub async fn only_the_current_lease_settles<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let first = rig.leased(lane).await;
    rig.pass(LEASE);
    assert_eq!(rig.queue().reclaim(9).await.unwrap().done, 1);
    assert_eq!(rig.settle(&first, NextStep::Delivered).await, Settled::Fenced, "nobody holds it");
    let second = rig.due(lane, Priority::Medium, 1).await.remove(0);
    assert_eq!(rig.settle(&first, NextStep::Failed(FailReason::Gone)).await, Settled::Fenced);
    assert_eq!(rig.queue().hand_back(first.id, first.lease).await.unwrap(), Settled::Fenced);
    assert_eq!(rig.state(first.id).await, DeliveryState::InFlight);
    assert_eq!(rig.settle(&second, NextStep::Delivered).await, Settled::Done);
    assert_eq!(rig.settle(&second, NextStep::Failed(FailReason::Gone)).await, Settled::Fenced, "once");
    assert_eq!(rig.state(first.id).await, DeliveryState::Delivered);
    assert_eq!(rig.rows().await[3], 1, "what is fenced is not kept");
}

pub async fn leases_of_an_earlier_start_are_void<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let old = rig.leased(lane).await;
    rig.reservations().takes(lane, 1);
    let taken = rig.submit(vec![event("a")]).await.taken.remove(0);
    let rig = rig.crash().await;
    assert_eq!(rig.state(old.id).await, DeliveryState::Pending);
    assert_eq!(rig.settle(&old, NextStep::Delivered).await, Settled::Fenced);
    let again = rig.due(lane, Priority::Medium, 9).await;
    assert_eq!(again.len(), 2, "at once: nobody waits for the lease to end");
    for (leased, old) in again.iter().zip([&old, &taken]) {
        assert_eq!(leased.id, old.id);
        assert_eq!(rig.settle(old, NextStep::Delivered).await, Settled::Fenced, "numbers never come again");
    }
}

pub async fn what_is_handed_back_waits_at_its_old_place<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let first = rig.waiting(lane, event("a")).await;
    rig.pass(seconds(1));
    let second = rig.waiting(lane, event("a")).await;
    let leased = rig.due(lane, Priority::Medium, 1).await.remove(0);
    assert_eq!(rig.queue().hand_back(leased.id, leased.lease).await.unwrap(), Settled::Done);
    let seen = rig.stored_delivery(first).await.unwrap();
    assert_eq!((seen.state, seen.requests), (DeliveryState::Pending, 0));
    let ids: Vec<_> = rig.due(lane, Priority::Medium, 9).await.iter().map(|leased| leased.id).collect();
    assert_eq!(ids, [first, second]);
}
