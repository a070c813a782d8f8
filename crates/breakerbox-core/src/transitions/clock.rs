//! The correction of times when the store's clock steps back, or differs from a process's estimate.

use core::time::Duration;

use crate::record::{Lease, Record};
use crate::time::Timestamp;
use crate::token::{Epoch, RandomBits};

/// The minimum difference that counts as a step of the store's clock. Smaller differences are normal, because the times
/// in records are processes' estimates of the store's time.
const STEP: Duration = Duration::from_secs(1);

impl Record {
    /// Converts a record from a clock that showed `before` to the store's clock, which shows `after`. Every time in the
    /// record keeps its distance from the current time. The epoch is adjusted too, but never decreases. A record that
    /// changed within a second of `after` stays unchanged, because its times are already by the store's clock.
    #[must_use]
    pub(crate) fn moved(&self, before: Timestamp, after: Timestamp) -> Self {
        let off = self.changed_at.since(after).max(after.since(self.changed_at));
        if off < STEP {
            return self.clone();
        }
        let moved = |time: Timestamp| time.moved(before, after);
        let changed_at = moved(self.changed_at);
        let epoch = self.epoch.max(Epoch(changed_at.as_micros()));
        // Permits belong to the epoch in which they were given, so the result of an earlier probe will be late.
        let lease = self.lease.filter(|_| epoch == self.epoch);
        Self {
            epoch,
            opened_at: self.opened_at.map(moved),
            retry_at: self.retry_at.map(moved),
            lease: lease.map(|lease| Lease { expires_at: moved(lease.expires_at), ..lease }),
            changed_at,
            ..self.clone().with_latest_outcomes(self.latest_outcomes().moved(before, after))
        }
    }

    /// As [`rebased`](Self::rebased), for a record whose writer could only estimate the store's time. A record that is
    /// less than a second ahead of the clock counts as correct.
    pub(crate) fn rebased_in_fleet(&self, draw: RandomBits, now: Timestamp) -> Option<Self> {
        if self.changed_at.since(now) < STEP { None } else { self.rebased(draw, now) }
    }

    /// If the clock shows a time before this record's latest change, returns the record with all times moved back by
    /// the difference, so that cool-offs and leases keep their length. The first caller that acquires a permit swaps
    /// the result in. Returns `None` if the clock is right.
    #[must_use]
    pub fn rebased(&self, draw: RandomBits, now: Timestamp) -> Option<Self> {
        let back = self.changed_at.since(now);
        if back.is_zero() {
            return None;
        }
        let moved = |time: Timestamp| time.back_by(back);
        Some(Self {
            version: draw.version(),
            opened_at: self.opened_at.map(moved),
            retry_at: self.retry_at.map(moved),
            last_success: self.last_success.map(moved),
            failing_since: self.failing_since.map(moved),
            lease: self.lease.map(|lease| Lease { expires_at: moved(lease.expires_at), ..lease }),
            changed_at: now,
            ..self.clone()
        })
    }
}
