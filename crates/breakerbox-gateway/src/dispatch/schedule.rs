//! The scheduler: looks at reminders when they are due, when a run has ended and when somebody asked something of them; has
//! decided what comes next, and has that done. It follows the wall clock, since schedules are promises to people.
//!
//! Whatever is due at the same moment is fired in bounded pieces, with a pause after each as long as the piece took. So a crowd
//! of reminders takes at most half of the writer's time, and what else is accepted and delivered goes on.

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

/// How many reminders are looked at in one piece. Others wait for the writer as long as a piece takes, so it is short.
const PIECE: usize = 48;

/// The wall clock may be set at any time, and nobody tells: it is read at least so often.
const LOOK_AT_THE_CLOCK: Duration = Duration::from_secs(1);

/// How long to wait when something failed.
const AFTER_A_FAULT: Duration = Duration::from_secs(1);

/// When to look at reminders again.
struct Next {
    /// The earliest that is to be looked at; none: there is none.
    at: Option<Timestamp>,
    /// It is due already, and was left alone.
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
    /// For the reminders of this calendar. What is fired goes through this dispatch.
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

    /// Looks at reminders until the task is dropped.
    pub async fn run(self) {
        loop {
            // Before looking: what happens meanwhile is not missed.
            let rung = self.bell.notified();
            match self.look().await {
                Ok(Next { at, is_due: false }) => self.wait(at, rung).await,
                // What is due was not to be had: the gateway stops. Looking again at once would only burn time.
                Ok(Next { is_due: true, .. }) => _ = timeout(AFTER_A_FAULT, rung).await,
                Err(error) => {
                    warn!(%error, "can't look at reminders; trying again");
                    sleep(AFTER_A_FAULT).await;
                }
            }
        }
    }

    /// Until there is something to look at, by the bell or by the clock.
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

    /// Deals with everything that is to be looked at now. Answers when to look again.
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
                // Its owner has to look at it, not the operator: no error of the gateway.
                Act::Step(Step::Stop(why)) => warn!(reminder = %decided.id, %why, "a reminder has stopped"),
                _ => {}
            }
        }
        self.dispatch.fired(stepped.taken, &stepped.woken);
        Ok(())
    }
}
