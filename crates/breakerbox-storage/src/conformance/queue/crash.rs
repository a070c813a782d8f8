//! Crashes: every accepted event is delivered, queued, a dead letter, or cancelled.

use std::collections::HashMap;

use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{DeliveryState, FailReason, Filter, LaneId, Priority};

use crate::Settled;

use super::rig::{Rig, Verbs, acme, event, retry, seconds};

pub async fn whatever_was_answered_is_there_after_a_crash<R: Rig>() {
    let (mut rig, kept) = acme::<R>().await;
    let doomed = rig.add_endpoint("acme", Filter::ALL, None).await;
    let mut wanted: HashMap<i64, &str> = HashMap::new();
    for round in 0..6_u32 {
        rig.reservations().takes(kept, 3);
        let accepted = rig.submit(vec![event("a"); 6]).await;
        for event in &accepted.events {
            for nth in 1..=i64::from(event.deliveries) {
                wanted.insert(event.id.number() + nth, "open");
            }
        }
        let mut leased = accepted.taken;
        leased.extend(rig.due(kept, Priority::Medium, 4).await);
        for (nth, leased) in leased.into_iter().enumerate() {
            let (next, state) = match nth % 5 {
                0 => (NextStep::Delivered, "delivered"),
                1 => (NextStep::Failed(FailReason::Exhausted), "dead"),
                2 => (retry(rig.now() + seconds(60)), "open"),
                // In flight during the crash: whether the receiver got it is unknown.
                _ => continue,
            };
            assert_eq!(rig.settle(&leased, next).await, Settled::Done);
            wanted.insert(leased.id.number(), state);
        }
        if round == 3 {
            rig.delete_endpoint(doomed).await;
            rig.cancel_closed(5).await;
        }
        rig = rig.crash().await;
        rig.pass(seconds(30));
        check(&rig, &wanted, round >= 3).await;
    }
    while rig.cancel_closed(5).await.more {}
    check(&rig, &wanted, true).await;
    let waiting: Vec<LaneId> =
        rig.queue().waiting_lanes(None, 9).await.unwrap().iter().map(|waiting| waiting.lane).collect();
    assert_eq!(waiting, [kept]);
}

async fn check<R: Rig>(rig: &R, wanted: &HashMap<i64, &str>, is_deleted: bool) {
    for (id, wanted) in wanted {
        let id =
            breakerbox_model::objects::DeliveryId(breakerbox_model::objects::Id::from_number(*id).unwrap());
        let found = match rig.state(id).await {
            DeliveryState::Pending | DeliveryState::Retrying => "open",
            DeliveryState::InFlight => panic!("{id} is held by nobody"),
            DeliveryState::Delivered => "delivered",
            DeliveryState::Failed(_) => "dead",
            DeliveryState::Cancelled if is_deleted => "open",
            DeliveryState::Cancelled => "cancelled",
        };
        assert_eq!(found, *wanted, "{id}");
    }
    assert_eq!(rig.rows().await[2], wanted.len() as u64);
    let (kept, counted) = rig.backlog("acme").await;
    assert_eq!(kept, counted);
}
