//! Events, deliveries and attempts: show, list, cancel, resend.

use std::time::Duration;

use crate::records::{Cursor, PageOf};
use crate::{RecordsError, Settlement};
use breakerbox_model::delivery::{Fault, LastAttempt, NextStep};
use breakerbox_model::objects::{
    Attempt, Backlog, DeliveryFilter, DeliveryId, DeliveryState, Endpoint, EventFilter, EventId, FailReason,
    Id, Priority, StateName,
};
use bytes::Bytes;

use super::world::World;
use super::world::{attempt, event, tenant_settings};

const NONE: DeliveryFilter = DeliveryFilter {
    tenant: None,
    endpoint: None,
    event: None,
    kind: None,
    state: None,
    from: None,
    until: None,
};

pub async fn an_event_and_its_deliveries_are_shown(world: &mut World) {
    world.tenant("acme").await;
    let endpoint = world.endpoint("acme", "https://a.example/").await;
    let mut new = event("order.paid");
    new.payload = Bytes::from_static(b"\x00raw\xff");
    new.content_type = "application/octet-stream".into();
    new.priority = Priority::High;
    new.not_before = Some(world.now() + Duration::from_secs(5));
    new.expires_at = Some(world.now() + Duration::from_secs(50));
    let id = world.submit("acme", new.clone()).await.unwrap();
    let shown = world.records.event(id).await.unwrap();
    assert_eq!((shown.id, shown.tenant.as_str(), &shown.submitted), (id, "acme", &new));
    assert_eq!(shown.accepted_at, world.now());
    let deliveries = world.of_event(id).await;
    assert_eq!(deliveries.len(), 1);
    let delivery = &deliveries[0];
    assert_eq!(*delivery, world.records.delivery(delivery.id).await.unwrap());
    assert_eq!((delivery.event, delivery.endpoint, &delivery.url), (id, Some(endpoint.id), &None));
    assert_eq!((&delivery.kind, delivery.priority), (&new.kind, Priority::High));
    assert_eq!((delivery.state, delivery.attempts), (DeliveryState::Pending, 0));
    assert_eq!((delivery.due_at, delivery.expires_at), (new.not_before, new.expires_at));
    assert_eq!((delivery.created_at, delivery.finished_at), (world.now(), None));
    let nothing = Id::from_number(7).unwrap();
    let missing = world.records.event(EventId(nothing)).await;
    assert!(matches!(missing, Err(RecordsError::Missing { what: "event", .. })), "{missing:?}");
    let missing = world.records.delivery(DeliveryId(nothing)).await;
    assert!(matches!(missing, Err(RecordsError::Missing { what: "delivery", .. })), "{missing:?}");
}

pub async fn the_latest_attempt_of_a_delivery_and_of_a_lane_is_known_after_a_restart(world: &mut World) {
    world.tenant("acme").await;
    let one = world.endpoint("acme", "https://one.example/").await;
    let quiet = world.endpoint("acme", "https://quiet.example/").await;
    let id = world.event("acme", "a.b").await;
    let delivery = |world: &World, event: EventId| {
        let records = std::sync::Arc::clone(&world.records);
        let filter = DeliveryFilter { event: Some(event), endpoint: Some(one.id), ..NONE };
        async move { records.deliveries(&filter, &PageOf::first(1)).await.unwrap().items.pop().unwrap() }
    };
    assert_eq!(delivery(world, id).await.last_attempt, None);
    let later = |world: &World| world.now() + Duration::from_secs(60);
    let retry = |due_at| NextStep::Retry { due_at, uses_attempt: true, failed_probe: None };

    let leased = world.claim(one.lane(), 1).await;
    world.settle(&leased[0], retry(later(world))).await;
    let first = LastAttempt::from(&attempt(world.now()));
    assert_eq!(delivery(world, id).await.last_attempt.as_ref(), Some(&first));
    world.clock.advance(Duration::from_secs(60));
    let leased = world.claim(one.lane(), 1).await;
    let refused = Attempt {
        status: None,
        fault: Some(Fault::Connect),
        detail: Some("connection refused".to_owned()),
        ..attempt(world.now())
    };
    let (id_of, lease) = (leased[0].id, leased[0].lease);
    let next = retry(later(world));
    let settlement = Settlement { id: id_of, lease, attempt: refused.clone(), next, stands_for: None };
    world.queue.settle(settlement).await.unwrap();
    let second = LastAttempt::from(&refused);
    assert_eq!(delivery(world, id).await.last_attempt.as_ref(), Some(&second));

    world.restart().await;
    assert_eq!(world.directory.last_attempt(one.lane()), Some(second.clone()));
    assert_eq!(world.directory.last_attempt(quiet.lane()), None);
    let circuit = world.directory.endpoint(one.lane()).unwrap().circuit.clone();
    assert_eq!(world.directory.last_attempt_of_circuit(&circuit), Some(second.clone()));
    assert_eq!(delivery(world, id).await.last_attempt, Some(second));
    // The response of one URL says nothing about another.
    let moved = world.endpoint("acme", "https://moved.example/").await;
    world.event("acme", "a.b").await;
    let leased = world.claim(moved.lane(), 1).await;
    world.settle(&leased[0], NextStep::Delivered).await;
    let edit = |stored: &Endpoint| {
        let mut settings = stored.settings.clone();
        settings.url = "https://elsewhere.example/".parse().unwrap();
        Ok(settings)
    };
    world.records.edit_endpoint(moved.id, Box::new(edit), None).await.unwrap();
    world.restart().await;
    assert_eq!(world.directory.last_attempt(moved.lane()), None);
    // Nothing is left of a deleted endpoint.
    world.records.delete_endpoint(one.id, None).await.unwrap();
    world.restart().await;
    assert_eq!(world.directory.last_attempt_of_circuit(&circuit), None);
}

pub async fn events_are_listed_without_their_payloads(world: &mut World) {
    for tenant in ["acme", "other"] {
        world.tenant(tenant).await;
    }
    world.endpoint("acme", "https://one.example/").await;
    let start = world.now();
    let mut events = Vec::new();
    for (tenant, kind) in [("acme", "a.b"), ("acme", "a.c"), ("other", "a.b"), ("acme", "a.b")] {
        events.push(world.event(tenant, kind).await);
        world.clock.advance(Duration::from_secs(10));
    }
    let at = |seconds: u64| Some(start + Duration::from_secs(seconds));
    let none = EventFilter::default;
    let (acme, kind) = (Some("acme".parse().unwrap()), Some("a.b".parse().unwrap()));
    for (filter, expected) in [
        (none(), &[3, 2, 1, 0][..]),
        (EventFilter { tenant: acme.clone(), ..none() }, &[3, 1, 0]),
        (EventFilter { tenant: Some("nobody".parse().unwrap()), ..none() }, &[]),
        (EventFilter { kind: kind.clone(), ..none() }, &[3, 2, 0]),
        (EventFilter { tenant: acme, kind, ..none() }, &[3, 0]),
        (EventFilter { from: at(10), until: at(30), ..none() }, &[2, 1]),
        (EventFilter { from: at(40), ..none() }, &[]),
    ] {
        let expected: Vec<_> = expected.iter().map(|place: &usize| events[*place]).collect();
        for limit in [1, 2, 50] {
            let mut found = Vec::new();
            let mut page = PageOf::first(limit);
            loop {
                let part = world.records.events(&filter, &page).await.unwrap();
                assert!(part.items.len() <= limit);
                found.extend(part.items.iter().map(|event| event.id));
                let Some(next) = part.next else { break };
                page = PageOf::after(next, limit);
            }
            assert_eq!(found, expected, "{filter:?} {limit}");
        }
    }
    let newest = world.records.events(&none(), &PageOf::first(1)).await.unwrap().items.remove(0);
    let shown = world.records.event(events[3]).await.unwrap();
    assert_eq!(newest.payload_bytes, shown.submitted.payload.len() as u64);
    assert_eq!((newest.tenant, newest.kind), (shown.tenant, shown.submitted.kind));
    assert_eq!((newest.priority, newest.url), (shown.submitted.priority, None));
    assert_eq!((newest.content_type, newest.deliveries), (shown.submitted.content_type, 1));
    assert_eq!(newest.accepted_at, shown.accepted_at);
    let wrong = PageOf::after(Cursor("nonsense".into()), 1);
    assert!(matches!(world.records.events(&none(), &wrong).await, Err(RecordsError::Cursor)));
}

pub async fn deliveries_are_found_by_all_that_can_be_said(world: &mut World) {
    for tenant in ["acme", "other"] {
        world.tenant(tenant).await;
    }
    let one = world.endpoint("acme", "https://one.example/").await;
    let two = world.endpoint("acme", "https://two.example/").await;
    world.endpoint("other", "https://one.example/").await;
    let start = world.now();
    let mut events = Vec::new();
    for (tenant, kind) in [("acme", "a.b"), ("acme", "a.c"), ("other", "a.b"), ("acme", "a.b")] {
        events.push(world.event(tenant, kind).await);
        world.clock.advance(Duration::from_secs(10));
    }
    let at = |seconds: u64| Some(start + Duration::from_secs(seconds));
    // In the lane of endpoint one: delivered, failed, in flight. In the lane of endpoint two: one retrying and two
    // pending.
    let leased = world.claim(one.lane(), 3).await;
    world.settle(&leased[0], NextStep::Delivered).await;
    world.settle(&leased[1], NextStep::Failed(FailReason::Exhausted)).await;
    let leased = world.claim(two.lane(), 1).await;
    let later = world.now() + Duration::from_secs(60);
    world.settle(&leased[0], NextStep::Retry { due_at: later, uses_attempt: true, failed_probe: None }).await;
    let acme = || Some("acme".parse().unwrap());
    let table = [
        ("all", NONE, 7),
        ("tenant", DeliveryFilter { tenant: acme(), ..NONE }, 6),
        ("no such tenant", DeliveryFilter { tenant: Some("nobody".parse().unwrap()), ..NONE }, 0),
        ("endpoint", DeliveryFilter { endpoint: Some(one.id), ..NONE }, 3),
        ("event", DeliveryFilter { event: Some(events[0]), ..NONE }, 2),
        ("event and endpoint", DeliveryFilter { event: Some(events[0]), endpoint: Some(two.id), ..NONE }, 1),
        ("event of another", DeliveryFilter { event: Some(events[2]), tenant: acme(), ..NONE }, 0),
        ("no such event", DeliveryFilter { event: Some(EventId(one.id.0)), ..NONE }, 0),
        ("type", DeliveryFilter { kind: Some("a.b".parse().unwrap()), ..NONE }, 5),
        ("type and tenant", DeliveryFilter { kind: Some("a.c".parse().unwrap()), tenant: acme(), ..NONE }, 2),
        ("pending", DeliveryFilter { state: Some(StateName::Pending), ..NONE }, 3),
        ("retrying", DeliveryFilter { state: Some(StateName::Retrying), ..NONE }, 1),
        ("in flight", DeliveryFilter { state: Some(StateName::InFlight), ..NONE }, 1),
        ("delivered", DeliveryFilter { state: Some(StateName::Delivered), ..NONE }, 1),
        ("failed", DeliveryFilter { state: Some(StateName::Failed), ..NONE }, 1),
        ("failed, tenant", DeliveryFilter { state: Some(StateName::Failed), tenant: acme(), ..NONE }, 1),
        (
            "failed, elsewhere",
            DeliveryFilter { state: Some(StateName::Failed), endpoint: Some(two.id), tenant: acme(), ..NONE },
            0,
        ),
        ("cancelled", DeliveryFilter { state: Some(StateName::Cancelled), ..NONE }, 0),
        ("from", DeliveryFilter { from: at(10), ..NONE }, 5),
        ("until", DeliveryFilter { until: at(10), ..NONE }, 2),
        ("between", DeliveryFilter { from: at(10), until: at(30), ..NONE }, 3),
        (
            "a moment later",
            DeliveryFilter { from: at(10).map(|at| at + Duration::from_micros(1)), ..NONE },
            3,
        ),
        (
            "failed then",
            DeliveryFilter { state: Some(StateName::Failed), from: at(10), until: at(11), ..NONE },
            1,
        ),
        ("failed later", DeliveryFilter { state: Some(StateName::Failed), from: at(11), ..NONE }, 0),
    ];
    for (name, filter, expected) in table {
        let found = world.found(&filter, 2).await;
        assert_eq!(found.len(), expected, "{name}");
        assert!(found.is_sorted_by(|newer, older| newer > older), "{name}: the newest first, each once");
        assert_eq!(found, world.found(&filter, 500).await, "{name}: whatever the page");
    }
    for text in ["", "7", "evt_0000000000000", "zzzzzzzzzzzzz"] {
        let cursor = crate::records::Cursor(text.to_owned());
        let refused = world.records.deliveries(&NONE, &PageOf::after(cursor, 5)).await;
        assert!(matches!(refused, Err(RecordsError::Cursor)), "{text}: {refused:?}");
    }
}

pub async fn attempts_are_listed_the_newest_first(world: &mut World) {
    world.tenant("acme").await;
    let endpoint = world.endpoint("acme", "https://a.example/").await;
    world.event("acme", "a.b").await;
    let mut made = Vec::new();
    for number in 0..5_u16 {
        let leased = &world.claim(endpoint.lane(), 1).await[0];
        let mut tried = attempt(world.now());
        tried.status = (number != 2).then_some(500 + number);
        tried.fault = (number == 2).then_some(Fault::Tls);
        tried.detail = (number == 2).then(|| "no trust".to_owned());
        tried.probe = number == 3;
        made.insert(0, tried.clone());
        let next = NextStep::Retry { due_at: world.now(), uses_attempt: true, failed_probe: None };
        world
            .queue
            .settle(Settlement { id: leased.id, lease: leased.lease, attempt: tried, next, stands_for: None })
            .await
            .unwrap();
        world.clock.advance(Duration::from_secs(1));
    }
    let id = world.found(&NONE, 1).await[0];
    let mut page = PageOf::first(2);
    let mut found = Vec::new();
    loop {
        let answer = world.records.attempts(id, &page).await.unwrap();
        found.extend(answer.items);
        let Some(next) = answer.next else { break };
        page = PageOf::after(next, 2);
    }
    assert_eq!(found, made);
    assert_eq!(world.records.delivery(id).await.unwrap().attempts, 5);
    let missing = world.records.attempts(DeliveryId(endpoint.id.0), &PageOf::default()).await;
    assert!(matches!(missing, Err(RecordsError::Missing { what: "delivery", .. })), "{missing:?}");
}

pub async fn a_waiting_delivery_can_be_cancelled_and_nothing_else(world: &mut World) {
    world.tenant("acme").await;
    let endpoint = world.endpoint("acme", "https://a.example/").await;
    let event = world.event("acme", "a.b").await;
    world.event("acme", "a.b").await;
    let id = world.of_event(event).await[0].id;
    let cancelled = world.records.cancel_delivery(id).await.unwrap();
    assert_eq!((cancelled.state, cancelled.finished_at), (DeliveryState::Cancelled, Some(world.now())));
    assert_eq!(world.backlog("acme").await, 1);
    let held = world.claim(endpoint.lane(), 5).await;
    assert_eq!(held.len(), 1, "the cancelled one is not there any more");
    for (id, state) in [(id, StateName::Cancelled), (held[0].id, StateName::InFlight)] {
        let refused = world.records.cancel_delivery(id).await;
        assert!(
            matches!(&refused, Err(RecordsError::State { state: found, .. }) if *found == state),
            "{refused:?}"
        );
    }
    let missing = world.records.cancel_delivery(DeliveryId(endpoint.id.0)).await;
    assert!(matches!(missing, Err(RecordsError::Missing { .. })), "{missing:?}");
    assert_eq!(world.backlog("acme").await, 1);
}

pub async fn a_finished_delivery_waits_again_with_all_its_attempts(world: &mut World) {
    world.tenant("acme").await;
    let endpoint = world.endpoint("acme", "https://a.example/").await;
    let mut new = event("a.b");
    new.expires_at = Some(world.now() + Duration::from_secs(100));
    let event = world.submit("acme", new).await.unwrap();
    let id = world.of_event(event).await[0].id;
    for next in [NextStep::Delivered, NextStep::Failed(FailReason::Exhausted)] {
        let leased = world.claim(endpoint.lane(), 1).await;
        assert_eq!((leased[0].id, leased[0].attempts, leased[0].event), (id, 0, event));
        let waiting = world.records.resend_delivery(id).await;
        assert!(matches!(waiting, Err(RecordsError::State { .. })), "{waiting:?}");
        world.settle(&leased[0], next).await;
        assert_eq!(world.backlog("acme").await, 0);
        world.clock.advance(Duration::from_secs(1_000));
        let resent = world.records.resend_delivery(id).await.unwrap();
        assert_eq!((resent.state, resent.attempts), (DeliveryState::Pending, 0));
        assert_eq!((resent.due_at, resent.finished_at), (Some(world.now()), None));
        assert_eq!(resent.expires_at, Some(world.now() + Duration::from_secs(100)), "as long as at first");
        assert_eq!(world.backlog("acme").await, 1);
    }
    world.records.cancel_delivery(id).await.unwrap();
    world.records.resend_delivery(id).await.unwrap();
    world.restart().await;
    assert_eq!(world.backlog("acme").await, 1);
    let attempts = world.records.attempts(id, &PageOf::default()).await.unwrap();
    assert_eq!(attempts.items.len(), 2, "what was tried before is remembered");
}

pub async fn a_resent_delivery_lives_as_long_as_its_endpoint_says(world: &mut World) {
    world.tenant("acme").await;
    let hour = Duration::from_secs(3_600);
    let endpoint = world
        .endpoint_with("acme", "https://a.example/", |settings| settings.expires_after = Some(hour))
        .await;
    let event = world.event("acme", "a.b").await;
    let id = world.of_event(event).await[0].id;
    world.clock.advance(2 * hour);
    assert_eq!(world.queue.expire(10).await.unwrap().done, 1);
    let failed = world.records.delivery(id).await.unwrap();
    assert_eq!(failed.state, DeliveryState::Failed(FailReason::Expired));
    for _ in 0..2 {
        let resent = world.records.resend_delivery(id).await.unwrap();
        assert_eq!(resent.expires_at, Some(world.now() + hour));
        world.clock.advance(Duration::from_secs(60));
        world.fail_all(endpoint.lane()).await;
    }
}

pub async fn a_resend_needs_room_and_an_endpoint(world: &mut World) {
    let tenant = world
        .tenant_with("acme", |settings| settings.backlog = Some(Backlog { count: 2, ..Backlog::default() }))
        .await;
    let endpoint = world.endpoint("acme", "https://a.example/").await;
    let failed = world.event("acme", "a.b").await;
    world.fail_all(endpoint.lane()).await;
    let id = world.of_event(failed).await[0].id;
    for _ in 0..2 {
        world.event("acme", "a.b").await;
    }
    let refused = world.records.resend_delivery(id).await;
    assert!(matches!(refused, Err(RecordsError::BacklogFull { waiting: 2, .. })), "{refused:?}");
    let mut settings = tenant_settings("acme");
    settings.backlog = Some(Backlog { count: 100, bytes: 20 });
    world.records.change_tenant(&tenant.id, settings, None).await.unwrap();
    let refused = world.records.resend_delivery(id).await;
    assert!(matches!(refused, Err(RecordsError::BacklogFull { bytes: 14, .. })), "{refused:?}");
    assert_eq!(world.records.delivery(id).await.unwrap().state.name(), StateName::Failed);
    world.records.delete_endpoint(endpoint.id, None).await.unwrap();
    let refused = world.records.resend_delivery(id).await;
    assert!(matches!(refused, Err(RecordsError::Missing { what: "endpoint", .. })), "{refused:?}");
}

pub async fn a_dynamic_delivery_is_resent_to_its_url(world: &mut World) {
    world.tenant("acme").await;
    let mut new = event("a.b");
    new.url = Some("https://anywhere.example/in".parse().unwrap());
    let event = world.submit("acme", new).await.unwrap();
    let delivery = world.of_event(event).await.remove(0);
    assert_eq!((delivery.endpoint, delivery.url.as_deref()), (None, Some("https://anywhere.example/in")));
    let lane = world.queue.waiting_lanes(None, 5).await.unwrap()[0].lane;
    world.fail_all(lane).await;
    assert_eq!(world.queue.waiting_lanes(None, 5).await.unwrap(), []);
    world.records.resend_delivery(delivery.id).await.unwrap();
    let waiting = world.queue.waiting_lanes(None, 5).await.unwrap();
    assert_eq!(waiting[0].dynamic.as_deref(), Some("acme https://anywhere.example/in"));
    assert_eq!(world.claim(waiting[0].lane, 1).await[0].id, delivery.id);
    assert_eq!(world.backlog("acme").await, 1);
}
