//! What happens when the store's clock steps back, or turns out to be elsewhere than a process thought.

use core::time::Duration;

use crate::record::{Lease, Record};
use crate::time::Timestamp;
use crate::token::{Epoch, RandomBits};

/// By how much a store's clock must be behind for it to have stepped back. The members of a fleet only estimate its time,
/// from requests that took a while, and what they estimate is in the records that they write.
const STEP: Duration = Duration::from_secs(1);

impl Record {
    /// A record that was decided by a clock which said `before` where the store's says `after`, by the store's clock: everything
    /// in it is as long ago, or as far ahead, as it was. The epoch follows the clock, but never back. A record that was decided
    /// by the store's clock just now stays as it is.
    #[must_use]
    pub(crate) fn moved(&self, before: Timestamp, after: Timestamp) -> Self {
        let off = self.changed_at.since(after).max(after.since(self.changed_at));
        if off < STEP {
            return self.clone();
        }
        let moved = |time: Timestamp| time.moved(before, after);
        let changed_at = moved(self.changed_at);
        let epoch = self.epoch.max(Epoch(changed_at.as_micros()));
        // Permits are of the epoch that they were given in: the result of a probe from before will be late.
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

    /// The same for a record that others wrote by a clock that they could only estimate: what is less than a second ahead
    /// is as it should be.
    pub(crate) fn rebased_in_fleet(&self, draw: RandomBits, now: Timestamp) -> Option<Self> {
        if self.changed_at.since(now) < STEP { None } else { self.rebased(draw, now) }
    }

    /// If the clock stands before this record's own last change, the record with all its times moved back by the
    /// difference: cool-offs and leases last as long as they would have. The first asker swaps it in. None if the
    /// clock is right.
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
