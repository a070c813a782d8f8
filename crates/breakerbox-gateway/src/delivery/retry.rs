//! When a failed attempt is tried again.

use std::time::Duration;

/// The waits between attempts. After the last one a delivery has failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RetrySchedule {
    waits: Vec<Duration>,
}

/// Why a schedule is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetryScheduleError {
    /// There are too many.
    #[error("must have at most {max} waits, but has {found}")]
    TooMany {
        /// How many there may be.
        max: usize,
        /// How many there are.
        found: usize,
    },
}

impl Default for RetrySchedule {
    fn default() -> Self {
        let waits = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000].map(Duration::from_secs);
        Self { waits: waits.to_vec() }
    }
}
