//! What happens when the store's clock steps back.

use core::time::Duration;

use crate::record::{Lease, Record};
use crate::time::Timestamp;
use crate::token::Draw;

/// By how much a store's clock must be behind for it to have stepped back. The members of a fleet only estimate its time,
/// from requests that took a while, and what they estimate is in the records that they write.
const STEP: Duration = Duration::from_secs(1);

impl Record {
    /// The same for a record that others wrote by a clock that they could only estimate: what is less than a second ahead
    /// is as it should be.
    pub(crate) fn rebased_in_fleet(&self, draw: Draw, now: Timestamp) -> Option<Self> {
        if self.changed_at.since(now) < STEP { None } else { self.rebased(draw, now) }
    }

    /// If the clock stands before this record's own last change, the record with all its times moved back by the
    /// difference: cool-offs and leases last as long as they would have. The first asker swaps it in. None if the
    /// clock is right.
    #[must_use]
    pub fn rebased(&self, draw: Draw, now: Timestamp) -> Option<Self> {
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
