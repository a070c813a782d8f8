//! A token bucket that limits requests per second. The time is an argument.
//!
//! Its state is one number, the time at which the bucket will be full again. If a later gate refuses the request, its
//! token is returned.

use breakerbox_core::Timestamp;

use crate::values::RateLimit;

const NANOS: f64 = 1e9;

/// A token bucket. Each request takes one token; the bucket is initially full.
///
/// ```
/// use breakerbox_core::Timestamp;
/// use breakerbox_model::delivery::TokenBucket;
/// use breakerbox_model::objects::RateLimit;
///
/// let mut bucket = TokenBucket::new(RateLimit { per_second: 2.0, burst: 1 });
/// let now = Timestamp::from_millis(10_000);
/// assert_eq!(bucket.take(now), Ok(()));
/// assert_eq!(bucket.take(now), Err(Timestamp::from_millis(10_500)), "when the next one is there");
/// bucket.give_back();
/// assert_eq!(bucket.take(now), Ok(()));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TokenBucket {
    limit: RateLimit,
    /// The time between two tokens, in nanoseconds.
    interval: u64,
    /// When the bucket will be full again, in nanoseconds since the origin of `Timestamp`.
    full_at: u64,
}

impl TokenBucket {
    /// Creates a full bucket. A limit out of range is replaced by the nearest valid one; use [`RateLimit::check`] to
    /// detect it.
    #[must_use]
    pub fn new(limit: RateLimit) -> Self {
        Self { limit, interval: interval(limit), full_at: 0 }
    }

    /// Returns the rate limit that the bucket enforces.
    #[must_use]
    pub const fn limit(&self) -> RateLimit {
        self.limit
    }

    /// Takes a token.
    ///
    /// # Errors
    /// Returns the time of the next token, if there is none now.
    pub fn take(&mut self, now: Timestamp) -> Result<(), Timestamp> {
        let now = nanos(now);
        let full_at = self.full_at(now);
        let due = full_at.saturating_sub(self.room() - self.interval);
        if due > now {
            // Rounded up, so that a caller that waits until this time is not too early.
            return Err(Timestamp::from_micros(due.div_ceil(1_000)));
        }
        self.full_at = full_at.saturating_add(self.interval);
        Ok(())
    }

    /// Takes all of these tokens, or none. A number above the burst size is treated as the burst size, which needs a
    /// full bucket.
    ///
    /// # Errors
    /// Returns the time at which there will be enough tokens, if there are too few now.
    pub fn take_many(&mut self, tokens: u32, now: Timestamp) -> Result<(), Timestamp> {
        let tokens = tokens.min(self.limit.burst.max(1));
        let before = *self;
        for taken in 0..tokens {
            if let Err(due) = self.take(now) {
                *self = before;
                // The time at which the last of the tokens is available.
                let more = self.interval.saturating_mul(u64::from(tokens - taken - 1));
                return Err(Timestamp::from_micros(due.as_micros().saturating_add(more.div_ceil(1_000))));
            }
        }
        Ok(())
    }

    /// Returns whether the bucket is full at the time `now`. A full bucket can be forgotten without loss.
    #[must_use]
    pub const fn is_full(&self, now: Timestamp) -> bool {
        self.full_at <= nanos(now)
    }

    /// Returns an unused token to the bucket.
    pub const fn give_back(&mut self) {
        self.full_at = self.full_at.saturating_sub(self.interval);
    }

    /// Changes the limit. Tokens that were taken stay taken.
    pub fn change(&mut self, limit: RateLimit, now: Timestamp) {
        let now = nanos(now);
        let taken = self.full_at(now) - now;
        let changed = Self::new(limit);
        let scaled = u128::from(taken) * u128::from(changed.interval) / u128::from(self.interval);
        let scaled = u64::try_from(scaled).unwrap_or(u64::MAX).min(changed.room());
        *self = Self { full_at: now.saturating_add(scaled), ..changed };
    }

    /// Returns when the bucket will be full again. The result is at least `now` and, in case the clock was set back,
    /// at most the time at which an empty bucket would be full.
    fn full_at(&self, now: u64) -> u64 {
        self.full_at.clamp(now, now.saturating_add(self.room()))
    }

    /// Returns the time that an empty bucket needs to fill, in nanoseconds.
    fn room(&self) -> u64 {
        self.interval.saturating_mul(u64::from(self.limit.burst.max(1)))
    }
}

fn interval(limit: RateLimit) -> u64 {
    let range = RateLimit::MIN_PER_SECOND..=RateLimit::MAX_PER_SECOND;
    // NaN counts as out of range.
    let per_second = if range.contains(&limit.per_second) {
        limit.per_second
    } else if limit.per_second > RateLimit::MAX_PER_SECOND {
        RateLimit::MAX_PER_SECOND
    } else {
        RateLimit::MIN_PER_SECOND
    };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // From 1,000 to a day.
    let interval = (NANOS / per_second).round() as u64;
    interval
}

const fn nanos(at: Timestamp) -> u64 {
    at.as_micros().saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(per_second: f64, burst: u32) -> TokenBucket {
        TokenBucket::new(RateLimit { per_second, burst })
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_763_000_000_000 + millis)
    }

    #[test]
    fn a_burst_and_then_a_steady_pace() {
        let mut bucket = bucket(10.0, 3);
        let table = [
            (0, Ok(())),
            (0, Ok(())),
            (0, Ok(())),
            (0, Err(at(100))),
            (99, Err(at(100))),
            (100, Ok(())),
            (100, Err(at(200))),
            (10_000, Ok(())),
            (10_000, Ok(())),
            (10_000, Ok(())),
            (10_000, Err(at(10_100))),
        ];
        for (place, (now, expected)) in table.into_iter().enumerate() {
            assert_eq!(bucket.take(at(now)), expected, "{place}");
        }
    }

    #[test]
    fn over_an_hour_there_are_as_many_as_the_limit_says() {
        for (per_second, burst, expected) in [(7.3, 5, 26_285), (0.01, 1, 36), (333.0, 1, 1_198_801)] {
            let mut bucket = bucket(per_second, burst);
            let mut taken = 0;
            let mut now = at(0);
            while now <= at(3_600_000) {
                match bucket.take(now) {
                    Ok(()) => taken += 1,
                    Err(due) => {
                        assert!(due > now);
                        now = due;
                    }
                }
            }
            let difference = i64::from(taken) - i64::from(expected);
            // A caller that waits to the microsecond loses a fraction of one each time; one token beyond the last
            // second may be counted.
            assert!((-1_500..=1).contains(&difference), "{per_second}: {taken}, {difference}");
        }
    }

    #[test]
    fn many_are_taken_together_or_not_at_all() {
        let mut bucket = bucket(10.0, 5);
        assert_eq!(bucket.take_many(3, at(0)), Ok(()));
        assert_eq!(bucket.take_many(4, at(0)), Err(at(200)));
        assert_eq!(bucket.take_many(2, at(0)), Ok(()), "those that were there are still there");
        assert_eq!(bucket.take_many(1_000, at(0)), Err(at(500)), "a full bucket is enough");
        assert!(!bucket.is_full(at(499)) && bucket.is_full(at(500)));
        assert_eq!(bucket.take_many(1_000, at(500)), Ok(()));
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let mut bucket = bucket(1.0, 2);
        assert_eq!((bucket.take(at(0)), bucket.take(at(0))), (Ok(()), Ok(())));
        bucket.give_back();
        assert_eq!(bucket.take(at(0)), Ok(()));
        assert_eq!(bucket.take(at(0)), Err(at(1_000)));
        for _ in 0..10 {
            bucket.give_back();
        }
        let taken = (0..10).filter(|_| bucket.take(at(0)).is_ok()).count();
        assert_eq!(taken, 2, "it holds no more than its burst");
    }

    #[test]
    fn a_clock_that_steps_back_costs_no_more_than_an_empty_bucket() {
        let mut bucket = bucket(1.0, 2);
        assert_eq!(bucket.take(at(3_600_000)), Ok(()));
        let due = bucket.take(at(0)).unwrap_err();
        assert!(due <= at(2_000), "{due:?}");
    }

    #[test]
    fn another_limit_keeps_what_was_taken() {
        let mut changed = bucket(1.0, 4);
        for _ in 0..3 {
            assert_eq!(changed.take(at(0)), Ok(()));
        }
        changed.change(RateLimit { per_second: 10.0, burst: 4 }, at(0));
        assert_eq!(changed.take(at(0)), Ok(()));
        assert_eq!(changed.take(at(0)), Err(at(100)));
        changed.change(RateLimit { per_second: 10.0, burst: 1 }, at(0));
        assert_eq!(changed.take(at(0)), Err(at(100)), "not more than an empty bucket");
    }

    #[test]
    fn what_makes_no_sense_does_no_harm() {
        for per_second in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            let mut slow = bucket(per_second, 0);
            assert_eq!(slow.take(at(0)), Ok(()), "{per_second}");
            assert_eq!(slow.take(at(0)), Err(at(86_400_000)), "{per_second}");
        }
        let mut fast = bucket(f64::INFINITY, u32::MAX);
        assert!((0..1_000).all(|_| fast.take(at(0)).is_ok()));
        assert_eq!(fast.take(Timestamp::from_micros(u64::MAX)), Ok(()));
        let due = fast.take(Timestamp::ZERO).unwrap_err();
        assert!(due <= Timestamp::from_micros(1), "as from an empty bucket: {due:?}");
    }
}
