//! Reminders: storage, firing, and the API's operations. The tests perform the scheduler's steps themselves: read,
//! decide, apply.

use std::time::Duration;

use crate::records::{NewReminder, NotificationFilter, PageOf, ReminderChange, ReminderFilter};
use crate::{AppliedDecisions, Leased, RecordsError};
use breakerbox_core::Timestamp;
use breakerbox_model::delivery::NextStep;
use breakerbox_model::notifications::Kind;
use breakerbox_model::objects::{
    Backlog, DeliveryFilter, DeliveryState, FailReason, LaneId, Reminder, ReminderId, ReminderSettings,
    ReminderState, ReminderStateName, StateName,
};
use breakerbox_model::reminder::{
    CatchUp, DueReminder, ReminderDefaults, Repeat, Schedule, StopReason, WhenFailed,
};
use bytes::Bytes;

use super::world::World;

pub const MINUTE: Duration = Duration::from_secs(60);
const DEFAULTS: ReminderDefaults = ReminderDefaults { catch_up: CatchUp::All, when_failed: WhenFailed::Stop };

pub fn once(at: Timestamp) -> Schedule {
    Schedule { first_at: at, repeat: Repeat::Once, ends_at: None, max_runs: None }
}

pub fn every_minute(from: Timestamp) -> Schedule {
    Schedule { first_at: from, repeat: Repeat::Every(MINUTE), ends_at: None, max_runs: None }
}

pub fn settings(schedule: Schedule) -> ReminderSettings {
    ReminderSettings {
        reference: None,
        url: "https://a.example/cb?id=1".parse().unwrap(),
        content_type: "application/json".into(),
        priority: breakerbox_model::objects::Priority::Medium,
        schedule,
        catch_up: None,
        expires_after: None,
    }
}

pub fn new(schedule: Schedule) -> NewReminder {
    NewReminder {
        tenant: "acme".parse().unwrap(),
        settings: settings(schedule),
        payload: Bytes::from_static(b"{\"n\":1}"),
    }
}

impl World {
    pub async fn reminder(&self, schedule: Schedule) -> Reminder {
        self.records.create_reminder(new(schedule)).await.unwrap()
    }

    pub async fn due_reminders(&self) -> Vec<DueReminder> {
        self.reminder_store.due_reminders(self.now(), 100).await.unwrap()
    }

    /// Runs the scheduler until there is nothing to do.
    pub async fn run_scheduler(&self) -> AppliedDecisions {
        self.run_scheduler_with(DEFAULTS).await
    }

    pub async fn run_scheduler_with(&self, defaults: ReminderDefaults) -> AppliedDecisions {
        let mut all = AppliedDecisions::default();
        loop {
            let due = self.due_reminders().await;
            if due.is_empty() {
                return all;
            }
            let decisions = due.iter().map(|due| due.decide(defaults, self.now())).collect();
            let applied = self.reminder_store.apply_decisions(decisions).await.unwrap();
            all.fired += applied.fired;
            all.stopped += applied.stopped;
            all.stale += applied.stale;
            all.woken.extend(applied.woken);
        }
    }

    pub async fn shown(&self, id: ReminderId) -> Reminder {
        self.records.reminder(id).await.unwrap()
    }

    pub async fn reminders_lane(&self) -> LaneId {
        let lanes = self.queue.waiting_lanes(None, 10).await.unwrap();
        let is_theirs = |key: &str| key.starts_with("acme/reminders");
        let lane = lanes.iter().find(|lane| lane.dynamic.as_deref().is_some_and(is_theirs));
        lane.expect("something waits in the lane of acme's reminders").lane
    }

    /// Leases the waiting run.
    pub async fn take_run(&self) -> Leased {
        let lane = self.reminders_lane().await;
        self.claim(lane, 1).await.pop().expect("a run waits")
    }

    /// Sends the waiting run, and ends it with this next step.
    pub async fn run(&self, next: NextStep) -> Leased {
        let leased = self.take_run().await;
        self.settle(&leased, next).await;
        leased
    }

    pub fn retry(&self) -> NextStep {
        NextStep::Retry { due_at: self.now() + MINUTE, uses_attempt: true, failed_probe: None }
    }
}

pub async fn a_reminder_is_as_it_was_created_and_after_a_restart_too(world: &mut World) {
    world.tenant("acme").await;
    let now = world.now();
    let cron = breakerbox_model::reminder::Cron::new("30 2 * * MON", "Europe/Berlin").unwrap();
    let schedule =
        Schedule::new(None, Repeat::Cron(cron), Some(now + 400 * 24 * 60 * MINUTE), Some(7), now).unwrap();
    let mut wanted = new(schedule);
    wanted.settings.reference = Some("invoice 17".into());
    wanted.settings.content_type = "text/plain".into();
    wanted.settings.catch_up = Some(CatchUp::Latest);
    wanted.settings.expires_after = Some(MINUTE);
    let created = world.records.create_reminder(wanted.clone()).await.unwrap();
    assert_eq!(created.settings, wanted.settings);
    assert_eq!(created.state, ReminderState::Active);
    assert_eq!(created.next_at, wanted.settings.schedule.first());
    assert_eq!((created.runs, created.last_at, created.open_run), (0, None, None));
    world.restart().await;
    assert_eq!(world.shown(created.id).await, created);
    assert_eq!(world.records.reminder_payload(created.id).await.unwrap(), wanted.payload);
    assert_eq!(world.reminder_store.next_check_at().await.unwrap(), created.next_at);
}

pub async fn each_run_is_fired_once_and_the_next_one_is_waited_for(world: &mut World) {
    world.tenant("acme").await;
    let first = world.now() + MINUTE;
    let reminder = world.reminder(every_minute(first)).await;
    assert_eq!(world.run_scheduler().await, AppliedDecisions::default(), "it is not due");
    world.clock.advance(MINUTE);
    assert_eq!(world.run_scheduler().await.fired, 1);
    assert_eq!(world.run_scheduler().await, AppliedDecisions::default(), "once");
    let shown = world.shown(reminder.id).await;
    assert_eq!((shown.runs, shown.last_at, shown.next_at), (1, Some(first), None));
    let leased = world.take_run().await;
    assert_eq!(leased.webhook_id(), format!("{}_1", reminder.id));
    assert_eq!(leased.run.as_ref().unwrap().scheduled_at, first);
    assert_eq!(leased.url.as_deref(), Some("https://a.example/cb?id=1"));
    assert_eq!(Some(leased.id), shown.open_run);
    world.clock.advance(MINUTE + MINUTE / 2);
    assert_eq!(world.run_scheduler().await, AppliedDecisions::default(), "one run at a time");
    world.settle(&leased, NextStep::Delivered).await;
    assert_eq!(world.run_scheduler().await.fired, 1, "what fell due meanwhile");
    assert_eq!(world.run(NextStep::Delivered).await.webhook_id(), format!("{}_2", reminder.id));
    assert_eq!(world.run_scheduler().await.fired, 0);
    assert_eq!(world.shown(reminder.id).await.next_at, Some(first + 2 * MINUTE));
    assert_eq!(world.backlog("acme").await, 0);
}

pub async fn a_decision_from_before_is_not_carried_out(world: &mut World) {
    world.tenant("acme").await;
    let reminder = world.reminder(once(world.now())).await;
    let decide =
        |due: &[DueReminder]| due.iter().map(|one| one.decide(DEFAULTS, world.now())).collect::<Vec<_>>();
    let seen = decide(&world.due_reminders().await);
    assert_eq!(world.reminder_store.apply_decisions(seen.clone()).await.unwrap().fired, 1);
    let again = world.reminder_store.apply_decisions(seen).await.unwrap();
    assert_eq!((again.fired, again.stale), (0, 1), "two schedulers fire one run once");
    world.run(NextStep::Delivered).await;
    let seen = decide(&world.due_reminders().await);
    let paused = world.reminder(once(world.now())).await;
    let other = decide(&world.due_reminders().await);
    world.records.pause_reminder(paused.id).await.unwrap();
    assert_eq!(
        world.reminder_store.apply_decisions(other).await.unwrap().stale,
        1,
        "whoever pauses is not overtaken"
    );
    assert_eq!(world.reminder_store.apply_decisions(seen).await.unwrap().stale, 1, "it was dealt with");
    assert_eq!(world.shown(reminder.id).await.state, ReminderState::Finished);
    assert_eq!(world.shown(paused.id).await.runs, 0);
}

pub async fn a_run_that_was_fired_survives_a_restart(world: &mut World) {
    world.tenant("acme").await;
    let reminder = world.reminder(once(world.now())).await;
    world.run_scheduler().await;
    world.restart().await;
    assert_eq!(world.run_scheduler().await.fired, 0, "it is not fired again");
    let leased = world.take_run().await;
    world.restart().await;
    assert_eq!(world.run_scheduler().await.fired, 0, "nor when it was on its way");
    let again = world.run(NextStep::Delivered).await;
    assert_eq!((again.id, again.webhook_id()), (leased.id, leased.webhook_id()));
    world.restart().await;
    world.run_scheduler().await;
    assert_eq!(world.shown(reminder.id).await.state, ReminderState::Finished, "its end was not forgotten");
}

pub async fn what_a_run_ends_with_decides(world: &mut World) {
    world.tenant("acme").await;
    let mut told = 0;
    let stop = |why| ReminderState::Stopped(why);
    for (next, when_failed, state) in [
        (NextStep::Delivered, WhenFailed::Stop, ReminderState::Active),
        (NextStep::Failed(FailReason::Rejected), WhenFailed::NextRun, stop(StopReason::Rejected)),
        (NextStep::Failed(FailReason::Gone), WhenFailed::NextRun, stop(StopReason::Gone)),
        (NextStep::Failed(FailReason::Exhausted), WhenFailed::Stop, stop(StopReason::Failed)),
        (NextStep::Failed(FailReason::Exhausted), WhenFailed::NextRun, ReminderState::Active),
    ] {
        let reminder = world.reminder(every_minute(world.now())).await;
        world.run_scheduler().await;
        world.run(next).await;
        let applied = world.run_scheduler_with(ReminderDefaults { when_failed, ..DEFAULTS }).await;
        let shown = world.shown(reminder.id).await;
        assert_eq!(shown.state, state, "{next:?} {when_failed:?}");
        assert_eq!(applied.stopped, u64::from(state != ReminderState::Active), "{next:?} {when_failed:?}");
        assert_eq!((shown.open_run, shown.next_at.is_some()), (None, state == ReminderState::Active));
        let filter =
            NotificationFilter { kind: Some(Kind::ReminderStopped), ..NotificationFilter::default() };
        let notifications = world.records.notifications(&filter, &PageOf::first(10)).await.unwrap().items;
        told += applied.stopped;
        assert_eq!(notifications.len() as u64, told, "its owner is told, once");
        if state == ReminderState::Active {
            world.records.cancel_reminder(reminder.id).await.unwrap();
        } else {
            assert_eq!(*notifications[0].notification.subject, *reminder.id.to_string());
            let resumed = world.records.resume_reminder(reminder.id).await.unwrap();
            assert_eq!(resumed.state, ReminderState::Active, "a stopped one can go on");
            world.run_scheduler().await;
            assert!(world.shown(reminder.id).await.next_at.unwrap() > world.now());
            world.records.cancel_reminder(reminder.id).await.unwrap();
        }
    }
}

pub async fn a_run_that_is_called_off_goes_on_with_the_next(world: &mut World) {
    world.tenant("acme").await;
    let reminder = world.reminder(every_minute(world.now())).await;
    world.run_scheduler().await;
    let run = world.shown(reminder.id).await.open_run.unwrap();
    world.records.cancel_delivery(run).await.unwrap();
    world.run_scheduler().await;
    let shown = world.shown(reminder.id).await;
    assert_eq!((shown.state, shown.open_run, shown.runs), (ReminderState::Active, None, 1));
    assert!(shown.next_at.is_some());
}

pub async fn a_run_that_waited_too_long_counts_as_failed(world: &mut World) {
    world.tenant("acme").await;
    let mut wanted = new(once(world.now()));
    wanted.settings.expires_after = Some(MINUTE);
    let reminder = world.records.create_reminder(wanted).await.unwrap();
    world.run_scheduler().await;
    world.clock.advance(2 * MINUTE);
    assert_eq!(world.queue.expire(10).await.unwrap().done, 1);
    assert_eq!(world.run_scheduler().await.stopped, 1);
    assert_eq!(world.shown(reminder.id).await.state, ReminderState::Stopped(StopReason::Failed));
}

pub async fn missed_runs_fire_as_catch_up_says(world: &mut World) {
    world.tenant("acme").await;
    for (catch_up, fired, skipped) in [(CatchUp::All, 4, 0), (CatchUp::Latest, 1, 3)] {
        let first = world.now() + MINUTE;
        let mut wanted = new(every_minute(first));
        wanted.settings.catch_up = Some(catch_up);
        let reminder = world.records.create_reminder(wanted).await.unwrap();
        // The scheduler does not run for a while.
        world.clock.advance(4 * MINUTE + MINUTE / 2);
        let mut scheduled = Vec::new();
        while world.run_scheduler().await.fired > 0 {
            scheduled.push(world.run(NextStep::Delivered).await.run.unwrap().scheduled_at);
        }
        assert_eq!(scheduled.len(), fired, "{catch_up}");
        assert_eq!(scheduled.last(), Some(&(first + 3 * MINUTE)), "{catch_up}");
        assert!(scheduled.is_sorted());
        let shown = world.shown(reminder.id).await;
        assert_eq!((shown.skipped, shown.next_at), (skipped, Some(first + 4 * MINUTE)), "{catch_up}");
        world.records.cancel_reminder(reminder.id).await.unwrap();
    }
}

pub async fn a_parked_run_stands_for_the_latest(world: &mut World) {
    world.tenant("acme").await;
    for (catch_up, runs) in [(CatchUp::All, 4), (CatchUp::Latest, 1)] {
        let first = world.now();
        let mut wanted = new(every_minute(first));
        wanted.settings.catch_up = Some(catch_up);
        let reminder = world.records.create_reminder(wanted).await.unwrap();
        world.run_scheduler().await;
        // A gate refuses for three and a half minutes.
        world.clock.advance(3 * MINUTE + MINUTE / 2);
        world.run_scheduler().await;
        let mut sent = 0_u64;
        loop {
            // The first request fails. Later ones do not change the occurrence that the run stands for.
            if sent == 0 {
                world
                    .run(NextStep::Retry { due_at: world.now(), uses_attempt: true, failed_probe: None })
                    .await;
            }
            world.run(NextStep::Delivered).await;
            sent += 1;
            if world.run_scheduler().await.fired == 0 {
                break;
            }
        }
        assert_eq!(sent, runs, "{catch_up}");
        let last = world.records.runs(reminder.id, &PageOf::first(1)).await.unwrap().items.remove(0);
        assert_eq!(last.scheduled_at, first + 3 * MINUTE, "{catch_up}: the one that it stood for");
        assert_eq!(world.shown(reminder.id).await.skipped, 4 - runs, "{catch_up}");
        assert_eq!(last.skipped, if catch_up == CatchUp::Latest { 3 } else { 0 });
        assert_eq!(world.shown(reminder.id).await.next_at, Some(first + 4 * MINUTE), "{catch_up}");
        world.records.cancel_reminder(reminder.id).await.unwrap();
    }
}

pub async fn a_pause_withdraws_what_waits_and_skips_what_falls_into_it(world: &mut World) {
    world.tenant("acme").await;
    let first = world.now();
    let reminder = world.reminder(every_minute(first)).await;
    world.run_scheduler().await;
    assert_eq!(world.backlog("acme").await, 1);
    let paused = world.records.pause_reminder(reminder.id).await.unwrap();
    assert_eq!((paused.state, paused.runs, paused.next_at), (ReminderState::Paused, 0, None));
    assert_eq!(world.backlog("acme").await, 0);
    assert!(matches!(
        world.records.pause_reminder(reminder.id).await,
        Err(RecordsError::ReminderState { state: ReminderStateName::Paused, verb: "paused", .. })
    ));
    world.clock.advance(10 * MINUTE + MINUTE / 2);
    assert_eq!(world.run_scheduler().await, AppliedDecisions::default());
    world.records.resume_reminder(reminder.id).await.unwrap();
    assert_eq!(world.run_scheduler().await.fired, 0);
    let shown = world.shown(reminder.id).await;
    assert_eq!((shown.state, shown.next_at), (ReminderState::Active, Some(first + 11 * MINUTE)));
}

pub async fn a_one_off_that_was_paused_fires_when_it_goes_on(world: &mut World) {
    world.tenant("acme").await;
    let reminder = world.reminder(once(world.now())).await;
    world.run_scheduler().await;
    world.records.pause_reminder(reminder.id).await.unwrap();
    world.clock.advance(10 * MINUTE);
    world.records.resume_reminder(reminder.id).await.unwrap();
    assert_eq!(world.run_scheduler().await.fired, 1);
    assert_eq!(world.run(NextStep::Delivered).await.webhook_id(), format!("{}_1", reminder.id));
    world.run_scheduler().await;
    assert_eq!(world.shown(reminder.id).await.state, ReminderState::Finished);
}

pub async fn what_is_in_flight_at_a_pause_is_not_tried_again(world: &mut World) {
    world.tenant("acme").await;
    let reminder = world.reminder(once(world.now())).await;
    world.run_scheduler().await;
    let leased = world.take_run().await;
    let paused = world.records.pause_reminder(reminder.id).await.unwrap();
    assert_eq!(paused.open_run, Some(leased.id), "it is on its way");
    world.settle(&leased, world.retry()).await;
    assert_eq!(world.records.delivery(leased.id).await.unwrap().state, DeliveryState::Cancelled);
    world.run_scheduler().await;
    assert_eq!(world.shown(reminder.id).await.open_run, None);
    world.records.resume_reminder(reminder.id).await.unwrap();
    assert_eq!(world.run_scheduler().await.fired, 1, "it has not arrived yet");
    let leased = world.take_run().await;
    world.records.pause_reminder(reminder.id).await.unwrap();
    world.settle(&leased, NextStep::Delivered).await;
    world.run_scheduler().await;
    world.records.resume_reminder(reminder.id).await.unwrap();
    world.run_scheduler().await;
    assert_eq!(world.shown(reminder.id).await.state, ReminderState::Finished, "now it has");
}

pub async fn a_cancelled_reminder_never_fires_again(world: &mut World) {
    world.tenant("acme").await;
    let reminder = world.reminder(every_minute(world.now())).await;
    world.run_scheduler().await;
    let leased = world.take_run().await;
    world.records.cancel_reminder(reminder.id).await.unwrap();
    world.settle(&leased, world.retry()).await;
    assert_eq!(world.records.delivery(leased.id).await.unwrap().state, DeliveryState::Cancelled);
    world.clock.advance(10 * MINUTE);
    assert_eq!(world.run_scheduler().await.fired, 0);
    let shown = world.records.cancel_reminder(reminder.id).await.unwrap();
    assert_eq!((shown.state, shown.open_run), (ReminderState::Cancelled, None), "twice is once");
    for refused in [
        world.records.resume_reminder(reminder.id).await,
        world.records.run_reminder(reminder.id).await,
        world.records.pause_reminder(reminder.id).await,
    ] {
        assert!(matches!(refused, Err(RecordsError::ReminderState { .. })), "{refused:?}");
    }
    let waiting = world.reminder(once(world.now())).await;
    world.run_scheduler().await;
    world.records.cancel_reminder(waiting.id).await.unwrap();
    assert_eq!(world.backlog("acme").await, 0);
}

pub async fn a_run_now_is_besides_the_schedule(world: &mut World) {
    world.tenant("acme").await;
    let first = world.now() + 10 * MINUTE;
    let reminder = world.reminder(every_minute(first)).await;
    world.records.run_reminder(reminder.id).await.unwrap();
    assert_eq!(world.run_scheduler().await.fired, 1);
    let leased = world.take_run().await;
    assert_eq!(leased.webhook_id(), format!("{}_1", reminder.id));
    world.records.run_reminder(reminder.id).await.unwrap();
    assert_eq!(world.run_scheduler().await.fired, 0, "it is running now");
    world.settle(&leased, world.retry()).await;
    world.records.run_reminder(reminder.id).await.unwrap();
    world.run(NextStep::Delivered).await;
    world.run_scheduler().await;
    assert_eq!(world.shown(reminder.id).await.next_at, Some(first), "the schedule is as it was");
    world.records.pause_reminder(reminder.id).await.unwrap();
    world.records.run_reminder(reminder.id).await.unwrap();
    assert_eq!(world.run_scheduler().await.fired, 1, "also while it is paused");
    world.run(NextStep::Delivered).await;
    world.run_scheduler().await;
    let shown = world.shown(reminder.id).await;
    assert_eq!((shown.state, shown.runs, shown.open_run), (ReminderState::Paused, 2, None));
}

fn changed(settings: ReminderSettings, now: Timestamp) -> ReminderChange {
    ReminderChange { settings, payload: None, now }
}

pub async fn a_change_reaches_a_run_that_waits(world: &mut World) {
    world.tenant("acme").await;
    let reminder = world.reminder(once(world.now())).await;
    world.run_scheduler().await;
    let mut settings = reminder.settings.clone();
    settings.url = "https://b.example/cb".parse().unwrap();
    let mut change = changed(settings, world.now());
    change.payload = Some(Bytes::from_static(b"another"));
    let stale =
        world.records.change_reminder(reminder.id, change.clone(), Some(reminder.revision.next())).await;
    assert!(matches!(stale, Err(RecordsError::Changed { .. })));
    let now = world.records.change_reminder(reminder.id, change, Some(reminder.revision)).await.unwrap();
    assert_eq!((now.payload_size, now.revision), (7, reminder.revision.next()));
    assert_eq!(world.backlog("acme").await, 1, "counted where it waits now");
    let lanes = world.queue.waiting_lanes(None, 10).await.unwrap();
    assert_eq!(lanes.len(), 1);
    assert_eq!(lanes[0].dynamic.as_deref(), Some("acme/reminders b.example"));
    let leased = world.claim(lanes[0].lane, 1).await.pop().unwrap();
    assert_eq!((leased.url.as_deref(), &leased.payload[..]), (Some("https://b.example/cb"), &b"another"[..]));
    world.settle(&leased, NextStep::Delivered).await;
    assert_eq!(world.backlog("acme").await, 0);
    world.run_scheduler().await;
    let over = world.records.change_reminder(reminder.id, changed(now.settings, world.now()), None).await;
    assert!(matches!(over, Err(RecordsError::ReminderState { verb: "changed", .. })));
}

pub async fn another_schedule_counts_from_now_on(world: &mut World) {
    world.tenant("acme").await;
    let reminder = world.reminder(once(world.now())).await;
    world.run_scheduler().await;
    let tomorrow = world.now() + 24 * 60 * MINUTE;
    let moved = changed(settings(once(tomorrow)), world.now());
    world.records.change_reminder(reminder.id, moved, None).await.unwrap();
    world.run_scheduler().await;
    let shown = world.shown(reminder.id).await;
    assert_eq!((shown.open_run, shown.runs, shown.next_at), (None, 0, Some(tomorrow)), "not today");
    assert_eq!(world.backlog("acme").await, 0);

    let first = world.now();
    let repeated = world.reminder(every_minute(first)).await;
    world.run_scheduler().await;
    world.run(NextStep::Delivered).await;
    world.run_scheduler().await;
    world.clock.advance(MINUTE / 2);
    let mut shorter = every_minute(first);
    shorter.max_runs = Some(2);
    world.records.change_reminder(repeated.id, changed(settings(shorter), world.now()), None).await.unwrap();
    assert_eq!(world.run_scheduler().await.fired, 0, "nothing twice");
    assert_eq!(world.shown(repeated.id).await.next_at, Some(first + MINUTE));
    let hourly = Schedule { repeat: Repeat::Every(60 * MINUTE), ..every_minute(first) };
    world.records.change_reminder(repeated.id, changed(settings(hourly), world.now()), None).await.unwrap();
    assert_eq!(world.run_scheduler().await.fired, 0);
    assert_eq!(world.shown(repeated.id).await.next_at, Some(first + 60 * MINUTE));
}

pub async fn limits_count_what_has_not_ended(world: &mut World) {
    world.tenant_with("acme", |tenant| tenant.reminders.limit = Some(Backlog { count: 2, bytes: 20 })).await;
    let first = world.reminder(once(world.now())).await;
    let second = world.reminder(once(world.now() + MINUTE)).await;
    let full = |answer: &Result<Reminder, RecordsError>| {
        matches!(answer, Err(RecordsError::RemindersFull { count: 2, bytes: 14, .. }))
    };
    let third = new(once(world.now() + MINUTE));
    assert!(full(&world.records.create_reminder(third.clone()).await), "two are enough");
    let mut larger = changed(second.settings.clone(), world.now());
    larger.payload = Some(Bytes::from_static(b"0123456789abcdef"));
    assert!(full(&world.records.change_reminder(second.id, larger, None).await), "bytes count as well");
    world.run_scheduler().await;
    world.run(NextStep::Delivered).await;
    world.run_scheduler().await;
    assert_eq!(world.shown(first.id).await.state, ReminderState::Finished);
    world.records.create_reminder(third.clone()).await.expect("the first one has ended");
    world.records.cancel_reminder(second.id).await.unwrap();
    world.records.create_reminder(third.clone()).await.expect("the second one was cancelled");
    assert!(full(&world.records.create_reminder(third).await));
}

pub async fn references_are_unique_within_a_tenant(world: &mut World) {
    world.tenant("acme").await;
    world.tenant("other").await;
    let mut named = new(once(world.now() + MINUTE));
    named.settings.reference = Some("invoice-17".into());
    let first = world.records.create_reminder(named.clone()).await.unwrap();
    let twice = world.records.create_reminder(named.clone()).await;
    assert!(matches!(twice, Err(RecordsError::Exists { name, .. }) if name == "invoice-17"));
    assert_eq!(world.backlog("acme").await, 0, "nothing is left of it");
    let other = world.reminder(once(world.now() + MINUTE)).await;
    let taken = changed(named.settings.clone(), world.now());
    let taken = world.records.change_reminder(other.id, taken, None).await;
    assert!(matches!(taken, Err(RecordsError::Exists { .. })));
    let filter = ReminderFilter {
        tenant: Some("acme".parse().unwrap()),
        reference: Some("invoice-17".into()),
        ..ReminderFilter::default()
    };
    let found = world.records.reminders(&filter, &PageOf::first(10)).await.unwrap();
    assert_eq!(found.items.iter().map(|found| found.id).collect::<Vec<_>>(), [first.id]);
    named.tenant = "other".parse().unwrap();
    world.records.create_reminder(named).await.expect("another tenant's are another matter");
}

pub async fn reminders_are_listed_and_their_runs_are_history(world: &mut World) {
    world.tenant("acme").await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(world.reminder(every_minute(world.now() + MINUTE)).await.id);
    }
    ids.reverse();
    world.records.pause_reminder(ids[2]).await.unwrap();
    for (filter, expected) in [
        (ReminderFilter::default(), ids.clone()),
        (
            ReminderFilter { state: Some(ReminderStateName::Paused), ..ReminderFilter::default() },
            vec![ids[2]],
        ),
        (ReminderFilter { tenant: Some("nobody".parse().unwrap()), ..ReminderFilter::default() }, vec![]),
    ] {
        let (mut page, mut found) = (PageOf::first(2), Vec::new());
        loop {
            let answer = world.records.reminders(&filter, &page).await.unwrap();
            found.extend(answer.items.iter().map(|reminder| reminder.id));
            let Some(next) = answer.next else { break };
            page = PageOf::after(next, 2);
        }
        assert_eq!(found, expected, "{filter:?}");
    }
    for id in &ids[1..] {
        world.records.cancel_reminder(*id).await.unwrap();
    }
    for _ in 0..3 {
        world.clock.advance(MINUTE);
        world.run_scheduler().await;
        world.run(NextStep::Delivered).await;
    }
    world.run_scheduler().await;
    let runs = world.records.runs(ids[0], &PageOf::first(2)).await.unwrap();
    let numbers: Vec<u32> = runs.items.iter().map(|run| run.id.number).collect();
    assert_eq!(numbers, [3, 2], "the newest first");
    assert_eq!(runs.items[0].delivery.state, DeliveryState::Delivered);
    assert_eq!(runs.items[0].delivery.attempts, 1);
    let rest = world.records.runs(ids[0], &PageOf::after(runs.next.unwrap(), 2)).await.unwrap();
    assert_eq!(rest.items.iter().map(|run| run.id.number).collect::<Vec<_>>(), [1]);
    let delivered = DeliveryFilter { state: Some(StateName::Delivered), ..DeliveryFilter::default() };
    assert_eq!(world.found(&delivered, 10).await.len(), 3, "they are deliveries like any other");
    let nobody = "rem_0000000000000".parse().unwrap();
    assert!(matches!(world.records.runs(nobody, &PageOf::first(2)).await, Err(RecordsError::Missing { .. })));
}

pub async fn a_tenant_with_reminders_stays(world: &mut World) {
    let acme = world.tenant("acme").await;
    let reminder = world.reminder(once(world.now() + MINUTE)).await;
    assert!(matches!(world.records.delete_tenant(&acme.id, None).await, Err(RecordsError::InUse(_))));
    world.records.cancel_reminder(reminder.id).await.unwrap();
    world.records.delete_tenant(&acme.id, None).await.unwrap();
}

pub async fn ended_reminders_are_forgotten(world: &mut World) {
    world
        .tenant_with("acme", |tenant| tenant.reminders.limit = Some(Backlog { count: 3, bytes: 1_000 }))
        .await;
    let stopped = world.reminder(once(world.now())).await;
    world.run_scheduler().await;
    world.run(NextStep::Failed(FailReason::Gone)).await;
    world.run_scheduler().await;
    let cancelled = world.reminder(once(world.now() + MINUTE)).await;
    world.records.cancel_reminder(cancelled.id).await.unwrap();
    let kept = world.reminder(once(world.now() + MINUTE)).await;
    assert_eq!(world.records.prune_reminders(world.now(), 10).await.unwrap(), 0, "not yet");
    world.clock.advance(MINUTE);
    assert_eq!(world.records.prune_reminders(world.now(), 1).await.unwrap(), 1, "a bounded number");
    assert_eq!(world.records.prune_reminders(world.now(), 10).await.unwrap(), 1);
    for gone in [stopped.id, cancelled.id] {
        assert!(matches!(world.records.reminder(gone).await, Err(RecordsError::Missing { .. })));
        assert!(world.records.reminder_payload(gone).await.is_err());
    }
    world.shown(kept.id).await;
    world.reminder(once(world.now() + MINUTE)).await;
    world.reminder(once(world.now() + MINUTE)).await;
    assert!(world.records.create_reminder(new(once(world.now()))).await.is_err(), "three are three");
}
