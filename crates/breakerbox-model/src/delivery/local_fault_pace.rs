//! Pacing of retries after local faults. A lane retries soon, but the rate for all lanes together is bounded, so that
//! thousands of lanes that all lack a file descriptor keep neither the CPU nor the database busy.

use std::time::Duration;

use breakerbox_core::Timestamp;

/// The minimum delay before a lane's retry.
const SHORTEST: Duration = Duration::from_millis(250);
/// The minimum interval between two retries. It limits all lanes together to 200 retries per second.
const APART: Duration = Duration::from_millis(5);
/// The maximum delay before a retry, even if so many lanes wait that their retries coincide.
const LONGEST: Duration = Duration::from_secs(5);

/// Spreads the retries of lanes that had a local fault over time, so that they do not all retry at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalFaultPace {
    next: Timestamp,
}

impl Default for LocalFaultPace {
    fn default() -> Self {
        Self { next: Timestamp::ZERO }
    }
}

impl LocalFaultPace {
    /// Returns the time at which the next lane should retry: the first free one, between 250 ms and 5 s from
    /// now.
    pub fn next(&mut self, now: Timestamp) -> Timestamp {
        let at = self.next.clamp(now + SHORTEST, now + LONGEST);
        self.next = at + APART;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    #[test]
    fn lanes_try_again_soon_and_one_after_the_other() {
        let mut pace = LocalFaultPace::default();
        let times: Vec<_> = (0..3).map(|_| pace.next(NOW)).collect();
        assert_eq!(times, [NOW + SHORTEST, NOW + SHORTEST + APART, NOW + SHORTEST + 2 * APART]);
        let later = NOW + LONGEST;
        assert_eq!(pace.next(later), later + SHORTEST, "nothing is left of an earlier crowd");
    }

    #[test]
    fn a_crowd_waits_for_a_bounded_time() {
        let mut pace = LocalFaultPace::default();
        let last = (0..100_000).map(|_| pace.next(NOW)).max();
        assert_eq!(last, Some(NOW + LONGEST));
        // If the clock is set back, no lane waits for hours.
        let earlier = NOW.before(Duration::from_secs(900));
        assert_eq!(pace.next(earlier), earlier + LONGEST);
    }
}
