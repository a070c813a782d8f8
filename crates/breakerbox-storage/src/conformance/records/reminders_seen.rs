//! Reminders as the API shows them: bulk creation, reuse of references, run numbers that are never reused, and the
//! lane of a resent run.

use breakerbox_model::delivery::NextStep;
use breakerbox_model::objects::{DeliveryState, FailReason, RunId};

use crate::RecordsError;
use crate::records::{PageOf, ReminderChange, ReminderFilter};

use super::reminders::{MINUTE, every_minute, new, once};
use super::world::World;

pub async fn several_are_created_or_none(world: &mut World) {
    world.tenant("acme").await;
    let batch: Vec<_> = (1..=3).map(|minute| new(once(world.now() + minute * MINUTE))).collect();
    let created = world.records.create_reminders(batch.clone()).await.unwrap();
    let firsts: Vec<_> = created.iter().map(|reminder| reminder.settings.schedule.first_at).collect();
    assert_eq!(firsts, [1, 2, 3].map(|minute| world.now() + minute * MINUTE), "in their order");

    let mut taken = batch;
    for reminder in &mut taken[1..] {
        reminder.settings.reference = Some("the same".into());
    }
    let refused = world.records.create_reminders(taken).await.unwrap_err();
    assert!(matches!(&refused, RecordsError::OneOf { index: 2, error }
        if matches!(**error, RecordsError::Exists { .. })));
    let all = world.records.reminders(&ReminderFilter::default(), &PageOf::first(10)).await.unwrap();
    assert_eq!(all.items.len(), 3, "nothing of the second batch is there");
}

/// A run's number is part of its `webhook-id`. If two runs shared a number, the receiver would take the second for a
/// retry of the first.
pub async fn a_webhook_id_is_one_runs_for_ever(world: &mut World) {
    world.tenant("acme").await;
    let reminder = world.reminder(every_minute(world.now())).await;
    let id = |number| RunId { reminder: reminder.id, number }.to_string();
    world.run_scheduler().await;
    assert_eq!(world.run(world.retry()).await.webhook_id(), id(1));
    let paused = world.records.pause_reminder(reminder.id).await.unwrap();
    assert_eq!(paused.runs, 0, "it waited to be tried again, and is withdrawn");
    let resume_a_minute_later = async |world: &World| {
        world.clock.advance(MINUTE);
        world.records.resume_reminder(reminder.id).await.unwrap();
        world.run_scheduler().await;
    };
    resume_a_minute_later(world).await;
    world.records.pause_reminder(reminder.id).await.unwrap();
    resume_a_minute_later(world).await;
    // The receiver has seen the first run, but not the one that was withdrawn before it was sent.
    let leased = world.take_run().await;
    assert_eq!(leased.webhook_id(), id(2));
    world.records.pause_reminder(reminder.id).await.unwrap();
    world.settle(&leased, world.retry()).await;
    resume_a_minute_later(world).await;
    assert_eq!(world.run(NextStep::Delivered).await.webhook_id(), id(3));
    assert_eq!(world.shown(reminder.id).await.runs, 1, "one has run");
}

pub async fn a_cancelled_reminders_name_is_free(world: &mut World) {
    world.tenant("acme").await;
    let mut named = new(once(world.now() + MINUTE));
    named.settings.reference = Some("invoice-17".into());
    let first = world.records.create_reminder(named.clone()).await.unwrap();
    world.records.cancel_reminder(first.id).await.unwrap();
    let second = world.records.create_reminder(named.clone()).await.unwrap();
    let filter = ReminderFilter {
        tenant: Some("acme".parse().unwrap()),
        reference: Some("invoice-17".into()),
        ..ReminderFilter::default()
    };
    let found = world.records.reminders(&filter, &PageOf::first(10)).await.unwrap();
    let ids: Vec<_> = found.items.iter().map(|found| found.id).collect();
    assert_eq!(ids, [second.id, first.id], "the newest first");
    // A reminder that has run keeps its reference, so that a repeated request does not create it again.
    world.clock.advance(MINUTE);
    world.run_scheduler().await;
    world.run(NextStep::Delivered).await;
    world.run_scheduler().await;
    assert!(matches!(world.records.create_reminder(named).await, Err(RecordsError::Exists { .. })));
}

pub async fn the_latest_run_is_shown_whatever_the_schedule_has_come_to(world: &mut World) {
    world.tenant("acme").await;
    let first = world.now();
    let reminder = world.reminder(every_minute(first)).await;
    assert_eq!(world.shown(reminder.id).await.last_at, None);
    world.run_scheduler().await;
    world.run(NextStep::Delivered).await;
    world.run_scheduler().await;
    assert_eq!(world.shown(reminder.id).await.last_at, Some(first));

    world.records.pause_reminder(reminder.id).await.unwrap();
    world.clock.advance(10 * MINUTE + MINUTE / 2);
    world.records.resume_reminder(reminder.id).await.unwrap();
    world.run_scheduler().await;
    let resumed = world.shown(reminder.id).await;
    assert_eq!((resumed.last_at, resumed.done_until), (Some(first), Some(first + 10 * MINUTE)));

    let mut settings = resumed.settings;
    settings.schedule = every_minute(first + 30 * MINUTE);
    let change = ReminderChange { settings, payload: None, now: world.now() };
    let changed = world.records.change_reminder(reminder.id, change, None).await.unwrap();
    assert_eq!(changed.last_at, Some(first), "another schedule has not run");

    // A run that was withdrawn does not count as a run.
    world.clock.advance(30 * MINUTE);
    world.run_scheduler().await;
    assert_eq!(world.shown(reminder.id).await.last_at, Some(first + 30 * MINUTE));
    let paused = world.records.pause_reminder(reminder.id).await.unwrap();
    assert_eq!((paused.last_at, paused.runs), (Some(first), 1));
}

pub async fn a_resent_run_waits_with_the_reminders(world: &mut World) {
    world.tenant("acme").await;
    let reminder = world.reminder(every_minute(world.now())).await;
    world.run_scheduler().await;
    let failed = world.run(NextStep::Failed(FailReason::Rejected)).await;
    world.run_scheduler().await;
    let resent = world.records.resend_delivery(failed.id).await.unwrap();
    assert_eq!(resent.run, Some(RunId { reminder: reminder.id, number: 1 }));
    let again = world.take_run().await;
    assert_eq!((again.id, again.lane, again.webhook_id()), (failed.id, failed.lane, failed.webhook_id()));
    world.settle(&again, NextStep::Delivered).await;
    world.run_scheduler().await;
    let shown = world.shown(reminder.id).await;
    assert_eq!(
        (shown.state.name().name(), shown.runs),
        ("stopped", 1),
        "its reminder does not go on by that"
    );
    let history = world.records.runs(reminder.id, &PageOf::first(10)).await.unwrap().items;
    assert_eq!(history[0].delivery.state, DeliveryState::Delivered);
}
