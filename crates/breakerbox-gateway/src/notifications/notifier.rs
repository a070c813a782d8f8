//! Sends waiting notifications. The loop makes no decisions: [`Pacing`] decides which target has a turn and what goes
//! into one message, [`Message`] formats it, and the database holds waiting notifications, so that a restart loses
//! none.
//!
//! If the process ends after a target accepted a message but before this is recorded, the message is sent again, with
//! the same ID.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::notifications::{
    AfterFailure, Due, Growth, MOST_WAITING, Message, Notification, NotificationTarget, OPERATOR, Pacing,
    PlannedMessage, TestPace, after_failure,
};
use breakerbox_model::objects::{Id, NotificationId, TenantId};
use breakerbox_storage::clock::WallClock;
use breakerbox_storage::records::{
    Records, RecordsError, SendResult, SendState, WaitingNotification, WaitingTarget,
};
use breakerbox_storage::{Directory, QueueError};
use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{debug, warn};

use super::post::{Delivered, MessageSender};
use crate::telemetry::Metrics;
use crate::telemetry::labels::NotificationResult;

/// The interval between checks for due notifications.
const FAST_TICK: Duration = Duration::from_secs(1);

/// The interval between checks for dead letters and old notifications.
const SLOW_TICK: Duration = Duration::from_secs(5);

/// The maximum number of rows to write in one transaction.
const PIECE: usize = 500;

/// The delay before a message is retried after a local fault.
const AFTER_A_LOCAL_FAULT: Duration = Duration::from_secs(5);

/// The period before startup for which dead letters (failed deliveries) are counted.
const HOUR: Duration = Duration::from_secs(3_600);

/// The number of attempts per target for a notification that can't be written.
const UNWRITTEN_ATTEMPTS: u32 = 3;

/// The delay between two attempts for a notification that can't be written.
const UNWRITTEN_WAIT: Duration = Duration::from_secs(10);

/// Limits for notifications.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NotifierSettings {
    /// The maximum number of messages to one target in a burst.
    pub burst: u32,
    /// The time between messages to one target after the burst.
    pub interval: Duration,
    /// The number of failed deliveries of one tenant within an hour that triggers a notification. `None` means never.
    pub dead_letters: Option<u64>,
    /// How long notifications are kept.
    pub kept: Duration,
}

impl Default for NotifierSettings {
    fn default() -> Self {
        Self {
            burst: 5,
            interval: Duration::from_secs(60),
            dead_letters: Some(100),
            kept: Duration::from_secs(30 * 86_400),
        }
    }
}

/// A slot for sending one message to a target, freed on drop.
struct SendSlot {
    notifier: Arc<Notifier>,
    target: Arc<str>,
    /// Whether the target accepted the message. `None` if nothing was sent.
    went: Option<bool>,
}

impl Drop for SendSlot {
    fn drop(&mut self) {
        let now = (self.notifier.clock)();
        let mut pacing = self.notifier.pacing();
        match self.went {
            Some(well) => pacing.ended(&self.target, well, now),
            None => pacing.gave_back(&self.target),
        }
    }
}

/// Sends stored notifications to their targets, within the rate limit of each target.
pub struct Notifier {
    records: Arc<dyn Records>,
    directory: Arc<Directory>,
    post: MessageSender,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    wall: WallClock,
    metrics: Arc<Metrics>,
    settings: NotifierSettings,
    pacing: Mutex<Pacing>,
    test_pace: Mutex<TestPace>,
}

impl Notifier {
    /// Creates a notifier. It sends stored notifications only while [`run`](Self::run) or [`send_due`](Self::send_due)
    /// runs.
    #[must_use]
    pub fn new(
        records: Arc<dyn Records>,
        directory: Arc<Directory>,
        post: MessageSender,
        clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
        wall: WallClock,
        metrics: Arc<Metrics>,
        settings: NotifierSettings,
    ) -> Arc<Self> {
        let pacing = Mutex::new(Pacing::new(settings.burst, settings.interval));
        let test_pace = Mutex::new(TestPace::new(settings.burst, settings.interval));
        Arc::new(Self { records, directory, post, clock, wall, metrics, settings, pacing, test_pace })
    }

    /// Sends notifications until the future is dropped.
    pub async fn run(self: Arc<Self>) {
        tokio::join!(Arc::clone(&self).send_on(), self.run_maintenance());
    }

    /// Sends all notifications that are due and within the rate limit, waits for the responses, and returns. For
    /// callers with their own clock.
    pub async fn send_due(self: &Arc<Self>) {
        let mut under_way = JoinSet::new();
        while let Ok(waiting) = self.records.waiting_targets().await {
            self.begin(waiting, &mut under_way);
            if under_way.join_next().await.is_none() {
                return;
            }
        }
    }

    async fn send_on(self: Arc<Self>) {
        let mut ticks = interval(FAST_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut under_way = JoinSet::new();
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                Some(_) = under_way.join_next() => {}
            }
            match self.records.waiting_targets().await {
                Ok(waiting) => self.begin(waiting, &mut under_way),
                Err(error) => warn!(%error, "can't read waiting notifications; retrying"),
            }
        }
    }

    /// Starts sending a message to each target that has due notifications and is within its rate limit.
    fn begin(self: &Arc<Self>, waiting: Vec<WaitingTarget>, under_way: &mut JoinSet<()>) {
        let all: u64 = waiting.iter().map(|target| target.waiting).sum();
        self.metrics.notifications_waiting.set(i64::try_from(all).unwrap_or(i64::MAX));
        let due = waiting.iter().map(|target| Due { target: Arc::clone(&target.name), count: target.due });
        let plan = self.pacing().plan(due.collect(), (self.clock)());
        for planned in plan {
            let Some(target) = waiting.iter().find(|target| target.name == planned.target).cloned() else {
                continue;
            };
            let notifier = Arc::clone(self);
            under_way.spawn(async move { notifier.send_planned(planned, target).await });
        }
    }

    /// Sends one message to one target, and records the result.
    async fn send_planned(self: Arc<Self>, planned: PlannedMessage, target: WaitingTarget) {
        let mut slot =
            SendSlot { notifier: Arc::clone(&self), target: Arc::clone(&planned.target), went: Some(false) };
        match self.message_to(&planned, &target).await {
            Ok(went) => slot.went = went,
            // The message may have been sent. It is sent again: a duplicate is better than a lost message.
            Err(error) => {
                warn!(target = %planned.target, %error, "can't read or settle a notification; retrying");
            }
        }
    }

    /// Sends the planned message to the target, and writes the result. Returns whether the target accepted the message;
    /// `None` if nothing was sent.
    async fn message_to(
        &self,
        planned: &PlannedMessage,
        target: &WaitingTarget,
    ) -> Result<Option<bool>, RecordsError> {
        let most = if planned.together { usize::try_from(MOST_WAITING).unwrap_or(usize::MAX) } else { 1 };
        let due = self.records.due_notifications(&target.name, most).await?;
        if due.is_empty() {
            return Ok(None);
        }
        let Some(found) = self.target(target) else {
            let gone = Delivered::new(false, "the target was removed");
            self.settle(target, due, &gone, "", 0, Some(SendState::Dropped)).await?;
            return Ok(None);
        };
        let (message, said_not_kept) = match &due[..] {
            [only] if target.not_kept == 0 => {
                let past = match self.records.notification(only.headline.id).await {
                    // It would be retried forever, and delay others.
                    Err(error @ RecordsError::Unreadable { .. }) => {
                        let unreadable = Delivered::new(false, error.to_string());
                        self.settle(target, due, &unreadable, "", 0, Some(SendState::Dropped)).await?;
                        return Ok(None);
                    }
                    past => past?,
                };
                (Message::of(past.id, &past.notification), 0)
            }
            many => {
                let headlines: Vec<_> = many.iter().map(|waiting| waiting.headline.clone()).collect();
                (Message::digest(&headlines, target.not_kept), target.not_kept)
            }
        };
        let delivered = self.post.send(target.tenant.as_ref(), &found.way, &message, (self.wall)()).await;
        if !delivered.is_local_fault {
            let result = if delivered.well { NotificationResult::Sent } else { NotificationResult::Failed };
            self.metrics.notification_messages.of(result).inc();
        }
        if !delivered.well {
            warn!(target = %target.name, response = delivered.answer, "a target did not accept a notification");
        }
        let said = if delivered.well { said_not_kept } else { 0 };
        self.settle(target, due, &delivered, &message.id, said, None).await?;
        Ok((!delivered.is_local_fault).then_some(delivered.well))
    }

    /// Writes the results for these notifications, in small transactions.
    async fn settle(
        &self,
        target: &WaitingTarget,
        notifications: Vec<WaitingNotification>,
        delivered: &Delivered,
        message: &str,
        mut said_not_kept: u64,
        end: Option<SendState>,
    ) -> Result<(), QueueError> {
        let now = (self.clock)();
        let follows = |waiting: &WaitingNotification| match (end, delivered.well) {
            (Some(end), _) => (waiting.headline.id, end, now),
            (None, true) => (waiting.headline.id, SendState::Sent, now),
            (None, false) if delivered.is_local_fault => {
                (waiting.headline.id, SendState::Waiting, now + AFTER_A_LOCAL_FAULT)
            }
            (None, false) => match after_failure(waiting.tries + 1, now) {
                AfterFailure::Again(due_at) => (waiting.headline.id, SendState::Waiting, due_at),
                AfterFailure::GivenUp => (waiting.headline.id, SendState::GivenUp, now),
            },
        };
        for piece in notifications.chunks(PIECE) {
            let notifications: Vec<_> = piece.iter().map(follows).collect();
            let given_up = notifications.iter().filter(|(_, state, _)| *state == SendState::GivenUp).count();
            if given_up > 0 {
                self.metrics.notification_messages.of(NotificationResult::GivenUp).inc_by(given_up as u64);
                warn!(target = %target.name, given_up, response = delivered.answer, "gave up notifications");
            }
            let result = SendResult {
                target: Arc::clone(&target.name),
                message: message.to_owned(),
                answer: delivered.answer.clone(),
                notifications,
                said_not_kept: std::mem::take(&mut said_not_kept),
                tried: end.is_none() && !delivered.is_local_fault,
            };
            self.records.settle_message(result).await?;
        }
        Ok(())
    }

    /// Returns a target's current settings. `None` if it was removed.
    fn target(&self, waiting: &WaitingTarget) -> Option<NotificationTarget> {
        let is_it = |target: &&NotificationTarget| target.name == waiting.name;
        match &waiting.tenant {
            None => self.directory.defaults().notification_targets.iter().find(is_it).cloned(),
            Some(tenant) => self
                .directory
                .tenant(tenant)?
                .source
                .settings
                .notification_targets
                .iter()
                .find(is_it)
                .cloned(),
        }
    }

    /// Sends a test message to each of a tenant's targets now, and returns their responses. Nothing is stored.
    ///
    /// # Errors
    /// If there were too many tests recently, returns the earliest time of the next one. Nothing was sent.
    pub async fn test(&self, tenant: &TenantId) -> Result<Vec<(NotificationTarget, Delivered)>, Timestamp> {
        let entry = self.directory.tenant(tenant);
        let targets =
            entry.map(|entry| entry.source.settings.notification_targets.clone()).unwrap_or_default();
        let pace = self.test_pace.lock().unwrap_or_else(PoisonError::into_inner).take(
            tenant,
            &targets,
            (self.clock)(),
        );
        pace?;
        let now = (self.wall)();
        let message =
            Message::of(NotificationId(Id::first_at(now)), &Notification::test(Some(tenant.clone()), now));
        let message = &message;
        let tests = targets.into_iter().map(|target| async move {
            let delivered = self.post.send(Some(tenant), &target.way, message, now).await;
            (target, delivered)
        });
        Ok(join_all(tests).await)
    }

    /// Sends a notification about the gateway from memory, to the operator's targets that subscribe to its kind,
    /// because it can't be written to the database. Each target is tried a few times; after that, the notification is
    /// lost.
    pub async fn send_unwritten(&self, notification: &Notification) {
        let kind = notification.kind();
        let message = Message::of(NotificationId(Id::first_at((self.clock)())), notification);
        let targets =
            self.directory.defaults().notification_targets.iter().filter(|target| target.on.has(kind));
        join_all(targets.map(|target| self.send_from_memory(target, &message))).await;
    }

    async fn send_from_memory(&self, target: &NotificationTarget, message: &Message) {
        for attempt in 1..=UNWRITTEN_ATTEMPTS {
            let delivered = self.post.send(None, &target.way, message, (self.clock)()).await;
            let result = if delivered.well { NotificationResult::Sent } else { NotificationResult::Failed };
            self.metrics.notification_messages.of(result).inc();
            if delivered.well {
                return;
            }
            warn!(target = %target.name, response = delivered.answer, attempt, "a target did not accept a notification");
            if attempt < UNWRITTEN_ATTEMPTS {
                sleep(UNWRITTEN_WAIT).await;
            }
        }
    }

    /// Returns the operator's targets that do not accept notifications, each with the time at which this began, for the
    /// health report. A tenant's failing targets concern only the tenant.
    #[must_use]
    pub fn failing(&self) -> Vec<(Arc<str>, Timestamp)> {
        let pacing = self.pacing();
        let operators = pacing.failing().filter(|(name, _)| name.starts_with(OPERATOR));
        operators.map(|(name, since)| (Arc::clone(name), since)).collect()
    }

    async fn run_maintenance(&self) {
        let mut ticks = interval(SLOW_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut from = (self.wall)().before(HOUR);
        let mut growth = self.settings.dead_letters.map(Growth::new);
        loop {
            ticks.tick().await;
            if let Some(growth) = &mut growth
                && let Err(error) = self.look_at_dead_letters(growth, &mut from).await
            {
                warn!(%error, "can't count dead letters; retrying");
            }
            match self.records.prune_notifications((self.wall)().before(self.settings.kept), PIECE).await {
                Ok(0) => {}
                Ok(pruned) => debug!(pruned, "deleted old notifications"),
                Err(error) => warn!(%error, "can't delete old notifications; retrying"),
            }
        }
    }

    async fn look_at_dead_letters(
        &self,
        growth: &mut Growth,
        from: &mut Timestamp,
    ) -> Result<(), QueueError> {
        // The wall clock may have been set back since.
        let failed = self.records.failed_since((*from).min((self.wall)())).await?;
        *from = failed.until;
        for (tenant, minute, count) in &failed.of {
            growth.add(tenant, *count, *minute);
        }
        for grown in growth.grown(failed.until) {
            let tenant = grown.tenant.clone();
            self.records
                .notify(Notification::dead_letters(tenant, grown.count, grown.limit, failed.until))
                .await?;
            growth.reported(&grown);
        }
        Ok(())
    }

    fn pacing(&self) -> MutexGuard<'_, Pacing> {
        self.pacing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
