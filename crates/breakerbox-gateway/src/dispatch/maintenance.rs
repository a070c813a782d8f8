//! Maintenance: periodic work, in bounded batches. It reclaims expired leases, expires deliveries that waited too long,
//! prunes finished deliveries, continues large fan-outs and resends after live traffic, and finds waiting lanes that
//! the dispatcher does not know.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use breakerbox::{Attribution, CircuitStatus, Mode, OverrideCommand};
use breakerbox_model::delivery::lanes::IdleLaneLimits;
use breakerbox_model::objects::{LaneId, ShownKey};
use breakerbox_storage::{BatchResult, QueueError, Retention};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tracing::warn;

use super::dispatcher::Dispatch;
use crate::telemetry::labels::Outcome;

/// The maximum number of rows in one batch.
const PIECE: usize = 500;

/// The maximum number of lanes to read in one batch.
const LANES: usize = 1_000;

/// The pause between two batches, so that live traffic goes first.
const BETWEEN_PIECES: Duration = Duration::from_millis(20);

/// The number of fan-out deliveries to write in one batch. It is small, because each may change a different page of the
/// database file.
const FAN_OUT_PIECE: u32 = 100;

/// The minimum pause between two fan-out batches.
const FAN_OUT_PAUSE: Duration = Duration::from_millis(1);

/// The length of the pause after each batch, as a multiple of the batch's duration. With 3, fan-outs take at most a
/// quarter of the writer's time.
const FAN_OUT_REST: u32 = 3;

/// The interval between checks for expired leases and expired deliveries.
const FAST_TICK: Duration = Duration::from_secs(1);

/// The interval between runs of the other maintenance tasks.
const SLOW_TICK: Duration = Duration::from_secs(30);

/// The limits for idle lanes in memory: their number, and for dynamic lanes also the number per tenant and the age.
const KEEP_IDLE: IdleLaneLimits =
    IdleLaneLimits { lanes: 100_000, dynamic_of_tenant: 1_000, dynamic_for: Duration::from_secs(600) };

impl Dispatch {
    /// Reports all waiting deliveries to the lanes. Call it at startup, before [`run`](Self::run), and later to recover
    /// from missed wakeups.
    ///
    /// # Errors
    /// Returns a queue error.
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

    /// Runs maintenance until the future is dropped.
    pub async fn run_maintenance(self: Arc<Self>, retention: Retention, history: Duration) {
        let (short, long) = (self.clone().fast_tick(), self.clone().slow_tick(retention, history));
        tokio::join!(short, long, self.clone().fan_out(), self.resend());
    }

    async fn fast_tick(self: Arc<Self>) {
        let mut ticks = interval(FAST_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.piece_by_piece("reclaim", || self.queue.reclaim(PIECE)).await;
            let expired = self.piece_by_piece("expire", || self.queue.expire(PIECE)).await;
            self.metrics.expired.inc_by(expired);
            self.metrics.deliveries.of(Outcome::Expired).inc_by(expired);
            let cancelled =
                self.piece_by_piece("cancel", || self.maintenance_records.cancel_orphans(PIECE)).await;
            self.metrics.deliveries.of(Outcome::Cancelled).inc_by(cancelled);
            self.forget_orphans().await;
            if self.destinations.lacked_room() {
                self.forget_idle(&KEEP_IDLE);
            }
        }
    }

    /// Resets circuits that no endpoint uses any more. Otherwise, an open circuit would stay open forever, because no
    /// call is left to probe it.
    async fn forget_orphans(&self) {
        let keys = std::mem::take(&mut *self.orphans.lock().unwrap_or_else(PoisonError::into_inner));
        for key in keys {
            if self.destinations.has_circuit(&key) {
                continue;
            }
            let by = Attribution::new("gateway", "no endpoint has it any more");
            let (Some(circuit), Ok(by)) = (self.breakers.find(&key), by) else { continue };
            let record = circuit.record();
            if record.status() == CircuitStatus::Closed && record.mode == Mode::Automatic {
                continue;
            }
            if let Err(error) = circuit.apply_override(OverrideCommand::Reset, &by).await {
                warn!(circuit = %ShownKey(&key), %error, "can't reset a circuit that no endpoint uses any more");
            }
        }
    }

    async fn slow_tick(self: Arc<Self>, retention: Retention, history: Duration) {
        let mut ticks = interval(SLOW_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let pruned = self.piece_by_piece("prune", || self.queue.prune(&retention, PIECE)).await;
            self.metrics.pruned.inc_by(pruned);
            let before = self.wall().before(history);
            self.piece_by_piece("prune the history", || {
                self.maintenance_records.prune_history(before, PIECE)
            })
            .await;
            let before = self.wall().before(retention.failed);
            self.piece_by_piece("prune reminders", || {
                self.maintenance_records.prune_reminders(before, PIECE)
            })
            .await;
            self.forget_idle(&KEEP_IDLE);
            self.breakers.tidy();
        }
    }

    /// Writes the deliveries of large fan-outs in batches.
    async fn fan_out(self: Arc<Self>) {
        loop {
            let began = Instant::now();
            let more = match self.queue.fan_out(FAN_OUT_PIECE).await {
                Ok(batch) => {
                    self.arrived(&batch.woken);
                    batch.more
                }
                Err(error) => {
                    warn!(%error, "can't write the deliveries of a fan-out; retrying");
                    false
                }
            };
            if more {
                sleep((FAN_OUT_REST * began.elapsed()).clamp(FAN_OUT_PAUSE, FAST_TICK)).await;
            } else {
                // An accepted event whose client disconnected sends no wakeup.
                let _ = timeout(FAST_TICK, self.deferred.notified()).await;
            }
        }
    }

    /// Continues resend jobs in batches. The pauses between batches keep the disk's queue short.
    async fn resend(self: Arc<Self>) {
        loop {
            let more = match self.maintenance_records.step_resends(PIECE).await {
                Ok(batch) => {
                    self.arrived(&batch.woken);
                    batch.more
                }
                Err(error) => {
                    warn!(%error, "can't resend deliveries; retrying");
                    false
                }
            };
            sleep(if more { 5 * BETWEEN_PIECES } else { FAST_TICK }).await;
        }
    }

    /// Runs batches until no rows are left to change. Returns the number of rows changed.
    async fn piece_by_piece<F>(self: &Arc<Self>, what: &str, piece: impl Fn() -> F) -> u64
    where
        F: Future<Output = Result<BatchResult, QueueError>>,
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
                    warn!(%error, what, "maintenance failed; retrying later");
                    return done;
                }
            }
            sleep(BETWEEN_PIECES).await;
        }
    }
}
