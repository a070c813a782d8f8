//! The bounds of a policy's numbers. This table is the only place that states them: the builder checks by it, and
//! tests compare the gateway's API document and `docs/defaults.md` with it.

use core::ops::RangeInclusive;

/// The valid numbers of each field of a policy, by its key. Durations, the preset and the factor are not in this
/// table.
pub const POLICY_BOUNDS: &[(&str, RangeInclusive<u64>)] = &[
    ("min_calls", 1..=MAX_CALLS),
    ("failure_rate", 1..=100),
    ("failures", 1..=MAX_CALLS),
    ("consecutive_failures", 1..=MAX_CALLS),
    ("slow_rate", 1..=100),
    ("jitter", 0..=100),
    ("probes", 1..=MAX_SMALL),
    ("ramp_cap", 1..=MAX_SMALL),
    ("disable_after", 1..=MAX_SMALL),
    ("recovery_rate", 1..=100),
    ("sample_recent", 1..=MAX_TICKS),
];

/// More calls than any window holds.
const MAX_CALLS: u64 = 1_000_000_000;
/// More probes, calls in flight or trips than any circuit sees.
const MAX_SMALL: u64 = 1_000_000;

/// More ticks than any useful window has.
const MAX_TICKS: u64 = 1_000;

/// Returns the bounds of one field; all numbers if it has none.
pub(super) fn bounds_of(key: &str) -> RangeInclusive<u64> {
    let found = POLICY_BOUNDS.iter().find(|(name, _)| *name == key);
    found.map_or(0..=u64::MAX, |(_, bounds)| bounds.clone())
}
