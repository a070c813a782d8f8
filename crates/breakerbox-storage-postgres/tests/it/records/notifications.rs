//! Notifications: inserted with their cause, listed, sent, counted, and deleted.

use std::time::Duration;

use breakerbox_core::{Cause, Change, CircuitStatus, Epoch, Policy, TripRule};
use breakerbox_model::notifications::{
    CircuitContext, Kind, Kinds, MOST_WAITING, News, Notification, NotificationTarget, OutageStep, Way,
    notifications,
};
use breakerbox_model::objects::{Id, NotificationId, PastChange, TenantId};
use breakerbox_storage::RecordsError;
use breakerbox_storage::conformance::records::reminders::MINUTE;
use breakerbox_storage::records::{NotificationFilter, ObservedChange, PageOf, SendResult, SendState};

use super::world::World;

const TARGET: &str = "tgt_hook";

fn acme() -> TenantId {
    "acme".parse().unwrap()
}

async fn world() -> World {
    let world = World::on_postgres().await;
    let url = "https://hooks.example/in".parse().unwrap();
    let target = NotificationTarget { name: TARGET.into(), way: Way::Slack { url }, on: Kinds::ALL };
    world.tenant_with("acme", |settings| settings.notification_targets = vec![target]).await;
    world
}

fn observed(world: &World, epoch: u64, to: CircuitStatus, cause: Cause) -> ObservedChange {
    let key = "acme https://a.example/in";
    let mut change = Change::new(CircuitStatus::Closed, to, world.now(), Epoch(epoch), cause);
    change.trips = 1;
    let known = CircuitContext {
        policy: &Policy::default(),
        endpoints: &[],
        last: None,
        is_unreported_outage: false,
    };
    let outage = OutageStep::of(key, &change, &known, MINUTE);
    let notifications = notifications(key, &change, &known);
    ObservedChange { change: PastChange { key: key.into(), change }, notifications, outage }
}

async fn kinds(world: &World, filter: &NotificationFilter) -> Vec<Kind> {
    let found = world.records.notifications(filter, &PageOf::first(100)).await.unwrap();
    found.items.iter().map(|past| past.notification.kind()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trip_is_sent_if_the_outage_lasts_and_its_recovery_then_too() {
    let world = world().await;
    let records = &world.records;
    let trip = || observed(&world, 1, CircuitStatus::Open, Cause::Rule(TripRule::Failures));
    let closed = |epoch| observed(&world, epoch, CircuitStatus::Closed, Cause::ProbesSucceeded);
    // A short outage: neither its beginning nor its end is notified.
    assert_eq!(records.append_history(vec![trip()]).await.unwrap(), 1);
    assert_eq!(records.append_history(vec![trip(), closed(2)]).await.unwrap(), 1, "each change once");
    world.clock.advance(2 * MINUTE);
    assert_eq!(records.due_trips(10).await.unwrap(), []);
    assert_eq!(kinds(&world, &NotificationFilter::default()).await, []);
    // A long one.
    let again = observed(&world, 3, CircuitStatus::Open, Cause::Rule(TripRule::Failures));
    records.append_history(vec![again]).await.unwrap();
    assert_eq!(records.due_trips(10).await.unwrap(), [], "not yet");
    world.clock.advance(2 * MINUTE);
    let due = records.due_trips(10).await.unwrap();
    assert_eq!(due.len(), 1);
    assert!(records.settle_trip(due[0].clone(), false).await.unwrap());
    assert!(!records.settle_trip(due[0].clone(), false).await.unwrap(), "once");
    assert_eq!(records.due_trips(10).await.unwrap(), []);
    records.append_history(vec![closed(4)]).await.unwrap();
    assert_eq!(kinds(&world, &NotificationFilter::default()).await, [Kind::Recovery, Kind::Trip]);
    let theirs =
        NotificationFilter { tenant: Some(acme()), kind: Some(Kind::Trip), state: Some(SendState::Waiting) };
    assert_eq!(kinds(&world, &theirs).await, [Kind::Trip]);
    let sent = NotificationFilter { state: Some(SendState::Sent), ..theirs };
    assert_eq!(kinds(&world, &sent).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_due_at_a_target_is_sent_and_the_result_is_kept() {
    let world = world().await;
    let records = &world.records;
    for count in 1..=3 {
        let news = Notification::dead_letters(acme(), count, count, world.now());
        assert!(records.notify(news.clone()).await.unwrap());
        assert!(!records.notify(news).await.unwrap(), "kind, subject and epoch are unique");
        world.clock.advance(MINUTE);
    }
    let waiting = records.waiting_targets().await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!((&*waiting[0].name, &waiting[0].tenant), (TARGET, &Some(acme())));
    assert_eq!((waiting[0].waiting, waiting[0].due, waiting[0].not_kept), (3, 3, 0));
    let due = records.due_notifications(TARGET, 10).await.unwrap();
    assert_eq!(due.iter().map(|due| due.headline.kind).collect::<Vec<_>>(), [Kind::DeadLetters; 3]);
    let ids: Vec<_> = due.iter().map(|due| due.headline.id).collect();
    let later = world.now() + MINUTE;
    let result = SendResult {
        target: TARGET.into(),
        message: "msg".into(),
        answer: "200".into(),
        notifications: vec![
            (ids[0], SendState::Sent, world.now()),
            (ids[1], SendState::Waiting, later),
            (ids[2], SendState::GivenUp, world.now()),
        ],
        said_not_kept: 0,
        tried: true,
    };
    records.settle_message(result.clone()).await.unwrap();
    records
        .settle_message(SendResult { notifications: result.notifications[..1].to_vec(), ..result.clone() })
        .await
        .unwrap();
    let waiting = records.waiting_targets().await.unwrap();
    assert_eq!((waiting[0].waiting, waiting[0].due), (1, 0));
    let shown = records.notification(ids[1]).await.unwrap();
    let send = &shown.sends[0];
    assert_eq!((send.state, send.tries, send.due_at), (SendState::Waiting, 1, Some(later)));
    assert_eq!((send.answer.as_deref(), send.message.as_deref()), (Some("200"), Some("msg")));
    let missing = records.notification(NotificationId(Id::first_at(world.now()))).await;
    assert!(matches!(missing, Err(RecordsError::Missing { what: "notification", .. })), "{missing:?}");
    world.clock.advance(Duration::from_secs(86_400));
    assert_eq!(records.prune_notifications(world.now(), 10).await.unwrap(), 2, "one still waits");
    records
        .settle_message(SendResult {
            notifications: vec![(ids[1], SendState::Dropped, world.now())],
            ..result
        })
        .await
        .unwrap();
    assert_eq!(records.waiting_targets().await.unwrap(), []);
    assert_eq!(records.prune_notifications(world.now(), 10).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_beyond_the_bound_is_counted() {
    let world = world().await;
    let transaction = world.database().begin().await.unwrap();
    let sql = "INSERT INTO notification_targets (name, waiting, not_kept) VALUES ($1, $2, 0)";
    let most = i64::try_from(MOST_WAITING).unwrap();
    transaction.execute(sql, &[&TARGET, &(most - 1)]).await.unwrap();
    transaction.commit().await.unwrap();
    for count in 1..=3 {
        world.records.notify(Notification::dead_letters(acme(), count, count, world.now())).await.unwrap();
        world.clock.advance(MINUTE);
    }
    let waiting = world.records.waiting_targets().await.unwrap();
    assert_eq!((waiting[0].waiting, waiting[0].due, waiting[0].not_kept), (MOST_WAITING, 1, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_store_is_told_once_until_it_is_back() {
    let world = world().await;
    let told = |notification| world.records.notify(notification);
    assert!(!told(Notification::store_back(world.now())).await.unwrap(), "it was not lost");
    let since = world.now();
    assert!(told(Notification::store_lost("no answer", since)).await.unwrap());
    world.clock.advance(MINUTE);
    assert!(!told(Notification::store_lost("no answer", world.now())).await.unwrap());
    assert!(told(Notification::store_back(world.now())).await.unwrap());
    let all = world.records.notifications(&NotificationFilter::default(), &PageOf::first(1)).await.unwrap();
    let News::StoreBack { since: told_since } = all.items[0].notification.news else { panic!("{all:?}") };
    assert_eq!(told_since.map(|moment| moment.0), Some(since));
    let next = PageOf::after(all.next.expect("there is another"), 10);
    let rest = world.records.notifications(&NotificationFilter::default(), &next).await.unwrap();
    assert_eq!((rest.items.len(), rest.next), (1, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_are_counted_by_tenant_and_minute_and_each_once() {
    let world = world().await;
    let endpoint = world.endpoint("acme", "https://a.example/").await;
    let begin = world.now();
    let mut from = begin;
    let mut counted = 0;
    for _ in 0..3 {
        world.event("acme", "a.b").await;
        world.fail_all(endpoint.lane()).await;
        world.clock.advance(MINUTE);
        let failed = world.records.failed_since(from).await.unwrap();
        assert!(failed.of.iter().all(|(tenant, _, _)| *tenant == acme()));
        counted += failed.of.iter().map(|(_, _, count)| count).sum::<u64>();
        from = failed.until;
    }
    assert_eq!(counted, 3);
    let all = world.records.failed_since(begin).await.unwrap();
    assert_eq!(all.of.len(), 3, "one for each minute");
}
