//! Delays that grow with each failure, up to a maximum, with jitter.

use core::time::Duration;

use crate::token::RandomBits;

/// An exponential backoff. The delay is `first * factor^(n-1)`, capped at `max`. Jitter then changes the delay by at
/// most `jitter_percent` percent up or down, and the result is capped at `max` again.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) factor: f64,
    pub(crate) max: Duration,
    pub(crate) jitter_percent: u8,
}

impl Backoff {
    /// Returns the delay after the `n`-th consecutive failure; `n` counts from 1.
    pub(crate) fn delay(&self, n: u32, draw: RandomBits) -> Duration {
        // In this order, rounding cannot make the result negative, which a Duration would not accept.
        let spread = 1.0 + f64::from(self.jitter_percent) / 100.0 * draw.signed_unit();
        self.at_most_max(self.grown(n) * spread)
    }

    /// Returns the delay after the `n`-th consecutive failure, without jitter.
    pub(crate) fn delay_without_jitter(&self, n: u32) -> Duration {
        self.at_most_max(self.grown(n))
    }

    fn grown(&self, n: u32) -> f64 {
        let grown = self.first.as_secs_f64() * power(self.factor, n.saturating_sub(1));
        grown.min(self.max.as_secs_f64())
    }

    fn at_most_max(&self, delay: f64) -> Duration {
        if delay >= self.max.as_secs_f64() { self.max } else { Duration::from_secs_f64(delay) }
    }
}

/// Returns `base^exponent` by squaring; infinity on overflow.
fn power(mut base: f64, mut exponent: u32) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent % 2 == 1 {
            result *= base;
        }
        base *= base;
        exponent /= 2;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn backoff(factor: f64, jitter_percent: u8) -> Backoff {
        Backoff { first: Duration::from_secs(30), factor, max: Duration::from_secs(600), jitter_percent }
    }

    fn seconds(backoff: Backoff, n: u32) -> u64 {
        backoff.delay(n, RandomBits(0)).as_secs()
    }

    #[test]
    fn grows_by_the_factor_up_to_the_maximum() {
        let table = [(0, 30), (1, 30), (2, 60), (3, 120), (5, 480), (6, 600), (7, 600), (u32::MAX, 600)];
        for (n, expected) in table {
            assert_eq!(seconds(backoff(2.0, 0), n), expected, "after {n}");
        }
        assert_eq!(seconds(backoff(1.0, 0), u32::MAX), 30, "factor 1 never grows");
        assert_eq!(backoff(1.5, 0).delay(3, RandomBits(0)), Duration::from_millis(67_500));
        let odd = Backoff { first: Duration::from_millis(700), ..backoff(3.0, 0) };
        assert_eq!(odd.delay(2, RandomBits(0)), Duration::from_millis(2_100), "rounded, not cut off");
    }

    #[test]
    fn jitter_spreads_both_ways_and_never_beyond_the_maximum() {
        let (low, middle, high) = (RandomBits(0), RandomBits(1 << 127), RandomBits(u128::MAX));
        assert_eq!(backoff(2.0, 10).delay(1, low), Duration::from_secs(27));
        assert_eq!(backoff(2.0, 10).delay(1, middle), Duration::from_secs(30));
        assert!(backoff(2.0, 10).delay(1, high) > Duration::from_millis(32_999));
        assert_eq!(backoff(2.0, 10).delay(9, high), Duration::from_secs(600));
        assert_eq!(backoff(2.0, 10).delay(9, low), Duration::from_secs(540));
        for ms in 1..10_000 {
            let all_of_it = Backoff { first: Duration::from_millis(ms), ..backoff(2.0, 100) };
            assert_eq!(all_of_it.delay(1, low), Duration::ZERO, "{ms} ms");
        }
    }

    #[test]
    fn a_huge_factor_and_a_huge_count_do_not_overflow() {
        assert_eq!(seconds(backoff(1e308, 0), 3), 600);
        assert_eq!(seconds(backoff(f64::MAX, 50), u32::MAX), 300);
    }
}
