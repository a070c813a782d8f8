//! A row that can't be read is skipped or stopped, and never blocks others.

use breakerbox_model::notifications::Kind;
use breakerbox_model::objects::{DeliveryFilter, DeliveryState, FailReason, ResendState};
use breakerbox_storage::conformance::records::reminders::{MINUTE, every_minute, new, once};
use breakerbox_storage::records::{NewResend, NotificationFilter, PageOf, ReminderFilter};
use breakerbox_storage::{Claim, QueueError, RecordsError};
use breakerbox_storage_sqlite::JobError;

use super::world::World;

/// The number of reminders that the scheduler reads at once.
const PIECE: usize = 48;

impl World {
    /// Damages the stored data with an SQL statement.
    async fn damage(&self, sql: &str) -> usize {
        let (database, sql) = (self.database(), sql.to_owned());
        let write = database.write(move |transaction| {
            Ok::<_, JobError<QueueError>>(transaction.connection().execute(&sql, [])?)
        });
        write.await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_reminders_stop_and_keep_no_other_waiting() {
    let world = World::on_sqlite().await;
    world.tenant("acme").await;
    let now = world.now();
    let mut first = new(every_minute(now + MINUTE));
    first.settings.reference = Some("invoice 17".into());
    let first = world.records.create_reminder(first).await.unwrap();
    for _ in 0..PIECE + 12 {
        world.reminder(every_minute(now + MINUTE)).await;
    }
    let damaged = world.damage("UPDATE reminders SET settings = '{\"url\":\"https://a.example/\"}'").await;
    assert_eq!(damaged, PIECE + 13);
    let good = world.reminder(once(now + 2 * MINUTE)).await;
    world.clock.advance(3 * MINUTE);

    let looked = world.reminder_store.due_reminders(world.now(), PIECE).await.unwrap();
    assert_eq!(looked.iter().map(|looked| looked.id).collect::<Vec<_>>(), [good.id]);
    assert_eq!(world.run_scheduler().await.fired, 1);
    assert_eq!(world.reminder_store.next_check_at().await.unwrap(), None, "none of them is due any more");

    let all = world.records.reminders(&ReminderFilter::default(), &PageOf::first(100)).await.unwrap();
    assert_eq!(all.items.iter().map(|shown| shown.id).collect::<Vec<_>>(), [good.id]);
    let shown = world.records.reminder(first.id).await;
    assert!(matches!(shown, Err(RecordsError::Unreadable { what: "reminder", .. })), "{shown:?}");
    let filter = NotificationFilter { kind: Some(Kind::ReminderStopped), ..NotificationFilter::default() };
    let told = world.records.notifications(&filter, &PageOf::first(100)).await.unwrap().items;
    assert_eq!(told.len(), PIECE + 13, "its owner is notified of each, once");
    assert!(told[0].notification.text().body.contains("can't be read"), "{:?}", told[0].notification.text());

    let mut again = new(every_minute(now + MINUTE));
    again.settings.reference = Some("invoice 17".into());
    let again = world.records.create_reminder(again).await.expect("its reference is free");
    for id in [good.id, again.id] {
        world.records.cancel_reminder(id).await.unwrap();
    }
    world.clock.advance(40 * 24 * 60 * MINUTE);
    assert_eq!(world.records.prune_reminders(world.now(), 1_000).await.unwrap(), PIECE as u64 + 15);
    world.records.delete_tenant(&"acme".parse().unwrap(), None).await.expect("they count for nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reminder_without_its_payload_stops() {
    let world = World::on_sqlite().await;
    world.tenant("acme").await;
    let reminder = world.reminder(once(world.now() + MINUTE)).await;
    world.damage("DELETE FROM reminder_payloads").await;
    world.clock.advance(2 * MINUTE);
    let applied = world.run_scheduler().await;
    assert_eq!((applied.fired, applied.stopped), (0, 1));
    assert_eq!(world.reminder_store.next_check_at().await.unwrap(), None);
    let shown = world.shown(reminder.id).await;
    assert_eq!(shown.state.name().name(), "stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_delivery_fails_and_keeps_no_other_waiting() {
    let world = World::on_sqlite().await;
    world.tenant("acme").await;
    let (first, second) = (
        world.endpoint("acme", "https://a.example/").await,
        world.endpoint("acme", "https://b.example/").await,
    );
    let damaged = world.event("acme", "a.b").await;
    let missing = world.event("acme", "a.b").await;
    let good = world.event("acme", "a.b").await;
    world.damage(&format!("UPDATE events SET kind = '' WHERE id = {}", damaged.number())).await;
    world.damage(&format!("DELETE FROM events WHERE id = {}", missing.number())).await;
    let lanes = [first.lane(), second.lane()];
    let claim = |lane| Claim::Due {
        lane,
        priority: breakerbox_model::objects::Priority::Medium,
        limit: 10,
        lease: MINUTE,
    };
    let claimed = world.queue.claim(lanes.map(claim).to_vec()).await.expect("the others are claimed");
    for claimed in &claimed {
        let events: Vec<_> = claimed.deliveries.iter().map(|leased| leased.event).collect();
        assert_eq!((events, claimed.unreadable), (vec![good], 2));
        assert_eq!(claimed.next_due, [None; 4], "nothing stays due");
    }
    let state = "SELECT count(*) FROM deliveries WHERE state = 3 AND reason = 4";
    let database = world.database();
    let failed: i64 = database
        .read(move |connection| {
            Ok::<_, JobError<QueueError>>(connection.query_row(state, [], |row| row.get(0))?)
        })
        .await
        .unwrap();
    assert_eq!(failed, 4);
    let all = world.records.deliveries(&DeliveryFilter::default(), &PageOf::first(10)).await.unwrap();
    assert_eq!(all.items.len(), 2, "a listing shows what can be read");
    let shown = world.records.event(damaged).await;
    assert!(matches!(shown, Err(RecordsError::Unreadable { what: "event", .. })), "{shown:?}");
    world.damage("UPDATE events SET kind = 'a.b' WHERE kind = ''").await;
    for delivery in world.of_event(damaged).await {
        assert_eq!(delivery.state, DeliveryState::Failed(FailReason::Unreadable));
    }
    for leased in claimed.into_iter().flat_map(|claimed| claimed.deliveries) {
        world.settle(&leased, breakerbox_model::delivery::NextStep::Delivered).await;
    }
    let counted = world.records.backlog(&"acme".parse().unwrap()).await.unwrap();
    assert_eq!(counted.count, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_without_its_event_expires_with_the_others() {
    let world = World::on_sqlite().await;
    world.tenant_with("acme", |settings| settings.expires_after = Some(MINUTE)).await;
    world.endpoint("acme", "https://a.example/").await;
    let missing = world.event("acme", "a.b").await;
    let good = world.event("acme", "a.b").await;
    world.damage(&format!("DELETE FROM events WHERE id = {}", missing.number())).await;
    world.clock.advance(2 * MINUTE);
    assert_eq!(world.queue.expire(10).await.unwrap().done, 2);
    assert_eq!(world.of_event(good).await[0].state, DeliveryState::Failed(FailReason::Expired));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_run_goes_on_though_its_schedule_is_unreadable() {
    let world = World::on_sqlite().await;
    world.tenant("acme").await;
    let now = world.now();
    let mut latest = new(every_minute(now + MINUTE));
    latest.settings.catch_up = Some(breakerbox_model::reminder::CatchUp::Latest);
    world.records.create_reminder(latest).await.unwrap();
    world.clock.advance(90 * std::time::Duration::from_secs(1));
    assert_eq!(world.run_scheduler().await.fired, 1);
    world.damage("UPDATE reminders SET settings = '{}'").await;
    let run = world.take_run().await.run.expect("it is a run");
    assert_eq!((run.scheduled_at, run.latest_of), (now + MINUTE, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_resend_ends_and_keeps_no_other_waiting() {
    let world = World::on_sqlite().await;
    world.tenant("acme").await;
    let endpoint = world.endpoint("acme", "https://a.example/").await;
    world.event("acme", "a.b").await;
    world.fail_all(endpoint.lane()).await;
    world.clock.advance(MINUTE);
    let filter = DeliveryFilter { tenant: Some("acme".parse().unwrap()), ..DeliveryFilter::default() };
    let create = || world.records.create_resend(NewResend { filter: filter.clone(), by: None });
    let bad = create().await.unwrap();
    world.damage("UPDATE jobs SET wanted = '{}'").await;
    let good = create().await.unwrap();
    let mut steps = 0;
    while world.records.step_resends(10).await.expect("it goes on").more {
        steps += 1;
        assert!(steps < 100, "each ends");
    }
    assert_eq!(world.records.resend(good.id).await.unwrap().state, ResendState::Done);
    assert!(matches!(world.records.resend(bad.id).await, Err(RecordsError::Unreadable { .. })));
    let listed = world.records.resends(None, &PageOf::first(10)).await.unwrap().items;
    assert_eq!(listed.iter().map(|job| job.id).collect::<Vec<_>>(), [good.id]);
}
