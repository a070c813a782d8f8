//! Accepting: fan-out, direct dispatch, idempotency, limits. A batch is accepted as a whole or not at all.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use crate::{Claim, Settled, SubmitError};
use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{Backlog, DeliveryState, Filter, NewBatch, NewEvent, Priority};
use bytes::Bytes;

use super::rig::{LEASE, Rig, Verbs, acme, at, batch, event, seconds, tenant, to_url, with_key};

pub async fn events_go_to_the_endpoints_that_want_their_type<R: Rig>() {
    let (rig, all) = acme::<R>().await;
    let invoices = rig.add_endpoint("acme", Filter::any_of(["invoice.*"]).unwrap(), None).await;
    rig.add_tenant("other", Backlog::default()).await;
    rig.add_endpoint("other", Filter::ALL, None).await;
    let accepted = rig.submit(vec![event("invoice.paid"), event("user.created")]).await;
    let counts: Vec<u32> = accepted.events.iter().map(|event| event.deliveries).collect();
    assert_eq!(counts, [2, 1]);
    assert!(accepted.events[0].id < accepted.events[1].id);
    assert_eq!(rig.due(all, Priority::Medium, 9).await.len(), 2);
    let leased = rig.due(invoices, Priority::Medium, 9).await;
    assert_eq!(leased.len(), 1);
    assert_eq!(leased[0].event, accepted.events[0].id);
    assert_eq!(leased[0].kind.as_str(), "invoice.paid");
    assert_eq!(leased[0].tenant, tenant("acme"));

    let nobody = NewBatch { tenant: tenant("nobody"), ..batch(vec![event("a")]) };
    assert!(matches!(rig.queue().submit(nobody).await, Err(SubmitError::UnknownTenant(_))));
}

pub async fn what_is_taken_comes_with_its_payload_and_the_rest_is_woken<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    rig.reservations().takes(lane, 1);
    let mut second = at(Priority::High);
    second.payload = Bytes::from_static(b"second");
    second.content_type = "text/plain".into();
    let accepted = rig.submit(vec![event("a"), second, at(Priority::High)]).await;
    assert_eq!(accepted.taken.len(), 1);
    let taken = &accepted.taken[0];
    assert_eq!(taken.event, accepted.events[0].id);
    assert_eq!((&taken.payload[..], &*taken.content_type), (&b"{\"n\":1}"[..], "application/json"));
    assert_eq!(rig.state(taken.id).await, DeliveryState::InFlight);
    assert_eq!(accepted.woken.len(), 1, "one for each lane and priority");
    assert_eq!((accepted.woken[0].lane, accepted.woken[0].count), (lane, 2));
    assert_eq!(accepted.woken[0].next_due, [Some(rig.now()), None, None, None]);
    let claimed = rig.due(lane, Priority::High, 1).await.remove(0);
    assert_eq!((&claimed.payload[..], &*claimed.content_type), (&b"second"[..], "text/plain"));
    assert!(rig.due(lane, Priority::Medium, 9).await.is_empty(), "what is taken is not claimed again");
    assert_eq!(rig.settle(taken, NextStep::Delivered).await, Settled::Done);
}

pub async fn what_is_not_due_is_not_taken<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    rig.reservations().takes(lane, 9);
    let due_at = rig.now() + seconds(60);
    let accepted = rig.submit(vec![NewEvent { not_before: Some(due_at), ..event("a") }]).await;
    assert!(accepted.taken.is_empty());
    assert_eq!(accepted.woken[0].next_due[Priority::Medium.index()], Some(due_at));
    assert!(rig.due(lane, Priority::Medium, 9).await.is_empty());
    rig.pass(seconds(60));
    assert_eq!(rig.due(lane, Priority::Medium, 9).await.len(), 1);
    let past = NewEvent { not_before: Some(rig.now()), ..event("a") };
    assert_eq!(rig.submit(vec![past]).await.taken.len(), 1);
    let expired = NewEvent { expires_at: Some(rig.now()), ..event("a") };
    assert!(rig.submit(vec![expired]).await.taken.is_empty(), "what has expired is not taken either");
}

pub async fn the_same_key_gets_the_same_answer<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    rig.add_endpoint("acme", Filter::any_of(["b"]).unwrap(), None).await;
    rig.reservations().takes(lane, 1);
    let events = vec![event("a"), event("b"), event("a")];
    let first = rig.queue().submit(with_key(events.clone(), "k", 1)).await.unwrap();
    assert!(!first.repeated);
    let again = rig.queue().submit(with_key(events.clone(), "k", 1)).await.unwrap();
    assert!(again.repeated && again.taken.is_empty() && again.woken.is_empty());
    assert_eq!(again.events, first.events);
    let other = rig.queue().submit(with_key(events, "k", 2)).await;
    assert!(matches!(other, Err(SubmitError::KeyReused)));
    let rig = rig.crash().await;
    let after = rig.queue().submit(with_key(vec![event("a")], "k", 1)).await.unwrap();
    assert_eq!(after.events, first.events, "it is remembered after a crash");
    assert_eq!(rig.rows().await[..3], [3, 3, 4]);
}

pub async fn a_key_is_forgotten_after_a_day<R: Rig>() {
    let (rig, _) = acme::<R>().await;
    let first = rig.queue().submit(with_key(vec![event("a")], "k", 1)).await.unwrap();
    rig.pass(seconds(86_399));
    assert!(rig.queue().submit(with_key(vec![event("a")], "k", 1)).await.unwrap().repeated);
    rig.pass(seconds(2));
    let second = rig.queue().submit(with_key(vec![event("a")], "k", 2)).await.unwrap();
    assert!(!second.repeated && second.events != first.events);
    assert!(rig.queue().submit(with_key(vec![event("a")], "k", 2)).await.unwrap().repeated);
}

pub async fn a_key_is_its_tenants_own<R: Rig>() {
    let (rig, _) = acme::<R>().await;
    rig.add_tenant("other", Backlog::default()).await;
    let batch = with_key(vec![event("a")], "k", 1);
    rig.queue().submit(batch.clone()).await.unwrap();
    let other = NewBatch { tenant: tenant("other"), ..batch };
    assert!(!rig.queue().submit(other).await.unwrap().repeated);
}

pub async fn a_full_backlog_refuses_and_recovers<R: Rig>() {
    let rig = R::new().await;
    rig.add_tenant("acme", Backlog { count: 3, bytes: 1 << 30 }).await;
    let lane = rig.add_endpoint("acme", Filter::ALL, None).await;
    rig.add_tenant("other", Backlog::default()).await;
    rig.add_endpoint("other", Filter::ALL, None).await;
    rig.reservations().takes(lane, 1);
    let taken = rig.submit(vec![event("a")]).await.taken.remove(0);
    rig.submit(vec![event("a"), event("a")]).await;
    let refused = rig.queue().submit(with_key(vec![event("a")], "k", 1)).await;
    assert!(matches!(refused, Err(SubmitError::BacklogFull { waiting: 3, bytes: 21 })), "{refused:?}");
    let other = NewBatch { tenant: tenant("other"), ..batch(vec![event("a")]) };
    rig.queue().submit(other).await.unwrap();
    rig.settle(&taken, NextStep::Delivered).await;
    assert!(rig.queue().submit(batch(vec![event("a"), event("a")])).await.is_err(), "there is room for one");
    let accepted = rig.queue().submit(with_key(vec![event("a")], "k", 1)).await.unwrap();
    assert!(!accepted.repeated, "what was refused is not remembered");
    assert!(rig.queue().submit(with_key(vec![event("a")], "k", 1)).await.unwrap().repeated, "full or not");
    let rig = rig.crash().await;
    assert!(matches!(
        rig.queue().submit(batch(vec![event("a")])).await,
        Err(SubmitError::BacklogFull { waiting: 3, bytes: 21 })
    ));
}

pub async fn bytes_count_for_each_delivery<R: Rig>() {
    let rig = R::new().await;
    rig.add_tenant("acme", Backlog { count: 100, bytes: 40 }).await;
    for _ in 0..2 {
        rig.add_endpoint("acme", Filter::ALL, None).await;
    }
    let bytes = |count: usize| NewEvent { payload: Bytes::from(vec![b'x'; count]), ..event("a") };
    assert!(matches!(
        rig.queue().submit(batch(vec![bytes(21)])).await,
        Err(SubmitError::BacklogFull { waiting: 0, .. })
    ));
    rig.submit(vec![bytes(20)]).await;
    let (kept, counted) = rig.backlog("acme").await;
    assert_eq!((kept, kept), (counted, Backlog { count: 2, bytes: 40 }));
}

pub async fn the_reserve_of_the_disk_is_for_settlements<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    rig.reservations().takes(lane, 1);
    let taken = rig.submit(vec![event("a")]).await.taken.remove(0);
    let rig = {
        rig.settle(&taken, NextStep::Delivered).await;
        rig.set_free(1 << 20);
        rig.crash().await
    };
    rig.reservations().takes(lane, 9);
    let refused = rig.queue().submit(batch(vec![event("a")])).await;
    assert!(matches!(refused, Err(SubmitError::DiskReserve { free: 1_048_576, .. })), "{refused:?}");
    assert_eq!(rig.reservations().taken.load(Ordering::SeqCst), 0, "nothing was asked for what was refused");
    rig.set_free(1 << 40);
    let rig = rig.crash().await;
    rig.submit(vec![event("a")]).await;
}

pub async fn a_batch_is_accepted_whole_or_not_at_all<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    rig.reservations().takes(lane, 9);
    let bad = to_url("https://user:secret@example.com/");
    let refused = rig.queue().submit(with_key(vec![event("a"), bad], "k", 1)).await;
    assert!(matches!(refused, Err(SubmitError::Url(_))));
    assert_eq!(rig.rows().await, [0; 5]);
    assert_eq!(rig.reservations().taken.load(Ordering::SeqCst), 0);
}

pub async fn urls_of_one_circuit_share_a_lane<R: Rig>() {
    let (rig, _) = acme::<R>().await;
    rig.add_tenant("other", Backlog::default()).await;
    let accepted =
        rig.submit(vec![to_url("https://Example.com/a?x=1"), to_url("https://example.com/a")]).await;
    assert_eq!(accepted.events.iter().map(|event| event.deliveries).sum::<u32>(), 2, "no endpoint gets it");
    assert_eq!(accepted.woken.len(), 1);
    let lane = accepted.woken[0].lane;
    assert_eq!(accepted.woken[0].dynamic.as_deref(), Some("acme https://example.com/a"));
    let other = NewBatch { tenant: tenant("other"), ..batch(vec![to_url("https://example.com/a")]) };
    assert_ne!(rig.queue().submit(other).await.unwrap().woken[0].lane, lane);
    let rig = rig.crash().await;
    let again = rig.submit(vec![to_url("https://example.com/a")]).await;
    assert_eq!(again.woken[0].lane, lane);
    let leased = rig.due(lane, Priority::Medium, 9).await;
    let urls: Vec<_> = leased.iter().map(|leased| leased.url.as_deref().unwrap()).collect();
    assert_eq!(urls, ["https://example.com/a?x=1", "https://example.com/a", "https://example.com/a"]);
    rig.reservations().takes(lane, 1);
    let taken = rig.submit(vec![to_url("https://example.com/a")]).await.taken.remove(0);
    assert_eq!((taken.lane, taken.url.as_deref()), (lane, Some("https://example.com/a")));
}

pub async fn an_answer_that_nobody_waited_for_is_given_back<R: Rig>() {
    let (rig, lane) = acme::<R>().await;
    rig.reservations().takes(lane, 1);
    let queue = rig.queue();
    {
        let mut accepting = pin!(queue.submit(batch(vec![event("a"), event("a")])));
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(accepting.as_mut().poll(&mut context), Poll::Pending));
    }
    // The writer has finished it when the next event is accepted.
    let last = rig.submit(vec![NewEvent { not_before: Some(rig.now() + LEASE), ..event("a") }]).await;
    assert!(last.taken.is_empty());
    assert_eq!(rig.rows().await[0], 3, "it was accepted all the same");
    assert_eq!(rig.reservations().lost.load(Ordering::SeqCst), 1, "its place is free again");
    let batch = rig.queue().reclaim(10).await.unwrap();
    assert_eq!(batch.done, 1);
    assert!(batch.woken.iter().any(|woken| woken.lane == lane));
    assert_eq!(rig.due(lane, Priority::Medium, 9).await.len(), 2);

    rig.reservations().takes(lane, 0);
    rig.submit(vec![at(Priority::High)]).await;
    let claim = Claim::Due { lane, priority: Priority::High, limit: 1, lease: LEASE };
    {
        let mut claiming = pin!(queue.claim(vec![claim]));
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(claiming.as_mut().poll(&mut context), Poll::Pending));
    }
    rig.submit(vec![]).await;
    assert_eq!(rig.queue().reclaim(10).await.unwrap().done, 1);
    assert_eq!(rig.due(lane, Priority::High, 9).await.len(), 1);
}
