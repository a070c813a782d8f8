//! Maintenance: reclaiming, expiring, pruning, closed lanes, and listing the lanes with waiting deliveries.

use breakerbox_core::Epoch;
use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{DeliveryState, FailReason, Filter, LaneId, NewEvent, Priority};

use crate::{Claim, ProbeSupply, Retention, Settled};

use super::rig::{LEASE, Rig, Verbs, acme, at, event, retry, seconds, tenant, to_url, with_key};

const DAY: u64 = 86_400;

pub async fn a_lease_that_ended_is_reclaimed_and_its_lane_told<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let other = rig.add_endpoint("acme", Filter::any_of(["b"]).unwrap(), None).await;
    let leased = rig.leased(lane).await;
    rig.pass(seconds(1));
    rig.submit(vec![event("b")]).await;
    let still = rig.due(other, Priority::Medium, 1).await.remove(0);
    rig.pass(LEASE - seconds(1));
    let batch = rig.queue().reclaim(9).await.unwrap();
    assert_eq!((batch.done, batch.more), (1, false));
    assert_eq!(batch.woken.iter().map(|woken| woken.lane).collect::<Vec<_>>(), [lane]);
    assert_eq!(batch.woken[0].tenant, tenant("acme"));
    assert!(batch.woken[0].next_due[Priority::Medium.index()].is_some_and(|due| due <= rig.now()));
    assert_eq!(rig.stored_delivery(leased.id).await.unwrap().attempts, 0, "no attempt is used up");
    assert_eq!(rig.settle(&still, NextStep::Delivered).await, Settled::Done);
    assert_eq!(rig.queue().reclaim(9).await.unwrap().done, 0);
}

pub async fn what_waits_too_long_is_given_up<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let hasty = rig.add_endpoint("acme", Filter::any_of(["b"]).unwrap(), Some(seconds(30))).await;
    rig.submit(vec![event("b")]).await;
    let in_flight = {
        rig.submit(vec![event("b")]).await;
        rig.due(hasty, Priority::Medium, 1).await.remove(0)
    };
    let own = NewEvent { expires_at: Some(rig.now() + seconds(10)), ..event("a") };
    let own = rig.waiting(lane, own).await;
    let later = NewEvent { not_before: Some(rig.now() + seconds(20)), ..event("b") };
    rig.waiting(hasty, later).await;
    assert_eq!(rig.queue().expire(9).await.unwrap().done, 0);
    rig.pass(seconds(10));
    assert_eq!(rig.queue().expire(9).await.unwrap().done, 1);
    assert_eq!(rig.state(own).await, DeliveryState::Failed(FailReason::Expired));
    rig.pass(seconds(20));
    let batch = rig.queue().expire(1).await.unwrap();
    assert_eq!((batch.done, batch.more), (1, true), "bounded");
    assert_eq!(rig.queue().expire(9).await.unwrap().done, 0, "what is in flight is not given up");
    rig.settle(&in_flight, retry(rig.now())).await;
    assert_eq!(rig.queue().expire(9).await.unwrap().done, 1, "but when it would wait again");
    rig.pass(seconds(20));
    assert_eq!(rig.queue().expire(9).await.unwrap().done, 1, "its time begins when it may be sent");
    let (kept, counted) = rig.backlog("acme").await;
    // Each `b` event went to both endpoints.
    assert_eq!((kept, counted.count), (counted, 3));
}

pub async fn finished_work_is_pruned_when_it_was_kept_long_enough<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let nowhere = rig.add_endpoint("acme", Filter::any_of(["b"]).unwrap(), None).await;
    let keep = Retention::default();
    let delivered = rig.leased(lane).await;
    rig.settle(&delivered, NextStep::Delivered).await;
    let failed = rig.leased(lane).await;
    rig.settle(&failed, NextStep::Failed(FailReason::Exhausted)).await;
    // One event, two deliveries: one is delivered, the other waits.
    rig.submit(vec![event("b")]).await;
    let half = rig.due(lane, Priority::Medium, 1).await.remove(0);
    rig.settle(&half, NextStep::Delivered).await;
    let late = rig.waiting(lane, event("a")).await;
    assert_eq!(rig.rows().await, [4, 4, 5, 3, 0]);
    rig.pass(seconds(7 * DAY - 1));
    assert_eq!(rig.queue().prune(&keep, 100).await.unwrap().done, 0);
    let late = {
        let leased = rig.due(lane, Priority::Medium, 1).await.remove(0);
        assert_eq!(leased.id, late);
        rig.settle(&leased, NextStep::Delivered).await;
        leased
    };
    rig.pass(seconds(2));
    let pruned = rig.queue().prune(&keep, 100).await.unwrap();
    assert_eq!(pruned.done, 2, "deliveries are counted, and not what goes with them");
    assert_eq!(rig.rows().await, [3, 3, 3, 2, 0], "an event stays as long as any of its deliveries");
    assert!(rig.stored_delivery(half.id).await.is_none());
    assert_eq!(rig.due(nowhere, Priority::Medium, 1).await[0].event, half.event, "and can be sent");
    rig.pass(seconds(7 * DAY));
    rig.queue().prune(&keep, 100).await.unwrap();
    assert!(rig.stored_delivery(late.id).await.is_none(), "what was finished late goes later");
    rig.pass(seconds(16 * DAY - 3));
    rig.queue().prune(&keep, 100).await.unwrap();
    assert!(rig.stored_delivery(failed.id).await.is_some());
    rig.pass(seconds(3_601));
    rig.queue().prune(&keep, 100).await.unwrap();
    assert!(rig.stored_delivery(failed.id).await.is_none(), "dead letters go last");
    assert_eq!(rig.rows().await, [1, 1, 1, 0, 0]);
}

pub async fn pruning_is_bounded_and_gets_everything<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    rig.reservations().takes(lane, 50);
    let taken = rig.submit(vec![event("a"); 50]).await.taken;
    for leased in &taken {
        rig.settle(leased, NextStep::Delivered).await;
    }
    rig.delete_endpoint(lane).await;
    rig.submit(vec![event("nobody.wants")]).await;
    rig.pass(seconds(8 * DAY));
    let (mut pieces, mut pruned) = (0, 0);
    loop {
        let batch = rig.queue().prune(&Retention::default(), 10).await.unwrap();
        assert!(batch.done <= 10, "{batch:?}");
        pruned += batch.done;
        pieces += 1;
        if !batch.more {
            break;
        }
        assert!(pieces < 100);
    }
    assert!(pieces >= 5);
    assert_eq!(pruned, 50, "deliveries are counted; the event without one is not");
    assert_eq!(rig.rows().await, [0; 5]);
}

pub async fn keys_are_pruned_after_a_day<R: Rig>() {
    let (rig, _) = acme::<R>().await;
    rig.queue().submit(with_key(vec![event("a")], "k", 1)).await.unwrap();
    rig.pass(seconds(DAY - 1));
    rig.queue().submit(with_key(vec![event("a")], "l", 1)).await.unwrap();
    rig.queue().prune(&Retention::default(), 100).await.unwrap();
    assert_eq!(rig.rows().await[4], 2);
    rig.pass(seconds(2));
    assert_eq!(rig.queue().prune(&Retention::default(), 100).await.unwrap().done, 0, "a key is no delivery");
    assert_eq!(rig.rows().await[4], 1);
}

pub async fn what_waits_for_a_deleted_endpoint_is_cancelled_bit_by_bit<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    rig.submit(vec![event("a"); 25]).await;
    let one = rig.waiting(lane, at(Priority::Low)).await;
    rig.delete_endpoint(lane).await;
    assert_eq!(rig.submit(vec![event("a")]).await.events[0].deliveries, 0, "nothing goes there any more");
    assert!(rig.due(lane, Priority::Medium, 9).await.is_empty());
    assert!(rig.queue().waiting_lanes(None, 9).await.unwrap().is_empty());
    let first = rig.cancel_closed(10).await;
    assert_eq!((first.done, first.more), (10, true));
    let rig = rig.crash().await;
    assert!(rig.due(lane, Priority::Medium, 9).await.is_empty(), "it stays closed");
    assert_eq!(rig.cancel_closed(10).await.done, 10);
    let last = rig.cancel_closed(10).await;
    assert_eq!((last.done, last.more), (6, false));
    assert_eq!(rig.cancel_closed(10).await.done, 0);
    assert_eq!(rig.state(one).await, DeliveryState::Cancelled);
    let (kept, counted) = rig.backlog("acme").await;
    assert_eq!((kept, counted.count), (counted, 0));
}

pub async fn what_is_in_flight_to_a_deleted_endpoint_is_not_tried_again<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let delivered = rig.leased(lane).await;
    let retried = rig.leased(lane).await;
    let handed_back = rig.leased(lane).await;
    let forgotten = rig.leased(lane).await;
    rig.delete_endpoint(lane).await;
    assert!(!rig.cancel_closed(10).await.more);
    rig.settle(&delivered, NextStep::Delivered).await;
    rig.settle(&retried, retry(rig.now())).await;
    rig.queue().hand_back(handed_back.id, handed_back.lease).await.unwrap();
    rig.pass(LEASE);
    let batch = rig.queue().reclaim(9).await.unwrap();
    assert_eq!((batch.done, batch.woken), (1, vec![]));
    assert_eq!(rig.state(delivered.id).await, DeliveryState::Delivered);
    for leased in [retried, handed_back, forgotten] {
        assert_eq!(rig.state(leased.id).await, DeliveryState::Cancelled);
    }
    rig.cancel_closed(10).await;
}

pub async fn lanes_of_dynamic_urls_go_when_they_are_not_used<R: Rig>() {
    let (rig, _) = acme::<R>().await;
    let submit = |host: &str| vec![to_url(&format!("https://{host}.example/"))];
    let done = rig.submit(submit("done")).await.woken[0].lane;
    let parked = rig.submit(submit("parked")).await.woken[0].lane;
    for leased in rig.due(done, Priority::Medium, 9).await {
        rig.settle(&leased, NextStep::Delivered).await;
    }
    rig.pass(seconds(3 * 3_600));
    while rig.queue().prune(&Retention::default(), 1).await.unwrap().more {}
    assert_ne!(rig.submit(submit("done")).await.woken[0].lane, done, "it was forgotten");
    assert_eq!(rig.submit(submit("parked")).await.woken[0].lane, parked, "something waits in it");
    assert_eq!(rig.due(parked, Priority::Medium, 9).await.len(), 2);
}

pub async fn whether_a_lane_can_be_probed<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    let queue = rig.queue();
    let supply = async || queue.probe_supply(lane).await.unwrap();
    let nothing = ProbeSupply { can_probe: false, next_due: [None; 4] };
    assert_eq!(supply().await, nothing);
    let expires_at = Some(rig.now() + seconds(60));
    rig.submit(vec![NewEvent { expires_at, ..event("a") }]).await;
    assert!(supply().await.can_probe);
    rig.pass(seconds(61));
    assert_eq!(supply().await, nothing, "what has expired is no use");
    let leased = rig.leased(lane).await;
    assert_eq!(supply().await, nothing, "it is in flight");
    let due_at = rig.now() + seconds(60);
    rig.settle(&leased, retry(due_at)).await;
    let next_due = [None, None, Some(due_at), None];
    assert_eq!(supply().await, ProbeSupply { can_probe: true, next_due }, "it may be pulled forward");
    let probe = Claim::Probe { lane, outage: Epoch(7), lease: LEASE };
    let pulled = rig.claim_one(probe).await.deliveries.remove(0);
    let failed = NextStep::Retry { due_at, uses_attempt: false, failed_probe: Some(Epoch(7)) };
    rig.settle(&pulled, failed).await;
    assert_eq!(supply().await, ProbeSupply { can_probe: false, next_due }, "once");
    let not_before = Some(rig.now() + seconds(30));
    rig.submit(vec![NewEvent { not_before, ..at(Priority::High) }]).await;
    let next_due = [not_before, None, Some(due_at), None];
    assert_eq!(supply().await, ProbeSupply { can_probe: false, next_due }, "nobody may have it earlier");
    rig.pass(seconds(30));
    let next_due = [None, None, Some(due_at), None];
    assert_eq!(supply().await, ProbeSupply { can_probe: true, next_due }, "it is due");
    rig.delete_endpoint(lane).await;
    assert_eq!(supply().await, nothing);
}

pub async fn lanes_in_which_something_waits_are_found_page_by_page<R: Rig>() {
    let (rig, first) = acme::<R>().await;
    let mut lanes = vec![first];
    for _ in 0..4 {
        lanes.push(rig.add_endpoint("acme", Filter::ALL, None).await);
    }
    let later = rig.now() + seconds(60);
    let dynamic = rig.submit(vec![to_url("https://example.com/")]).await.woken[0].lane;
    rig.submit(vec![at(Priority::High), NewEvent { not_before: Some(later), ..at(Priority::Low) }]).await;
    for leased in rig.due(lanes[2], Priority::High, 9).await {
        rig.settle(&leased, NextStep::Delivered).await;
    }
    let mut found = Vec::new();
    let mut after: Option<LaneId> = None;
    loop {
        let page = rig.queue().waiting_lanes(after, 2).await.unwrap();
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        after = Some(last.lane);
        found.extend(page);
    }
    lanes.push(dynamic);
    assert_eq!(found.iter().map(|waiting| waiting.lane).collect::<Vec<_>>(), lanes);
    assert_eq!(found[0].next_due, [Some(rig.now()), None, None, Some(later)]);
    assert_eq!(found[2].next_due, [None, None, None, Some(later)]);
    assert_eq!(found[5].dynamic.as_deref(), Some("acme https://example.com"));
    assert!(found[..5].iter().all(|waiting| waiting.dynamic.is_none()));
    assert!(found.iter().all(|waiting| waiting.tenant == tenant("acme")));
}
