//! Pacing of retries after local faults. A lane retries soon, but all lanes together at a bounded rate, so that
//! thousands of lanes that lack the same file descriptor keep neither the processor nor the database busy.

use std::time::Duration;

use breakerbox_core::Timestamp;

/// The shortest wait.
const SHORTEST: Duration = Duration::from_millis(250);
/// The time between two lanes: 200 in a second.
const APART: Duration = Duration::from_millis(5);
/// The longest wait, however many lanes wait.
const LONGEST: Duration = Duration::from_secs(5);

/// Spreads the retries of all lanes that met a local fault.
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
    /// Returns when the next lane may retry.
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
        // A clock that was set back leaves no lane waiting for hours.
        let earlier = NOW.before(Duration::from_secs(900));
        assert_eq!(pace.next(earlier), earlier + LONGEST);
    }
}
