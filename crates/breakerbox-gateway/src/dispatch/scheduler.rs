//! The scheduler: checks a reminder when it is due, when a run has ended and when an API call changed it, and carries
//! out its next step. It uses the wall clock, since people specify schedules in wall-clock time.
//!
//! Reminders that are due at the same time are fired in bounded batches. After each batch follows a pause of the same
//! length. So a burst of reminders takes at most half of the writer's time, and other events are still accepted and
//! delivered.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::reminder::{
    Action, CatchUp, Decision, DueReminder, ReminderDefaults, Step, WhenFailed,
};
use breakerbox_storage::clock::WallClock;
use breakerbox_storage::{ApplyError, Directory, ReminderStore};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::dispatcher::Dispatch;
use crate::telemetry::Metrics;

/// The number of reminders to check in one batch. It is small, because other writes wait until the batch is done.
const PIECE: usize = 48;

/// The maximum time between two readings of the wall clock, which may be set at any time.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The pause after a failed check.
const AFTER_A_FAULT: Duration = Duration::from_secs(1);

/// The result of a check: when to check again.
struct NextCheck {
    /// The earliest time at which a reminder has to be checked. `None` if no reminder has to be checked.
    at: Option<Timestamp>,
    /// Whether the reminder to check next is already due, but could not be handled.
    is_due: bool,
}

/// Fires reminders when they are due.
pub struct Scheduler {
    reminder_store: Arc<dyn ReminderStore>,
    directory: Arc<Directory>,
    dispatch: Arc<Dispatch>,
    metrics: Arc<Metrics>,
    wall: WallClock,
    wakeup: Arc<Notify>,
}

impl Scheduler {
    /// Creates a scheduler for the reminders in this store, which fires them through this dispatcher.
    #[must_use]
    pub fn new(
        reminder_store: Arc<dyn ReminderStore>,
        directory: Arc<Directory>,
        dispatch: Arc<Dispatch>,
        metrics: Arc<Metrics>,
        wall: WallClock,
    ) -> Self {
        let wakeup = dispatch.wakeup();
        Self { reminder_store, directory, dispatch, metrics, wall, wakeup }
    }

    /// Checks reminders until the future is dropped.
    pub async fn run(self) {
        loop {
            // Subscribed before the check, so that no wakeup is missed in between.
            let woken = self.wakeup.notified();
            match self.check_due().await {
                Ok(NextCheck { at, is_due: false }) => self.wait(at, woken).await,
                // Due reminders could not be handled because the gateway is stopping. Checking again immediately would
                // only waste CPU time.
                Ok(NextCheck { is_due: true, .. }) => _ = timeout(AFTER_A_FAULT, woken).await,
                Err(error) => {
                    warn!(%error, "can't read due reminders; retrying");
                    sleep(AFTER_A_FAULT).await;
                }
            }
        }
    }

    /// Waits until the next check is due, or until a wakeup.
    async fn wait(&self, next: Option<Timestamp>, woken: impl Future<Output = ()>) {
        tokio::pin!(woken);
        loop {
            let now = (self.wall)();
            let left = match next {
                Some(next) if next <= now => return,
                Some(next) => next.since(now).min(CLOCK_CHECK_INTERVAL),
                None => CLOCK_CHECK_INTERVAL,
            };
            if timeout(left, &mut woken).await.is_ok() {
                return;
            }
        }
    }

    /// Handles every reminder that has to be checked now. Returns when to check again.
    async fn check_due(&self) -> Result<NextCheck, ApplyError> {
        loop {
            let began = Instant::now();
            let now = (self.wall)();
            let due = self.reminder_store.due_reminders(now, PIECE).await?;
            if due.is_empty() || self.dispatch.is_stopping() {
                let at = self.reminder_store.next_check_at().await?;
                return Ok(NextCheck { at, is_due: at.is_some_and(|at| at <= now) });
            }
            let decisions: Vec<Decision> = due.iter().map(|due| self.decide(due, now)).collect();
            self.apply_decisions(decisions, now).await?;
            if due.len() == PIECE {
                sleep(began.elapsed()).await;
            }
        }
    }

    fn decide(&self, due: &DueReminder, now: Timestamp) -> Decision {
        let defaults = self.directory.tenant(&due.tenant).map_or(
            ReminderDefaults { catch_up: CatchUp::All, when_failed: WhenFailed::Stop },
            |tenant| ReminderDefaults {
                catch_up: tenant.reminders.catch_up,
                when_failed: tenant.reminders.when_failed,
            },
        );
        due.decide(defaults, now)
    }

    async fn apply_decisions(&self, decisions: Vec<Decision>, now: Timestamp) -> Result<(), ApplyError> {
        let applied = self.reminder_store.apply_decisions(decisions.clone()).await?;
        self.metrics.reminder_runs.inc_by(applied.fired);
        self.metrics.reminders_stopped.inc_by(applied.stopped);
        for decision in &decisions {
            match decision.action {
                Action::Step(Step::Fire { scheduled_at, .. }) => {
                    self.metrics.reminder_lag_seconds.observe(now.since(scheduled_at).as_secs_f64());
                }
                // The reminder's owner has to act, not the operator, so this is not logged as an error.
                Action::Step(Step::Stop(why)) => {
                    warn!(reminder = %decision.id, %why, "reminder stopped");
                }
                _ => {}
            }
        }
        self.dispatch.start_fresh(applied.taken, &applied.woken);
        Ok(())
    }
}
