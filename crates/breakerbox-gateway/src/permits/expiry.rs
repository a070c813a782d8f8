//! Expires permits that are not settled. They count as failures, like calls whose caller has died. A probe's lease
//! simply ends, and the next acquire probes. The database is checked first, since another process may have settled the
//! permit.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_egress::host::Pauses;
use breakerbox_model::objects::PermitSettled;
use breakerbox_storage::QueueError;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::warn;

use super::Permits;
use super::table::Held;

/// The interval between checks for expired permits.
const EVERY: Duration = Duration::from_millis(250);

/// The maximum extra time for workers to report after a pause of this process.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The maximum number of permits to expire at a time.
const PIECE: usize = 500;

/// The interval at which old settlements are deleted.
const CLEAR_EVERY: Duration = Duration::from_secs(30);

/// How long a settled permit is remembered after its expiry, so that a late retry gets the same response.
const REMEMBERED: Duration = Duration::from_secs(600);

impl Permits {
    /// Expires permits until the future is dropped. After a pause of this process, workers first get as much time to
    /// report as the pause took, since reports that arrived during the pause have yet to be read.
    pub async fn run_expiry(self: Arc<Self>, pauses: Pauses) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut cleared_at = Instant::now();
        let (mut lost, mut wait_until) = (pauses.lost(), Instant::now());
        loop {
            ticks.tick().await;
            let pause = pauses.lost().saturating_sub(lost);
            if !pause.is_zero() {
                lost += pause;
                wait_until = Instant::now() + pause.min(LONGEST_WAIT);
            }
            if Instant::now() < wait_until {
                continue;
            }
            if let Err(error) = self.expire().await {
                warn!(%error, "can't read which permits were settled; retrying");
            }
            if cleared_at.elapsed() >= CLEAR_EVERY {
                cleared_at = Instant::now();
                if let Err(error) = self.clear().await {
                    warn!(%error, "can't delete settled permits; retrying later");
                }
            }
        }
    }

    /// Expires all permits that are due.
    ///
    /// # Errors
    /// Returns a database error. The remaining permits are expired at the next call.
    pub async fn expire(&self) -> Result<(), QueueError> {
        loop {
            let due = self.table.expired(self.now(), PIECE);
            if due.is_empty() {
                return Ok(());
            }
            let elsewhere: HashMap<_, _> = self.settled.settled_of(due.clone()).await?.into_iter().collect();
            for term in due {
                // Thousands may expire at once, and other tasks need the thread, too.
                consume_budget().await;
                // If it is no longer there, it is being settled in this process.
                if let Some(held) = self.table.take(term) {
                    self.end(held, elsewhere.get(&term.id).copied());
                }
            }
            self.update_gauge();
        }
    }

    fn end(&self, held: Held, elsewhere: Option<PermitSettled>) {
        let Held { permit, throttle, .. } = held;
        // The throttle gets no load signal: the worker may have died before it made the call.
        drop(throttle);
        match elsewhere {
            Some(settled) => permit.settled_elsewhere(settled.outcome),
            None => {
                self.metrics.permits_expired.inc();
                if permit.is_probe() {
                    permit.settled_elsewhere(breakerbox::OutcomeKind::Ignored);
                } else {
                    permit.failure();
                }
            }
        }
    }

    async fn clear(&self) -> Result<(), QueueError> {
        let before = self.now().before(REMEMBERED);
        while self.settled.prune_permits(before, PIECE).await? >= PIECE as u64 {}
        Ok(())
    }
}
