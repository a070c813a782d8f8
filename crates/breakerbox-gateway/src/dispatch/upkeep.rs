//! Upkeep: what is done now and then, in bounded pieces. Leases that ended are reclaimed, what waited for too long is given
//! up, finished work is pruned, large fan-outs and resends go on behind live traffic, and lanes are looked for that nobody
//! knows of.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use breakerbox::{Attribution, Command, Mode, Status};
use breakerbox_model::delivery::lanes::KeepIdle;
use breakerbox_model::objects::{LaneId, ShownKey};
use breakerbox_storage::{Batch, QueueError, Retention};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tracing::warn;

use super::dispatcher::Dispatch;
use crate::telemetry::labels::Outcome;

/// How many rows one piece of upkeep concerns at the most.
const PIECE: usize = 500;

/// How many lanes are looked at in one piece.
const LANES: usize = 1_000;

/// A pause between two pieces, so that live traffic comes first.
const BETWEEN_PIECES: Duration = Duration::from_millis(20);

/// How many deliveries of large fan-outs are written at once. Few, because each may change another page of the file.
const FAN_OUT_PIECE: u32 = 100;

/// The shortest pause between two of those.
const FAN_OUT_PAUSE: Duration = Duration::from_millis(1);

/// How many times as long as the piece before it each pause is, so that fan-outs have at most a quarter of the writer's time.
const FAN_OUT_REST: u32 = 3;

/// How often leases and expiries are looked at.
const SHORT: Duration = Duration::from_secs(1);

/// How often the rest is.
const LONG: Duration = Duration::from_secs(30);

/// Which lanes are remembered in which nothing waits.
const KEEP_IDLE: KeepIdle =
    KeepIdle { lanes: 100_000, dynamic_of_tenant: 1_000, dynamic_for: Duration::from_secs(600) };

impl Dispatch {
    /// Tells lanes of all that waits. For the start, before [`run`](Self::run), and to repair what was missed.
    ///
    /// # Errors
    /// If the queue fails.
    pub async fn find_waiting(self: &Arc<Self>) -> Result<(), QueueError> {
        let mut after: Option<LaneId> = None;
        loop {
            let waiting = self.queue.waiting_lanes(after, LANES).await?;
            self.arrived(&waiting);
            after = waiting.last().map(|waiting| waiting.lane);
            if waiting.len() < LANES {
                return Ok(());
            }
        }
    }

    /// Keeps house until the task is dropped.
    pub async fn keep_house(self: Arc<Self>, retention: Retention, history: Duration) {
        let (short, long) = (self.clone().often(), self.clone().seldom(retention, history));
        tokio::join!(short, long, self.clone().fan_out(), self.resend());
    }

    async fn often(self: Arc<Self>) {
        let mut ticks = interval(SHORT);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.piece_by_piece("reclaim", || self.queue.reclaim(PIECE)).await;
            let expired = self.piece_by_piece("expire", || self.queue.expire(PIECE)).await;
            self.metrics.expired.inc_by(expired);
            self.metrics.deliveries.of(Outcome::Expired).inc_by(expired);
            let cancelled = self.piece_by_piece("cancel", || self.chores.cancel_orphans(PIECE)).await;
            self.metrics.deliveries.of(Outcome::Cancelled).inc_by(cancelled);
            self.forget_orphans().await;
            if self.destinations.lacked_room() {
                self.forget_idle(&KEEP_IDLE);
            }
        }
    }

    /// A circuit that no endpoint has any more would stay open for ever: nobody is left who could probe it.
    async fn forget_orphans(&self) {
        let keys = std::mem::take(&mut *self.orphans.lock().unwrap_or_else(PoisonError::into_inner));
        for key in keys {
            if self.destinations.has_circuit(&key) {
                continue;
            }
            let by = Attribution::new("gateway", "no endpoint has it any more");
            let (Some(circuit), Ok(by)) = (self.breakers.find(&key), by) else { continue };
            let record = circuit.record();
            if record.status() == Status::Closed && record.mode == Mode::Automatic {
                continue;
            }
            if let Err(error) = circuit.apply_override(Command::Reset, &by).await {
                warn!(circuit = %ShownKey(&key), %error, "no endpoint has it any more, and it can't be reset");
            }
        }
    }

    async fn seldom(self: Arc<Self>, retention: Retention, history: Duration) {
        let mut ticks = interval(LONG);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let pruned = self.piece_by_piece("prune", || self.queue.prune(&retention, PIECE)).await;
            self.metrics.pruned.inc_by(pruned);
            let before = self.wall().before(history);
            self.piece_by_piece("prune the history", || self.chores.prune_history(before, PIECE)).await;
            let before = self.wall().before(retention.failed);
            self.piece_by_piece("prune reminders", || self.chores.prune_reminders(before, PIECE)).await;
            self.forget_idle(&KEEP_IDLE);
            self.breakers.tidy();
        }
    }

    /// Writes the deliveries of large fan-outs, piece by piece.
    async fn fan_out(self: Arc<Self>) {
        loop {
            let began = Instant::now();
            let more = match self.queue.fan_out(FAN_OUT_PIECE).await {
                Ok(batch) => {
                    self.arrived(&batch.woken);
                    batch.more
                }
                Err(error) => {
                    warn!(%error, "can't write the deliveries of a fan-out; trying again");
                    false
                }
            };
            if more {
                sleep((FAN_OUT_REST * began.elapsed()).clamp(FAN_OUT_PAUSE, SHORT)).await;
            } else {
                // An accept whose caller went away notifies nobody.
                let _ = timeout(SHORT, self.deferred.notified()).await;
            }
        }
    }

    /// Resends wait at the lowest priority; the pauses keep them from filling the disk's queue.
    async fn resend(self: Arc<Self>) {
        loop {
            let more = match self.chores.step_resends(PIECE).await {
                Ok(batch) => {
                    self.arrived(&batch.woken);
                    batch.more
                }
                Err(error) => {
                    warn!(%error, "can't resend; trying again");
                    false
                }
            };
            sleep(if more { 5 * BETWEEN_PIECES } else { SHORT }).await;
        }
    }

    /// Does what there is to do; answers how many rows it concerned.
    async fn piece_by_piece<F>(self: &Arc<Self>, what: &str, piece: impl Fn() -> F) -> u64
    where
        F: Future<Output = Result<Batch, QueueError>>,
    {
        let mut done = 0;
        loop {
            match piece().await {
                Ok(batch) => {
                    self.arrived(&batch.woken);
                    done += batch.done;
                    if !batch.more {
                        return done;
                    }
                }
                Err(error) => {
                    warn!(%error, what, "upkeep failed; trying again later");
                    return done;
                }
            }
            sleep(BETWEEN_PIECES).await;
        }
    }
}
