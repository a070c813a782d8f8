//! The valid ranges of a policy's numbers. They are defined only in this table: the builder checks against it, and
//! tests compare the gateway's API document and `docs/defaults.md` with it.

use core::ops::RangeInclusive;

/// The valid range of each numeric policy field, by the field's key. Durations, the preset and the cool-off factor are
/// not in this table.
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

/// The upper bound for policy fields that count calls. In practice, no window has as many.
const MAX_CALLS: u64 = 1_000_000_000;
/// The upper bound for policy fields that count probes, calls in flight or trips. In practice, no circuit has as many.
const MAX_SMALL: u64 = 1_000_000;

/// The upper bound for policy fields that count ticks. No useful window has as many.
const MAX_TICKS: u64 = 1_000;

/// Returns a field's valid range. A field that the table does not list has no bounds.
pub(super) fn bounds_of(key: &str) -> RangeInclusive<u64> {
    let found = POLICY_BOUNDS.iter().find(|(name, _)| *name == key);
    found.map_or(0..=u64::MAX, |(_, bounds)| bounds.clone())
}
