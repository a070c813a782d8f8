//! Random choices from a seed. The same seed gives the same choices; their effect on threads and processes may
//! differ.

use std::ops::Range;
use std::time::Duration;

/// A random number generator for a test's choices.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    /// Returns a generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a random number (SplitMix64).
    pub const fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a random number in a range.
    pub fn number(&mut self, range: Range<u64>) -> u64 {
        range.start + self.any() % (range.end - range.start).max(1)
    }

    /// Returns a random duration in a range, in whole microseconds.
    pub fn time(&mut self, range: Range<Duration>) -> Duration {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.number(micros(range.start)..micros(range.end)))
    }
}
