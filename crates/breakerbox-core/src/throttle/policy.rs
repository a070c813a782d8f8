//! The settings of a throttle, checked when the policy is built. No other part of the throttle accepts unchecked
//! settings.

use core::time::Duration;

use super::{Levels, Strategy};
use crate::time::micros;

/// A throttle's validated settings. A setting that is not given has its default.
///
/// ```
/// use breakerbox_core::throttle::{Strategy, ThrottlePolicy};
/// use core::time::Duration;
///
/// let policy = ThrottlePolicy::builder().levels(2).build()?;
/// assert_eq!(policy.strategy(), Strategy::Adaptive);
///
/// let error = ThrottlePolicy::builder().strategy(Strategy::Sre).window(Duration::ZERO).build().unwrap_err();
/// assert_eq!(error.to_string(), "window: must be at least a millisecond, but is 0ns");
/// # Ok::<(), breakerbox_core::throttle::ThrottlePolicyError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct ThrottlePolicy {
    strategy: Strategy,
    levels: Levels,
    k: f64,
    window: Duration,
    min_rate: f64,
    retry_percent: u64,
}

impl ThrottlePolicy {
    /// Returns a builder that starts from the defaults.
    pub fn builder() -> ThrottlePolicyBuilder {
        ThrottlePolicyBuilder::default()
    }

    /// Returns the strategy that decides which calls to shed.
    #[must_use]
    pub const fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Returns the number of priority levels.
    #[must_use]
    pub const fn levels(&self) -> Levels {
        self.levels
    }

    /// Returns the number of calls that may be made for each accepted one. Used by [`Strategy::Sre`].
    #[must_use]
    pub const fn k(&self) -> f64 {
        self.k
    }

    /// Returns the length of the rolling window over which calls count. Used by [`Strategy::Sre`].
    #[must_use]
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// Returns the approximate number of calls per second that are admitted even if all fail. Used by
    /// [`Strategy::Sre`].
    #[must_use]
    pub const fn min_rate(&self) -> f64 {
        self.min_rate
    }

    /// Returns the number of retries allowed per hundred accepted calls.
    #[must_use]
    pub const fn retry_percent(&self) -> u64 {
        self.retry_percent
    }
}

impl Default for ThrottlePolicy {
    fn default() -> Self {
        ThrottlePolicyBuilder::default().build().expect("a test builds the defaults")
    }
}

/// Builds a [`ThrottlePolicy`] from the defaults and the settings given.
#[derive(Clone, Debug)]
#[must_use]
pub struct ThrottlePolicyBuilder {
    strategy: Strategy,
    levels: u16,
    k: f64,
    window: Duration,
    min_rate: f64,
    retry_percent: u64,
}

impl Default for ThrottlePolicyBuilder {
    fn default() -> Self {
        Self {
            strategy: Strategy::Adaptive,
            levels: Levels::STANDARD.count(),
            k: 2.0,
            window: Duration::from_secs(60),
            min_rate: 1.0,
            retry_percent: 10,
        }
    }
}

impl ThrottlePolicyBuilder {
    /// Sets the strategy that decides which calls to shed. The default is [`Strategy::Adaptive`].
    pub const fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Sets the number of priority levels, at least 1. The default is 4.
    pub const fn levels(mut self, levels: u16) -> Self {
        self.levels = levels;
        self
    }

    /// Sets the number of calls that may be made for each accepted one, at least 1. The default is 2. Used by
    /// [`Strategy::Sre`].
    pub const fn k(mut self, k: f64) -> Self {
        self.k = k;
        self
    }

    /// Sets the length of the rolling window over which calls count, at least a millisecond. The default is a minute.
    /// Used by [`Strategy::Sre`].
    pub const fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Sets the approximate number of calls per second that are admitted even if all fail, more than 0. The default is
    /// 1. Used by [`Strategy::Sre`].
    pub const fn min_rate(mut self, min_rate: f64) -> Self {
        self.min_rate = min_rate;
        self
    }

    /// Sets the number of retries allowed per hundred accepted calls, 0 (none) to 100. The default is 10.
    pub const fn retry_percent(mut self, percent: u64) -> Self {
        self.retry_percent = percent;
        self
    }

    /// Checks the settings and builds the policy.
    ///
    /// # Errors
    /// The error names the first field that is out of range.
    pub fn build(&self) -> Result<ThrottlePolicy, ThrottlePolicyError> {
        let Self { strategy, levels, k, window, min_rate, retry_percent } = *self;
        let levels = Levels::new(levels).map_err(|_| ThrottlePolicyError::NoLevels)?;
        if !k.is_finite() || k < 1.0 {
            return Err(ThrottlePolicyError::K { found: k });
        }
        if micros(window) < 1_000 {
            return Err(ThrottlePolicyError::Window { found: window });
        }
        if !min_rate.is_finite() || min_rate <= 0.0 {
            return Err(ThrottlePolicyError::MinRate { found: min_rate });
        }
        if retry_percent > 100 {
            return Err(ThrottlePolicyError::RetryPercent { found: retry_percent });
        }
        Ok(ThrottlePolicy { strategy, levels, k, window, min_rate, retry_percent })
    }
}

/// The error for an invalid throttle policy. It names one field and its valid range.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThrottlePolicyError {
    /// The number of levels is zero.
    #[error("levels: there must be at least one")]
    NoLevels,
    /// `k` is not a finite number of at least 1.
    #[error("k: must be a number of at least 1, but is {found}")]
    K {
        /// The number that was given.
        found: f64,
    },
    /// The window is shorter than a millisecond.
    #[error("window: must be at least a millisecond, but is {found:?}")]
    Window {
        /// The duration that was given.
        found: Duration,
    },
    /// The minimum rate is not a finite number above 0. Without a minimum rate, the formula would admit no more calls
    /// once all were rejected.
    #[error("min_rate: must be a number above 0, but is {found}")]
    MinRate {
        /// The number that was given.
        found: f64,
    },
    /// The retry budget is above 100 %.
    #[error("retry_percent: must be 0 to 100, but is {found}")]
    RetryPercent {
        /// The number that was given.
        found: u64,
    },
}

impl ThrottlePolicyError {
    /// Returns the name of the field, as the builder spells it.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::NoLevels => "levels",
            Self::K { .. } => "k",
            Self::Window { .. } => "window",
            Self::MinRate { .. } => "min_rate",
            Self::RetryPercent { .. } => "retry_percent",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(builder: &ThrottlePolicyBuilder) -> Option<&'static str> {
        builder.build().err().map(|error| error.field())
    }

    #[test]
    fn an_error_names_the_field() {
        let good = ThrottlePolicyBuilder::default;
        let table = [
            (good(), None),
            (good().levels(0), Some("levels")),
            (good().levels(u16::MAX), None),
            (good().k(1.0), None),
            (good().k(0.999), Some("k")),
            (good().k(f64::NAN), Some("k")),
            (good().k(f64::INFINITY), Some("k")),
            (good().window(Duration::ZERO), Some("window")),
            (good().window(Duration::from_micros(999)), Some("window")),
            (good().window(Duration::MAX), None),
            (good().min_rate(0.0), Some("min_rate")),
            (good().min_rate(-1.0), Some("min_rate")),
            (good().min_rate(f64::NAN), Some("min_rate")),
            (good().min_rate(f64::MIN_POSITIVE), None),
            (good().retry_percent(0), None),
            (good().retry_percent(101), Some("retry_percent")),
        ];
        for (builder, expected) in table {
            assert_eq!(field(&builder), expected, "{builder:?}");
            let error = builder.build().err().map(|error| std::format!("{error}"));
            assert!(error.is_none_or(|text| text.starts_with(expected.unwrap_or("?"))));
        }
    }
}
