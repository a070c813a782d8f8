//! Large fan-outs: the accepting transaction writes a bounded part, and a durable job writes the rest in batches.
//! Nothing is lost or duplicated, whenever the process crashes, and limits count all deliveries at once.

use std::collections::HashSet;
use std::time::Duration;

use crate::{BatchResult, Retention, SubmitError};
use breakerbox_model::objects::{
    Backlog, DeliveryId, DeliveryState, EventId, Filter, Id, LaneId, NewBatch, NewEvent, Priority,
};
use futures_util::future::join_all;

use super::rig::{Rig, Verbs, batch, event, seconds, tenant, with_key};

/// The maximum number of deliveries that are written in the transaction that accepts their events.
const AT_SUBMIT: u64 = 1_000;

async fn crowd<R: Rig>(endpoints: usize) -> (R, Vec<LaneId>) {
    let rig = R::new().await;
    rig.add_tenant("acme", Backlog::default()).await;
    let lanes = rig.add_endpoints("acme", endpoints).await;
    (rig, lanes)
}

async fn piece<R: Rig>(rig: &R, limit: u32) -> BatchResult {
    rig.queue().fan_out(limit).await.unwrap()
}

/// Writes all remaining deliveries of large fan-outs, and returns their number.
async fn finish<R: Rig>(rig: &R) -> u64 {
    let mut written = 0;
    loop {
        let batch = piece(rig, 700).await;
        written += batch.done;
        if !batch.more {
            return written;
        }
    }
}

fn nth(event: EventId, nth: u64) -> DeliveryId {
    let number = event.number() + i64::try_from(nth).unwrap() + 1;
    DeliveryId(Id::from_number(number).unwrap())
}

pub async fn an_accept_writes_a_bounded_part_and_a_job_the_rest<R: Rig>() {
    let (rig, lanes) = crowd::<R>(2_500).await;
    let accepted = rig.submit(vec![event("a")]).await;
    assert_eq!((accepted.events[0].deliveries, accepted.deferred), (2_500, 1_500));
    assert_eq!(rig.rows().await[2], AT_SUBMIT);
    assert_eq!(accepted.woken.len() as u64, AT_SUBMIT);
    let first = piece(&rig, 400).await;
    assert_eq!((first.done, first.more, first.woken.len()), (400, true, 400));
    assert_eq!(first.woken[0].lane, lanes[1_000], "in the order of the accept");
    assert_eq!(finish(&rig).await, 1_100);
    assert_eq!(piece(&rig, 400).await, BatchResult::default());
    assert_eq!(rig.rows().await[2], 2_500);
    for lane in [lanes[0], lanes[999], lanes[1_000], lanes[2_499]] {
        let due = rig.due(lane, Priority::Medium, 9).await;
        assert_eq!(due.len(), 1, "{lane:?}");
        assert_eq!(due[0].event, accepted.events[0].id);
    }
    let (kept, counted) = rig.backlog("acme").await;
    assert_eq!(kept, counted);
}

pub async fn a_batch_shares_the_bound_of_its_accept<R: Rig>() {
    let (rig, _) = crowd::<R>(700).await;
    let accepted = rig.submit(vec![event("a"), event("b"), event("c")]).await;
    assert_eq!(accepted.events.iter().map(|event| event.deliveries).collect::<Vec<_>>(), [700; 3]);
    assert_eq!((accepted.deferred, rig.rows().await[2]), (1_100, AT_SUBMIT));
    assert_eq!(finish(&rig).await, 1_100);
    for accepted in accepted.events {
        for place in [0, 299, 300, 699] {
            assert_eq!(rig.state(nth(accepted.id, place)).await, DeliveryState::Pending);
        }
    }
}

pub async fn limits_count_all_of_it_at_once<R: Rig>() {
    let rig = R::new().await;
    rig.add_tenant("acme", Backlog { count: 2_000, bytes: 1 << 40 }).await;
    rig.add_endpoints("acme", 1_500).await;
    rig.submit(vec![event("a")]).await;
    let full = |answer| matches!(answer, Err(SubmitError::BacklogFull { waiting: 1_500, .. }));
    assert!(full(rig.queue().submit(batch(vec![event("a")])).await), "500 of them have no row yet");
    let rig = rig.crash().await;
    assert!(full(rig.queue().submit(batch(vec![event("a")])).await), "also after a crash");
    finish(&rig).await;
    assert!(full(rig.queue().submit(batch(vec![event("a")])).await), "and once they have one");
    assert_eq!(rig.backlog("acme").await.0.count, 1_500);
}

pub async fn it_goes_to_the_endpoints_of_the_accept<R: Rig>() {
    let (rig, lanes) = crowd::<R>(1_200).await;
    rig.submit(vec![event("a")]).await;
    let later = rig.add_endpoint("acme", Filter::ALL, None).await;
    finish(&rig).await;
    assert!(rig.due(later, Priority::Medium, 9).await.is_empty());
    assert_eq!(rig.due(lanes[1_199], Priority::Medium, 9).await.len(), 1);
    assert_eq!(rig.rows().await[2], 1_200);
}

pub async fn deleted_endpoints_end_as_cancelled<R: Rig>() {
    let (rig, lanes) = crowd::<R>(1_200).await;
    let accepted = rig.submit(vec![event("a")]).await;
    rig.delete_endpoint(lanes[1_100]).await;
    while rig.cancel_closed(500).await.more {}
    let written = piece(&rig, 500).await;
    assert_eq!((written.done, written.woken.len()), (200, 199));
    let states = [
        rig.state(nth(accepted.events[0].id, 1_099)).await,
        rig.state(nth(accepted.events[0].id, 1_100)).await,
        rig.state(nth(accepted.events[0].id, 1_101)).await,
    ];
    assert_eq!(states, [DeliveryState::Pending, DeliveryState::Cancelled, DeliveryState::Pending]);
    assert!(rig.due(lanes[1_100], Priority::Medium, 9).await.is_empty());
    let (kept, counted) = rig.backlog("acme").await;
    assert_eq!((kept, kept.count), (counted, 1_199));
}

pub async fn a_crash_between_pieces_loses_and_repeats_nothing<R: Rig>() {
    let (mut rig, _) = crowd::<R>(1_400).await;
    let first = rig.submit(vec![event("a")]).await.events[0].id;
    let mut events = vec![first];
    for _ in 0..4 {
        rig = rig.crash().await;
        piece(&rig, 90).await;
        // Reserved ids are not given to other objects, even if the clock stands still.
        events.push(rig.submit(vec![event("a")]).await.events[0].id);
    }
    rig = rig.crash().await;
    finish(&rig).await;
    assert_eq!(rig.rows().await[2], 5 * 1_400);
    let ids: HashSet<DeliveryId> =
        events.iter().flat_map(|event| (0..1_400).map(|place| nth(*event, place))).collect();
    assert_eq!(ids.len(), 5 * 1_400);
    for id in ids {
        assert_eq!(rig.state(id).await, DeliveryState::Pending);
    }
    let (kept, counted) = rig.backlog("acme").await;
    assert_eq!(kept, counted);
}

pub async fn tenants_take_turns<R: Rig>() {
    let (rig, of_acme) = crowd::<R>(3_000).await;
    rig.add_tenant("small", Backlog::default()).await;
    let of_small = rig.add_endpoints("small", 1_100).await;
    rig.submit(vec![event("a"), event("b")]).await;
    let small = NewBatch { tenant: tenant("small"), ..batch(vec![event("a")]) };
    rig.queue().submit(small).await.unwrap();
    let lanes = |batch: &BatchResult| batch.woken.iter().map(|woken| woken.lane).collect::<HashSet<_>>();
    let two = [lanes(&piece(&rig, 100).await), lanes(&piece(&rig, 100).await)];
    let of = |all: &[LaneId]| two.iter().filter(|lanes| lanes.iter().all(|lane| all.contains(lane))).count();
    assert_eq!((of(&of_acme), of(&of_small)), (1, 1), "one piece each");
}

pub async fn a_repetition_while_it_is_under_way_gets_the_same_answer<R: Rig>() {
    let (rig, _) = crowd::<R>(1_300).await;
    let submit = || with_key(vec![event("a"), event("b")], "k", 1);
    let first = rig.queue().submit(submit()).await.unwrap();
    let again = rig.queue().submit(submit()).await.unwrap();
    assert_eq!((again.repeated, &again.events, again.deferred), (true, &first.events, 0));
    finish(&rig).await;
    let again = rig.queue().submit(submit()).await.unwrap();
    assert_eq!((again.repeated, &again.events), (true, &first.events));
    assert_eq!(rig.rows().await[2], 2_600);
}

pub async fn what_is_under_way_is_not_pruned<R: Rig>() {
    let (rig, lanes) = crowd::<R>(1_100).await;
    rig.submit(vec![event("a")]).await;
    for lane in &lanes[..1_000] {
        rig.delete_endpoint(*lane).await;
    }
    while rig.cancel_closed(500).await.more {}
    rig.pass(Duration::from_secs(40 * 86_400));
    while rig.queue().prune(&Retention::default(), 500).await.unwrap().more {}
    assert_eq!(rig.rows().await[..3], [1, 1, 0], "its payload is still needed");
    assert_eq!(finish(&rig).await, 100);
    assert_eq!(rig.due(lanes[1_099], Priority::Medium, 9).await.len(), 1);
}

pub async fn many_accepts_in_one_commit_share_a_bound<R: Rig>() {
    let (rig, _) = crowd::<R>(100).await;
    rig.add_tenant("other", Backlog::default()).await;
    rig.add_endpoints("other", 1).await;
    let queue = rig.queue();
    let accepts = (0..200).map(|_| queue.submit(batch(vec![event("a")])));
    let deferred: u64 = join_all(accepts).await.into_iter().map(|answer| answer.unwrap().deferred).sum();
    // How many of them share a commit depends on the machine; in the end all are written.
    let rows = rig.rows().await[2];
    assert_eq!(rows + deferred, 20_000);
    finish(&rig).await;
    assert_eq!(rig.rows().await[2], 20_000);
    let (kept, counted) = rig.backlog("acme").await;
    assert_eq!((kept, kept.count), (counted, 20_000));
}

pub async fn the_rest_waits_until_its_time_and_expires<R: Rig>() {
    let (rig, lanes) = crowd::<R>(1_100).await;
    let (not_before, expires_at) = (rig.now() + seconds(60), rig.now() + seconds(90));
    rig.submit(vec![NewEvent { not_before: Some(not_before), expires_at: Some(expires_at), ..event("a") }])
        .await;
    let written = piece(&rig, 500).await;
    assert_eq!(written.woken[0].next_due[Priority::Medium.index()], Some(not_before));
    assert!(rig.due(lanes[1_050], Priority::Medium, 9).await.is_empty());
    rig.pass(seconds(61));
    assert_eq!(rig.due(lanes[1_050], Priority::Medium, 9).await.len(), 1);
    rig.pass(seconds(30));
    let mut expired = 0;
    while let BatchResult { done: done @ 1.., .. } = rig.queue().expire(500).await.unwrap() {
        expired += done;
    }
    assert_eq!(expired, 1_099);
}
