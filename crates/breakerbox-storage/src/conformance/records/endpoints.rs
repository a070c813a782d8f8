//! Endpoints: create, change, delete, and the notification of watchers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::records::{NewEndpoint, PageOf};
use crate::{Changed, Defaults, RecordsError, Watcher};
use breakerbox_model::delivery::{CustomHeaders, NextStep};
use breakerbox_model::objects::{
    DeliveryFilter, DeliveryState, DisabledBecause, Filter, NewBatch, RateLimit, Secret, StateName,
};
use serde_json::json;

use super::world::World;
use super::world::{endpoint_settings, event, tenant_settings};

pub async fn an_endpoint_is_as_it_was_created_and_after_a_restart_too(world: &mut World) {
    world.tenant("acme").await;
    let mut settings = endpoint_settings("https://a.example/in?token=7");
    settings.description = "orders".into();
    settings.filter = Filter::any_of(["order.*", "user.created"]).unwrap();
    settings.headers = CustomHeaders::new([("authorization", "Bearer s3cret")]).unwrap();
    settings.timeout = Some(Duration::from_millis(2_500));
    settings.max_in_flight = Some(3);
    settings.rate = Some(RateLimit { per_second: 2.5, burst: 9 });
    settings.retry = Some("3s".parse().unwrap());
    settings.policy = Some(json!({ "failures": 9 }));
    settings.expires_after = Some(Duration::from_secs(99));
    let new = NewEndpoint {
        tenant: "acme".parse().unwrap(),
        settings: settings.clone(),
        secret: Some(Secret::random()),
        disabled: true,
    };
    let created = world.records.create_endpoint(new.clone()).await.unwrap();
    assert_eq!(created.settings, settings);
    assert_eq!(created.disabled, Some(DisabledBecause::Owner));
    for _ in 0..2 {
        assert_eq!(world.records.endpoint(created.id).await.unwrap(), created);
        let entry = world.directory.endpoint(created.lane()).unwrap();
        assert_eq!(&*entry.circuit, "acme https://a.example/in");
        assert!(!entry.is_enabled());
        world.restart().await;
    }
    let nobodys = NewEndpoint { tenant: "nobody".parse().unwrap(), ..new.clone() };
    let refused = world.records.create_endpoint(nobodys).await;
    assert!(matches!(refused, Err(RecordsError::Missing { what: "tenant", .. })), "{refused:?}");
    let wrong = endpoint_settings("ftp://a.example/");
    let refused = world.records.create_endpoint(NewEndpoint { settings: wrong, ..new }).await;
    assert!(matches!(refused, Err(RecordsError::Url(_))), "{refused:?}");
    assert_eq!(world.records.endpoints(None, &PageOf::default()).await.unwrap().items.len(), 1);
}

pub async fn an_endpoint_gets_what_is_accepted_after_its_creation(world: &mut World) {
    world.tenant("acme").await;
    world.tenant("other").await;
    let before = world.event("acme", "order.paid").await;
    let orders = |settings: &mut breakerbox_model::objects::EndpointSettings| {
        settings.filter = Filter::any_of(["order.*"]).unwrap();
    };
    let endpoint = world.endpoint_with("acme", "https://a.example/", orders).await;
    world.endpoint("other", "https://a.example/").await;
    let after = world.event("acme", "order.paid").await;
    let another = world.event("acme", "user.created").await;
    assert_eq!(world.of_event(before).await, []);
    assert_eq!(world.of_event(another).await, []);
    let deliveries = world.of_event(after).await;
    assert_eq!(deliveries.iter().map(|delivery| delivery.endpoint).collect::<Vec<_>>(), [Some(endpoint.id)]);
    // Each change clears the cached endpoints of an event type.
    let all = endpoint_settings("https://a.example/");
    world.records.change_endpoint(endpoint.id, all, None).await.unwrap();
    let another = world.event("acme", "user.created").await;
    assert_eq!(world.of_event(another).await.len(), 1);
    world.records.delete_endpoint(endpoint.id, None).await.unwrap();
    let late = world.event("acme", "user.created").await;
    assert_eq!(world.of_event(late).await, []);
}

pub async fn waiting_deliveries_follow_an_endpoint_to_its_new_url(world: &mut World) {
    world.tenant("acme").await;
    let endpoint = world.endpoint("acme", "https://old.example/").await;
    world.event("acme", "a.b").await;
    let moved = endpoint_settings("https://new.example/");
    world.records.change_endpoint(endpoint.id, moved, None).await.unwrap();
    let leased = world.claim(endpoint.lane(), 10).await;
    assert_eq!(leased.len(), 1);
    let entry = world.directory.endpoint(leased[0].lane).unwrap();
    assert_eq!(entry.url.as_str(), "https://new.example/");
    assert_eq!(&*entry.circuit, "acme https://new.example");
}

pub async fn two_who_change_an_endpoint_notice_each_other(world: &mut World) {
    world.tenant("acme").await;
    let seen = world.endpoint("acme", "https://a.example/").await;
    let same =
        world.records.change_endpoint(seen.id, seen.settings.clone(), Some(seen.revision)).await.unwrap();
    assert_eq!(same, seen, "nothing changed, and nobody is disturbed");
    let other = endpoint_settings("https://b.example/");
    let changed = world.records.change_endpoint(seen.id, other.clone(), Some(seen.revision)).await.unwrap();
    for refused in [
        world.records.change_endpoint(seen.id, seen.settings.clone(), Some(seen.revision)).await.map(drop),
        world.records.delete_endpoint(seen.id, Some(seen.revision)).await.map(drop),
    ] {
        assert!(matches!(refused, Err(RecordsError::Changed { .. })), "{refused:?}");
    }
    assert_eq!(world.records.endpoint(seen.id).await.unwrap(), changed);
    world.records.delete_endpoint(seen.id, Some(changed.revision)).await.unwrap();
}

pub async fn a_disabled_endpoint_says_why(world: &mut World) {
    world.tenant("acme").await;
    let id = world.endpoint("acme", "https://a.example/").await.id;
    for (set, kept) in [
        (Some(DisabledBecause::Gone), Some(DisabledBecause::Gone)),
        (Some(DisabledBecause::Owner), Some(DisabledBecause::Owner)),
        (Some(DisabledBecause::Circuit), Some(DisabledBecause::Owner)),
        (None, None),
    ] {
        assert_eq!(world.records.set_endpoint_disabled(id, set).await.unwrap().disabled, kept);
        assert_eq!(world.directory.endpoint(id.into()).unwrap().is_enabled(), kept.is_none());
        world.restart().await;
        assert_eq!(world.records.endpoint(id).await.unwrap().disabled, kept);
    }
    world.records.set_endpoint_disabled(id, Some(DisabledBecause::Owner)).await.unwrap();
    let event = world.event("acme", "a.b").await;
    assert_eq!(world.of_event(event).await.len(), 1, "its events are parked, not dropped");
}

pub async fn deleting_cancels_what_waits_and_says_how_much(world: &mut World) {
    world.tenant("acme").await;
    let doomed = world.endpoint("acme", "https://a.example/").await;
    let spared = world.endpoint("acme", "https://b.example/").await;
    for _ in 0..5 {
        world.event("acme", "a.b").await;
    }
    world.fail_all(doomed.lane()).await;
    for _ in 0..7 {
        world.event("acme", "a.b").await;
    }
    let _held = world.claim(doomed.lane(), 2).await;
    let backlog = world.records.backlogs_of(&[doomed.lane()]).await.unwrap().remove(0);
    assert_eq!(backlog.unwrap().unfinished.count, 7);
    let deleted = world.records.delete_endpoint(doomed.id, None).await.unwrap();
    assert_eq!(deleted.cancelled, 5, "five failed before, two are in flight");
    assert!(world.records.endpoint(doomed.id).await.is_err());
    let mut cancelled = 0;
    loop {
        let batch = world.records.cancel_orphans(2).await.unwrap();
        assert!(batch.done <= 2);
        cancelled += batch.done;
        if !batch.more {
            break;
        }
    }
    assert_eq!(cancelled, 5);
    let states = |state| breakerbox_model::objects::DeliveryFilter {
        endpoint: Some(doomed.id),
        state: Some(state),
        ..breakerbox_model::objects::DeliveryFilter::default()
    };
    assert_eq!(world.found(&states(StateName::Cancelled), 3).await.len(), 5);
    assert_eq!(world.found(&states(StateName::Failed), 3).await.len(), 5);
    assert_eq!(world.backlog("acme").await, 12 + 2);
    assert_eq!(world.claim(spared.lane(), 100).await.len(), 12);
    world.restart().await;
    world.records.cancel_orphans(100).await.unwrap();
    assert_eq!(world.backlog("acme").await, 12, "those in flight were of the start before");
}

pub async fn what_a_deletion_cancels_is_shown_so_at_once(world: &mut World) {
    world.tenant("acme").await;
    let doomed = world.endpoint("acme", "https://a.example/").await;
    for _ in 0..7 {
        world.event("acme", "a.b").await;
    }
    let states =
        |state| DeliveryFilter { endpoint: Some(doomed.id), state: Some(state), ..DeliveryFilter::default() };
    let waiting = world.found(&states(StateName::Pending), 3).await;
    assert_eq!(waiting.len(), 7);
    assert_eq!(world.records.delete_endpoint(doomed.id, None).await.unwrap().cancelled, 7);
    assert_eq!(world.found(&states(StateName::Pending), 3).await, []);
    assert_eq!(world.found(&states(StateName::Cancelled), 3).await, waiting);
    let shown = world.records.delivery(waiting[0]).await.unwrap();
    assert_eq!(
        (shown.state, shown.finished_at, shown.due_at),
        (DeliveryState::Cancelled, Some(world.now()), None)
    );
    let again = world.records.cancel_delivery(waiting[0]).await;
    assert!(matches!(again, Err(RecordsError::State { state: StateName::Cancelled, .. })), "{again:?}");
    let resent = world.records.resend_delivery(waiting[0]).await;
    assert!(matches!(resent, Err(RecordsError::Missing { what: "endpoint", .. })), "{resent:?}");
    world.clock.advance(Duration::from_secs(11));
    while world.records.cancel_orphans(2).await.unwrap().more {}
    assert_eq!(world.records.delivery(waiting[0]).await.unwrap(), shown, "it is as it was shown");
    assert_eq!(world.found(&states(StateName::Cancelled), 3).await, waiting);
    assert_eq!(world.backlog("acme").await, 0);
}

pub async fn a_tenant_has_a_limited_number_of_endpoints(world: &mut World) {
    world.tenant("acme").await;
    world.tenant("other").await;
    world.restart_with(Defaults { endpoints: 2, ..Defaults::default() }).await;
    let first = world.endpoint("acme", "https://a.example/").await;
    world.endpoint("acme", "https://b.example/").await;
    let new = |tenant: &str| NewEndpoint {
        tenant: tenant.parse().unwrap(),
        settings: endpoint_settings("https://c.example/"),
        secret: None,
        disabled: false,
    };
    let refused = world.records.create_endpoint(new("acme")).await;
    assert!(matches!(refused, Err(RecordsError::EndpointsFull { limit: 2, .. })), "{refused:?}");
    world.records.create_endpoint(new("other")).await.unwrap();
    world.records.delete_endpoint(first.id, None).await.unwrap();
    world.records.create_endpoint(new("acme")).await.unwrap();
}

pub async fn a_fan_out_under_way_is_shown_and_counted(world: &mut World) {
    world.tenant("acme").await;
    let first = world.endpoint("acme", "https://a.example/").await;
    let doomed = world.endpoint("acme", "https://b.example/").await;
    let events = vec![event("a.b"); 600];
    let batch = NewBatch { tenant: "acme".parse().unwrap(), events, idempotency: None };
    let accepted = world.queue.submit(batch).await.unwrap();
    assert_eq!(accepted.deferred, 200);
    let last = accepted.events[599].id;
    let shown = world.records.event(last).await.unwrap();
    assert_eq!((shown.deliveries, shown.fanning_out), (2, 2));
    assert_eq!(world.of_event(last).await, [], "none of them has a row yet");
    let whole = world.records.waiting().await.unwrap();
    assert_eq!((whole.backlog.count, whole.fanning_out), (1_200, 200));
    let tenant = "acme".parse().unwrap();
    assert_eq!(world.records.backlog(&tenant).await.unwrap().count, 1_200);
    let deleted = world.records.delete_endpoint(doomed.id, None).await.unwrap();
    assert_eq!(deleted.cancelled, 600, "those without a row, too");
    while world.queue.fan_out(64).await.unwrap().more {}
    let shown = world.records.event(last).await.unwrap();
    assert_eq!((shown.deliveries, shown.fanning_out), (2, 0));
    let of_last: Vec<_> =
        world.of_event(last).await.into_iter().map(|delivery| (delivery.endpoint, delivery.state)).collect();
    assert_eq!(
        of_last,
        [(Some(first.id), DeliveryState::Pending), (Some(doomed.id), DeliveryState::Cancelled)]
    );
    while world.records.cancel_orphans(500).await.unwrap().more {}
    let whole = world.records.waiting().await.unwrap();
    assert_eq!((whole.backlog.count, whole.fanning_out), (600, 0));
}

pub async fn what_is_in_flight_at_a_deletion_is_not_tried_again(world: &mut World) {
    world.tenant("acme").await;
    let endpoint = world.endpoint("acme", "https://a.example/").await;
    for _ in 0..3 {
        world.event("acme", "a.b").await;
    }
    let held = world.claim(endpoint.lane(), 3).await;
    let deleted = world.records.delete_endpoint(endpoint.id, None).await.unwrap();
    assert_eq!(deleted.cancelled, 0);
    world.settle(&held[0], NextStep::Delivered).await;
    let retry = NextStep::Retry { due_at: world.now(), uses_attempt: true, failed_probe: None };
    world.settle(&held[1], retry).await;
    world.queue.hand_back(held[2].id, held[2].lease).await.unwrap();
    world.records.cancel_orphans(100).await.unwrap();
    let mut states = Vec::new();
    for leased in &held {
        states.push(world.records.delivery(leased.id).await.unwrap().state);
    }
    assert_eq!(states, [DeliveryState::Delivered, DeliveryState::Cancelled, DeliveryState::Cancelled]);
    assert_eq!(world.backlog("acme").await, 0);
}

#[derive(Clone, Default)]
struct RecordingWatcher(Arc<Mutex<Vec<String>>>);

impl Watcher for RecordingWatcher {
    fn changed(&self, changed: Changed<'_>) {
        let text = match changed {
            Changed::Tenant(tenant) => format!("tenant {}", tenant.source.settings.name),
            Changed::TenantGone(tenant) => format!("no tenant {tenant}"),
            Changed::Endpoint(endpoint) => format!("endpoint {} {}", endpoint.url, endpoint.is_enabled()),
            Changed::EndpointGone(_) => "no endpoint".to_owned(),
            Changed::Woken(lane) => format!("woken {}", lane.count),
            // A backend may report this at any time.
            Changed::Reminders => return,
            other => format!("{other:?}"),
        };
        self.0.lock().unwrap().push(text);
    }
}

pub async fn watchers_hear_after_the_commit(world: &mut World) {
    let heard = RecordingWatcher::default();
    assert!(world.directory.watch(heard.clone()));
    assert!(!world.directory.watch(heard.clone()), "one is enough");
    let take = || std::mem::take(&mut *heard.0.lock().unwrap());
    let acme = world.tenant("acme").await.id;
    let id = world.endpoint("acme", "https://a.example/").await.id;
    assert_eq!(take(), ["tenant acme", "endpoint https://a.example/ true"]);
    let mut off = tenant_settings("off");
    off.enabled = false;
    world.records.change_tenant(&acme, off, None).await.unwrap();
    assert_eq!(take(), ["tenant off", "endpoint https://a.example/ false"]);
    let mut wrong = tenant_settings("wrong");
    wrong.policy = Some(json!(7));
    world.records.change_tenant(&acme, wrong, None).await.unwrap_err();
    assert_eq!(take(), [""; 0], "what was refused did not happen");
    let event = world.event("acme", "a.b").await;
    world.fail_all(id.into()).await;
    world.records.resend_delivery(world.of_event(event).await[0].id).await.unwrap();
    assert_eq!(take(), ["woken 1"]);
    world.records.delete_endpoint(id, None).await.unwrap();
    world.records.cancel_orphans(10).await.unwrap();
    world.records.delete_tenant(&acme, None).await.unwrap();
    assert_eq!(take(), ["no endpoint", "no tenant acme"]);
}
