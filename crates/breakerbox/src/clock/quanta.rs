//! Stands in for the crate `quanta` without the feature of that name: the part of it that the clock uses, on the
//! standard library's monotonic clock.

use std::time::Instant;

pub(super) struct Clock {
    start: Instant,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { start: Instant::now() }
    }

    /// Returns the nanoseconds since this clock was created.
    pub(super) fn raw(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    #[allow(clippy::unused_self)] // As in `quanta`, where the clock scales its raw readings.
    pub(super) const fn delta_as_nanos(&self, start: u64, end: u64) -> u64 {
        end.saturating_sub(start)
    }
}
