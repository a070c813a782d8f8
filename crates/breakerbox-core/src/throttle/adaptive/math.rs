//! The two mathematical functions that `core` lacks, as exact as a throttle needs them.

/// Returns the fraction of a value that is left after it has decayed for `x` time constants, about `e^-x`. `x` must not
/// be negative.
pub(super) fn fade(x: f64) -> f64 {
    let root = 1.0 / (1.0 + x / 16.0);
    let square = root * root;
    let fourth = square * square;
    let eighth = fourth * fourth;
    eighth * eighth
}

/// Returns the square root of a non-negative number, by Newton's method from a guess that halves the exponent.
pub(super) fn square_root(x: f64) -> f64 {
    if !(x > 0.0 && x < f64::INFINITY) {
        return 0.0;
    }
    let mut root = f64::from_bits((x.to_bits() >> 1) + (1_023_u64 << 51));
    for _ in 0..4 {
        root = 0.5 * (root + x / root);
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fades_like_an_exponential() {
        for x in [0.0, 0.01, 0.5, 1.0, 3.0] {
            let exact = f64::exp(-x);
            assert!((fade(x) - exact).abs() < 0.015, "{x}: {} for {exact}", fade(x));
        }
        assert_eq!(fade(0.0), 1.0);
        assert_eq!(fade(f64::INFINITY), 0.0);
        assert_eq!(fade(f64::MAX), 0.0);
    }

    #[test]
    fn takes_roots() {
        for x in [1e-300, 1e-9, 0.25, 1.0, 2.0, 100.0, 1e5, 1e300] {
            let exact = f64::sqrt(x);
            assert!((square_root(x) / exact - 1.0).abs() < 1e-9, "{x}: {} for {exact}", square_root(x));
        }
        for x in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(square_root(x), 0.0, "{x}");
        }
    }
}
