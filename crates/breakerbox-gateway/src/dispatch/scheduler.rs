//! The scheduler: checks reminders when they are due, when a run has ended and when an API call changed them, and
//! carries out the decided next step. It follows the wall clock, since schedules are promises to people.
//!
//! Reminders that are due at the same moment are fired in bounded pieces, with a pause after each as long as the piece
//! took. So a burst of reminders takes at most half of the writer's time, and other events are still accepted and
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

/// The number of reminders checked in one piece. Other writes wait for the writer as long as a piece takes, so it is
/// small.
const PIECE: usize = 48;

/// The longest sleep. The wall clock may be set at any time without a signal, so it is read at least this often.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The pause after a fault.
const AFTER_A_FAULT: Duration = Duration::from_secs(1);

/// The next time to check reminders.
struct NextCheck {
    /// The earliest time at which a reminder is to be checked. `None`: no reminder is left to check.
    at: Option<Timestamp>,
    /// Whether that reminder is due already, but could not be handled.
    is_due: bool,
}

/// Fires reminders.
pub struct Scheduler {
    reminder_store: Arc<dyn ReminderStore>,
    directory: Arc<Directory>,
    dispatch: Arc<Dispatch>,
    metrics: Arc<Metrics>,
    wall: WallClock,
    wakeup: Arc<Notify>,
}

impl Scheduler {
    /// Builds a scheduler of this calendar's reminders, which fires them through this dispatch.
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

    /// Checks reminders until the task is dropped.
    pub async fn run(self) {
        loop {
            // Subscribed before the check, so that no wakeup is missed meanwhile.
            let woken = self.wakeup.notified();
            match self.check_due().await {
                Ok(NextCheck { at, is_due: false }) => self.wait(at, woken).await,
                // Due reminders could not be handled because the gateway stops. Checking again at once would only waste
                // CPU time.
                Ok(NextCheck { is_due: true, .. }) => _ = timeout(AFTER_A_FAULT, woken).await,
                Err(error) => {
                    warn!(%error, "can't read due reminders; retrying");
                    sleep(AFTER_A_FAULT).await;
                }
            }
        }
    }

    /// Waits until the next check is due, by wakeup or by the clock.
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

    /// Handles every reminder that is to be checked now. Returns when to check again.
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
                // The reminder's owner has to act, not the operator, so it is not an error of the gateway.
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
