//! The retry budget: it limits retries to a share of the calls that were accepted recently, so that they cannot
//! multiply an overload.
//!
//! It keeps the current window and the allowance of the previous one, and slides between them: the previous allowance
//! fades while the current one grows. Only retries cost time here; other calls do not.

use core::time::Duration;

use super::shared::Ordering::Relaxed;
use super::shared::{AtomicU64, Number};
use crate::time::{Timestamp, micros};

/// How long an accepted call counts towards the retry budget. The time is short, so that old accepts do not count, but
/// long enough that a client with few calls still has a budget.
const WINDOW: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct RetryBudget {
    /// The number of retries per hundred accepts. Allowances are in hundredths of a retry, so that whole percentages
    /// are exact.
    percent: f64,
    /// The start of the current window, in microseconds since the clock's origin.
    since: AtomicU64,
    /// The total number of accepts at the start of the current window.
    accepts_before: AtomicU64,
    /// The previous window's allowance, in hundredths of a retry. It decreases linearly over the current window.
    carried: Number,
    /// The number of retries in the current window.
    used: Number,
}

impl RetryBudget {
    pub(super) fn new(percent: u64) -> Self {
        Self {
            percent: percent as f64,
            since: AtomicU64::new(0),
            accepts_before: AtomicU64::new(0),
            carried: Number::new(0.0),
            used: Number::new(0.0),
        }
    }

    /// Whether one more retry is allowed. If so, the retry counts as made. `accepts` is the total number of accepts so
    /// far.
    pub(super) fn take(&self, accepts: u64, now: Timestamp) -> bool {
        let (now, window) = (now.as_micros(), micros(WINDOW));
        let since = self.since.load(Relaxed);
        // A clock that stepped back by more than a window would freeze the budget, so the window starts anew then,
        // too.
        if now.saturating_sub(since) >= window || since.saturating_sub(now) >= window {
            self.roll(since, accepts, now);
        }
        let since = self.since.load(Relaxed);
        let passed = (now.saturating_sub(since) as f64 / window as f64).min(1.0);
        let earned = accepts.saturating_sub(self.accepts_before.load(Relaxed)) as f64 * self.percent;
        let allowed = self.carried.load() * (1.0 - passed) + earned;
        self.used.update(|used| ((used + 1.0) * 100.0 <= allowed).then_some(used + 1.0)).is_ok()
    }

    /// Begins a new window. If several threads call this at once, only one has an effect.
    fn roll(&self, since: u64, accepts: u64, now: u64) {
        if self.since.compare_exchange(since, now, Relaxed, Relaxed).is_err() {
            return;
        }
        let length = now.saturating_sub(since).max(micros(WINDOW));
        let earned = accepts.saturating_sub(self.accepts_before.swap(accepts, Relaxed)) as f64 * self.percent;
        self.carried.store(earned * micros(WINDOW) as f64 / length as f64);
        self.used.store(0.0);
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn granted(budget: &RetryBudget, accepts: u64, seconds: u64) -> usize {
        (0..1_000).filter(|_| budget.take(accepts, Timestamp::from_millis(seconds * 1_000))).count()
    }

    #[test]
    fn retries_are_a_share_of_the_accepts() {
        for (percent, accepts, expected) in
            [(10, 0, 0), (10, 9, 0), (10, 10, 1), (10, 1_000, 100), (0, 1_000, 0), (100, 7, 7)]
        {
            assert_eq!(granted(&RetryBudget::new(percent), accepts, 5), expected, "{percent} % of {accepts}");
        }
    }

    #[test]
    fn accepts_of_long_ago_pay_for_nothing() {
        let budget = RetryBudget::new(10);
        assert_eq!(granted(&budget, 1_000, 100), 10, "the rate of the last 100 s, for 10 s");
        assert_eq!(granted(&budget, 1_000, 105), 0, "spent");
        assert_eq!(granted(&budget, 1_100, 108), 2, "2 of the window before, 10 earned, 10 spent");
        assert_eq!(granted(&budget, 1_100, 100_000), 0, "100 accepts in a day are no rate");
    }

    #[test]
    fn a_steady_rate_is_granted_its_share_in_every_window() {
        let budget = RetryBudget::new(10);
        let granted: Vec<_> = (1..=6).map(|n| granted(&budget, n * 1_000, n * 10)).collect();
        assert_eq!(granted, [100; 6]);
    }

    #[test]
    fn a_clock_that_steps_back_does_not_freeze_it() {
        let budget = RetryBudget::new(10);
        granted(&budget, 100, 1_000_000);
        assert_eq!(granted(&budget, 100, 1), 0);
        assert_eq!(granted(&budget, 200, 2), 10);
    }
}
