//! Shares of a whole in which no group weighs too much.
//!
//! Most decisions about an outage ask for a share of the keys. Counted plainly, the owner of most keys decides alone.
//! Here a group (a tenant, a host) weighs as many keys as it has, but never more than a fifth of the whole, or an equal
//! part if there are fewer than five groups.

/// The keys of one group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Group {
    /// The number of keys.
    pub(super) keys: u32,
    /// How many of them count.
    pub(super) part: u32,
}

/// The number of groups among which the whole is divided at least, if there are as many.
const LEAST_GROUPS: usize = 5;

/// Returns the share of the keys that count, in percent, with no group above its limit. Returns 0 without keys.
pub(super) fn capped_percent(groups: &mut [Group]) -> f64 {
    groups.sort_unstable_by_key(|group| core::cmp::Reverse(group.keys));
    let cap = cap(groups);
    let (mut whole, mut part) = (0.0, 0.0);
    for group in groups.iter().filter(|group| group.keys > 0) {
        let weight = f64::from(group.keys).min(cap);
        whole += weight;
        part += weight * f64::from(group.part) / f64::from(group.keys);
    }
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// Returns the maximum weight of a group: a fifth of the sum of all weights. `groups` has the largest first.
fn cap(groups: &[Group]) -> f64 {
    let mut rest: f64 = groups.iter().map(|group| f64::from(group.keys)).sum();
    for (capped, group) in groups.iter().enumerate().take(LEAST_GROUPS) {
        // With `capped` groups at the cap, it is a fifth of the whole: cap = (capped * cap + rest) / LEAST_GROUPS.
        let cap = rest / small(LEAST_GROUPS - capped);
        if f64::from(group.keys) <= cap {
            return cap;
        }
        rest -= f64::from(group.keys);
    }
    // Fewer than five groups: all weigh as much as the smallest.
    groups.last().map_or(0.0, |group| f64::from(group.keys))
}

#[allow(clippy::cast_precision_loss, reason = "at most LEAST_GROUPS")]
const fn small(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn percent(groups: &[(u32, u32)]) -> f64 {
        let mut groups: Vec<_> =
            groups.iter().map(|(keys, part)| Group { keys: *keys, part: *part }).collect();
        capped_percent(&mut groups)
    }

    #[test]
    fn no_group_weighs_more_than_a_fifth_or_its_equal_part() {
        let cases: [(&[(u32, u32)], f64); 8] = [
            (&[], 0.0),
            (&[(0, 0)], 0.0),
            (&[(50, 40)], 80.0),
            (&[(1_000, 1_000), (1, 0)], 50.0),
            (&[(1_000, 1_000), (10, 0), (10, 0), (10, 0)], 25.0),
            (&[(1_000, 1_000), (10, 0), (10, 0), (10, 0), (10, 0)], 20.0),
            (&[(1_000, 1_000), (2, 0), (2, 0), (2, 0), (2, 0), (2, 0), (2, 0)], 20.0),
            (&[(10, 10), (10, 10), (10, 10), (10, 10), (10, 10), (10, 0)], 250.0 / 3.0),
        ];
        for (groups, expected) in cases {
            assert!((percent(groups) - expected).abs() < 1e-9, "{groups:?}: {}", percent(groups));
        }
    }

    proptest! {
        /// One group alone changes the share by at most a fifth, whatever its size, if there are four others or more.
        #[test]
        fn one_group_moves_the_share_by_a_fifth_at_most(
            others in proptest::collection::vec((1_u32..50, 0_u32..=100), 4..40),
            keys in 1_u32..100_000,
        ) {
            let mut groups: Vec<_> = others.iter().map(|(keys, part)| (*keys, keys * part / 100)).collect();
            groups.push((keys, 0));
            let without = percent(&groups);
            *groups.last_mut().unwrap() = (keys, keys);
            let with = percent(&groups);
            prop_assert!(with - without <= 20.0 + 1e-9, "{without} {with}");
            prop_assert!((0.0..=100.0 + 1e-9).contains(&with));
        }
    }
}
