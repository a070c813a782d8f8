//! Random numbers that depend only on the seed and on what they are drawn for, not on what was drawn before. So the
//! same event has the same fate under every breaker, and rows can be compared pair by pair.

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// Returns a generator for this purpose; equal parts give equal numbers.
pub(crate) fn generator(parts: &[u64]) -> SmallRng {
    let mix = |sum: u64, part: &u64| (sum ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    SmallRng::seed_from_u64(parts.iter().fold(0x5EED, mix))
}

/// Returns an exponentially distributed number with mean 1.
pub(crate) fn exponential(rng: &mut SmallRng) -> f64 {
    -(1.0 - rng.random::<f64>()).ln()
}

/// Returns a duration whose logarithm is uniform between the two bounds.
pub(crate) fn log_uniform(rng: &mut SmallRng, from: Duration, to: Duration) -> Duration {
    let (from, to) = (from.as_secs_f64().ln(), to.as_secs_f64().ln());
    Duration::from_secs_f64((from + (to - from) * rng.random::<f64>()).exp())
}

/// Returns a uniform duration between the two bounds.
pub(crate) fn uniform(rng: &mut SmallRng, from: Duration, to: Duration) -> Duration {
    from + to.saturating_sub(from).mul_f64(rng.random::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_parts_give_equal_numbers_and_others_do_not() {
        let draw = |parts: &[u64]| generator(parts).random::<u64>();
        assert_eq!(draw(&[1, 2]), draw(&[1, 2]));
        let others = [draw(&[1, 2]), draw(&[2, 1]), draw(&[1, 2, 0]), draw(&[1, 3]), draw(&[0, 2])];
        let distinct: std::collections::HashSet<_> = others.iter().collect();
        assert_eq!(distinct.len(), others.len());
    }

    #[test]
    fn distributions_have_their_means_and_bounds() {
        let mut rng = generator(&[7]);
        let mean = (0..20_000).map(|_| exponential(&mut rng)).sum::<f64>() / 20_000.0;
        assert!((mean - 1.0).abs() < 0.05, "{mean}");
        let (from, to) = (Duration::from_millis(300), Duration::from_secs(5));
        for _ in 0..1_000 {
            assert!((from..=to + Duration::from_millis(1)).contains(&log_uniform(&mut rng, from, to)));
            assert!((from..=to).contains(&uniform(&mut rng, from, to)));
        }
    }
}
