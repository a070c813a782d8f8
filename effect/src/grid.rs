//! Other numbers around the defaults, on the same day: how the defaults were chosen.

use std::time::Duration;

use breakerbox_core::{Policy, format_duration};

use crate::breakers::{Row, gateway_policy, policy_with};

/// The numbers that the grid varies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Numbers {
    pub(crate) cool_off: Duration,
    pub(crate) factor: f64,
    pub(crate) max: Duration,
    pub(crate) forgive_after: Duration,
}

impl Numbers {
    pub(crate) fn of(policy: &Policy) -> Self {
        Self {
            cool_off: policy.cool_off(),
            factor: policy.cool_off_factor(),
            max: policy.cool_off_max(),
            forgive_after: policy.forgive_after(),
        }
    }

    /// Returns the row of the comparison with these numbers.
    pub(crate) fn row(self) -> Row {
        let policy = policy_with(|builder| {
            let builder = builder.cool_off(self.cool_off).cool_off_factor(self.factor);
            builder.cool_off_max(self.max).forgive_after(self.forgive_after)
        });
        Row::ours(&self.cells().join(", "), "", policy)
    }

    /// Returns the numbers as the policy file has them.
    pub(crate) fn cells(self) -> [String; 4] {
        let [cool_off, max, forgive_after] =
            [self.cool_off, self.max, self.forgive_after].map(format_duration);
        [cool_off, self.factor.to_string(), max, forgive_after]
    }
}

/// Returns the grid: other first cool-offs, other factors, and then every maximum with every time of forgiving.
pub(crate) fn numbers() -> Vec<Numbers> {
    let defaults = Numbers::of(&gateway_policy());
    let mut all = Vec::new();
    for cool_off in [500, 1_000, 2_000, 5_000, 30_000].map(Duration::from_millis) {
        all.push(Numbers { cool_off, ..defaults });
    }
    for factor in [1.25, 2.0] {
        all.push(Numbers { factor, ..defaults });
    }
    for max in [60, 120, 300, 600].map(Duration::from_secs) {
        for forgive_after in [10, 60, 600].map(Duration::from_secs) {
            let numbers = Numbers { max, forgive_after, ..defaults };
            if !all.contains(&numbers) {
                all.push(numbers);
            }
        }
    }
    if !all.contains(&defaults) {
        all.insert(0, defaults);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_contains_the_defaults_once_and_builds() {
        let all = numbers();
        let defaults = Numbers::of(&gateway_policy());
        assert_eq!(all.iter().filter(|numbers| **numbers == defaults).count(), 1);
        for numbers in all {
            assert_eq!(numbers.row().processes, 1, "{numbers:?}");
        }
    }
}
