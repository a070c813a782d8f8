//! Rate limits for tenants and endpoints.

use serde::{Deserialize, Serialize};

/// A rate limit: an average rate per second and a burst size.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RateLimit {
    /// The average number of requests or events per second; at least one per day.
    pub per_second: f64,
    /// The maximum number allowed at once after a pause; at least 1.
    pub burst: u32,
}

/// Why a rate limit is invalid.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RateLimitError {
    /// The rate is out of range or not a number.
    #[error("rate.per_second: must be from one in a day (0.0000116) to 1000000, but is {0}")]
    PerSecond(f64),
    /// The burst is 0, which would allow nothing at all.
    #[error("rate.burst: must be at least 1")]
    Burst,
}

impl RateLimit {
    /// The minimum rate: one per day.
    pub const MIN_PER_SECOND: f64 = 1.0 / 86_400.0;
    /// The maximum rate: a million per second.
    pub const MAX_PER_SECOND: f64 = 1_000_000.0;

    /// Checks that the limit is valid.
    ///
    /// # Errors
    /// Returns an error that names the invalid field.
    pub fn check(self) -> Result<(), RateLimitError> {
        if !(Self::MIN_PER_SECOND..=Self::MAX_PER_SECOND).contains(&self.per_second) {
            return Err(RateLimitError::PerSecond(self.per_second));
        }
        if self.burst == 0 { Err(RateLimitError::Burst) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_limit_lets_something_through() {
        let table = [
            (1.0, 1, Ok(())),
            (1.0 / 86_400.0, u32::MAX, Ok(())),
            (1e6, 1, Ok(())),
            (1.0, 0, Err(RateLimitError::Burst)),
            (0.0, 1, Err(RateLimitError::PerSecond(0.0))),
            (-1.0, 1, Err(RateLimitError::PerSecond(-1.0))),
            (1e7, 1, Err(RateLimitError::PerSecond(1e7))),
        ];
        for (per_second, burst, expected) in table {
            assert_eq!(RateLimit { per_second, burst }.check(), expected, "{per_second} {burst}");
        }
        assert!(RateLimit { per_second: f64::NAN, burst: 1 }.check().is_err());
    }
}
