//! The scheduler: checks reminders when they are due, when a run has ended and when an API call changed them, and
//! carries out the decided next step. It follows the wall clock, since schedules are promises to people.
//!
//! Reminders that are due at the same moment are fired in bounded pieces, with a pause after each as long as the piece
//! took. So a burst of reminders takes at most half of the writer's time, and other events are still accepted and
//! delivered.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::reminder::{Act, CatchUp, Decided, Looked, Step, TenantSays, WhenFailed};
use breakerbox_storage::clock::WallClock;
use breakerbox_storage::{Calendar, Directory, StepError};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::dispatcher::Dispatch;
use crate::telemetry::Metrics;

/// The number of reminders checked in one piece. Other writes wait for the writer as long as a piece takes, so it is
/// small.
const PIECE: usize = 48;

/// The longest sleep. The wall clock may be set at any time without a signal, so it is read at least this often.
const LOOK_AT_THE_CLOCK: Duration = Duration::from_secs(1);

/// The pause after a fault.
const AFTER_A_FAULT: Duration = Duration::from_secs(1);

/// The next time to check reminders.
struct Next {
    /// The earliest time at which a reminder is to be checked. `None`: no reminder is left to check.
    at: Option<Timestamp>,
    /// Whether that reminder is due already, but could not be handled.
    is_due: bool,
}

/// Fires reminders.
pub struct Scheduler {
    calendar: Arc<dyn Calendar>,
    directory: Arc<Directory>,
    dispatch: Arc<Dispatch>,
    metrics: Arc<Metrics>,
    wall: WallClock,
    bell: Arc<Notify>,
}

impl Scheduler {
    /// Builds a scheduler of this calendar's reminders, which fires them through this dispatch.
    #[must_use]
    pub fn new(
        calendar: Arc<dyn Calendar>,
        directory: Arc<Directory>,
        dispatch: Arc<Dispatch>,
        metrics: Arc<Metrics>,
        wall: WallClock,
    ) -> Self {
        let bell = dispatch.bell();
        Self { calendar, directory, dispatch, metrics, wall, bell }
    }

    /// Checks reminders until the task is dropped.
    pub async fn run(self) {
        loop {
            // Subscribed before the check, so that no wakeup is missed meanwhile.
            let rung = self.bell.notified();
            match self.look().await {
                Ok(Next { at, is_due: false }) => self.wait(at, rung).await,
                // Due reminders could not be handled because the gateway stops. Checking again at once would only waste
                // CPU time.
                Ok(Next { is_due: true, .. }) => _ = timeout(AFTER_A_FAULT, rung).await,
                Err(error) => {
                    warn!(%error, "can't read due reminders; retrying");
                    sleep(AFTER_A_FAULT).await;
                }
            }
        }
    }

    /// Waits until the next check is due, by wakeup or by the clock.
    async fn wait(&self, next: Option<Timestamp>, rung: impl Future<Output = ()>) {
        tokio::pin!(rung);
        loop {
            let now = (self.wall)();
            let left = match next {
                Some(next) if next <= now => return,
                Some(next) => next.since(now).min(LOOK_AT_THE_CLOCK),
                None => LOOK_AT_THE_CLOCK,
            };
            if timeout(left, &mut rung).await.is_ok() {
                return;
            }
        }
    }

    /// Handles every reminder that is to be checked now. Returns when to check again.
    async fn look(&self) -> Result<Next, StepError> {
        loop {
            let began = Instant::now();
            let now = (self.wall)();
            let looked = self.calendar.to_look_at(now, PIECE).await?;
            if looked.is_empty() || self.dispatch.is_stopping() {
                let at = self.calendar.next_look().await?;
                return Ok(Next { at, is_due: at.is_some_and(|at| at <= now) });
            }
            let decided: Vec<Decided> = looked.iter().map(|looked| self.decide(looked, now)).collect();
            self.take_steps(decided, now).await?;
            if looked.len() == PIECE {
                sleep(began.elapsed()).await;
            }
        }
    }

    fn decide(&self, looked: &Looked, now: Timestamp) -> Decided {
        let says = self.directory.tenant(&looked.tenant).map_or(
            TenantSays { catch_up: CatchUp::All, when_failed: WhenFailed::Stop },
            |tenant| TenantSays {
                catch_up: tenant.reminders.catch_up,
                when_failed: tenant.reminders.when_failed,
            },
        );
        looked.decide(says, now)
    }

    async fn take_steps(&self, decided: Vec<Decided>, now: Timestamp) -> Result<(), StepError> {
        let stepped = self.calendar.take_steps(decided.clone()).await?;
        self.metrics.reminder_runs.inc_by(stepped.fired);
        self.metrics.reminders_stopped.inc_by(stepped.stopped);
        for decided in &decided {
            match decided.act {
                Act::Step(Step::Fire { scheduled_at, .. }) => {
                    self.metrics.reminder_lag_seconds.observe(now.since(scheduled_at).as_secs_f64());
                }
                // The reminder's owner has to act, not the operator, so it is not an error of the gateway.
                Act::Step(Step::Stop(why)) => warn!(reminder = %decided.id, %why, "reminder stopped"),
                _ => {}
            }
        }
        self.dispatch.fired(stepped.taken, &stepped.woken);
        Ok(())
    }
}
