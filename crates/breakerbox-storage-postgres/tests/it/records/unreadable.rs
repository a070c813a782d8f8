//! A row that can't be read is skipped or stopped, and never blocks others.

use breakerbox_model::objects::{DeliveryFilter, ResendState};
use breakerbox_storage::RecordsError;
use breakerbox_storage::conformance::records::reminders::{MINUTE, every_minute, new, once};
use breakerbox_storage::records::{NewResend, PageOf, ReminderFilter};

use super::world::World;

impl World {
    /// Damages the stored data with an SQL statement, and returns the number of rows that it changed.
    async fn damage(&self, sql: &str) -> u64 {
        let transaction = self.database().begin().await.unwrap();
        let changed = transaction.execute(sql, &[]).await.unwrap();
        transaction.commit().await.unwrap();
        changed
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_reminders_are_left_out_of_listings() {
    let world = World::on_postgres().await;
    world.tenant("acme").await;
    let now = world.now();
    let mut named = new(every_minute(now + MINUTE));
    named.settings.reference = Some("invoice 17".into());
    let damaged = world.records.create_reminder(named).await.unwrap();
    let sql = "UPDATE reminders SET settings = '{\"url\":\"https://a.example/\"}'";
    assert_eq!(world.damage(sql).await, 1);
    let good = world.reminder(once(now + 2 * MINUTE)).await;
    let all = world.records.reminders(&ReminderFilter::default(), &PageOf::first(100)).await.unwrap();
    assert_eq!(all.items.iter().map(|shown| shown.id).collect::<Vec<_>>(), [good.id]);
    let shown = world.records.reminder(damaged.id).await;
    assert!(matches!(shown, Err(RecordsError::Unreadable { what: "reminder", .. })), "{shown:?}");
    let paused = world.records.pause_reminder(damaged.id).await;
    assert!(matches!(paused, Err(RecordsError::Unreadable { what: "reminder", .. })), "{paused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_events_are_left_out_of_listings() {
    let world = World::on_postgres().await;
    world.tenant("acme").await;
    world.endpoint("acme", "https://a.example/").await;
    let damaged = world.event("acme", "a.b").await;
    let missing = world.event("acme", "a.b").await;
    let good = world.event("acme", "a.b").await;
    world.damage(&format!("UPDATE events SET kind = '' WHERE id = {}", damaged.number())).await;
    world.damage(&format!("DELETE FROM events WHERE id = {}", missing.number())).await;
    let all = world.records.deliveries(&DeliveryFilter::default(), &PageOf::first(10)).await.unwrap();
    assert_eq!(all.items.iter().map(|delivery| delivery.event).collect::<Vec<_>>(), [good]);
    let shown = world.records.event(damaged).await;
    assert!(matches!(shown, Err(RecordsError::Unreadable { what: "event", .. })), "{shown:?}");
    let shown = world.records.event(missing).await;
    assert!(matches!(shown, Err(RecordsError::Missing { what: "event", .. })), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_resend_ends_and_keeps_no_other_waiting() {
    let world = World::on_postgres().await;
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
