//! The token bucket, which gives tokens in strict order of priority: a lower level needs a fuller bucket, so it gets
//! only the tokens that the higher levels leave.
//!
//! **Floor.** A bucket never holds back all calls for longer than [`LONGEST_HOLD_MICROS`]: if no call was admitted
//! for that long, the next one is, regardless of tokens and level. Without the floor, a caller that follows the retry
//! hints would acquire less and less often, and the rate, which follows the load, would fall with it.

use core::time::Duration;

use super::super::shared::Ordering::Relaxed;
use super::super::shared::{AtomicU64, Number};

/// The token bucket's depth, in seconds at its current rate. `DEPTH_CALLS` applies instead if that is more.
const DEPTH_SECONDS: f64 = 0.5;
/// The minimum depth of the bucket, in calls, so that bursts of calls are admitted.
const DEPTH_CALLS: f64 = 10.0;
/// The bucket's depth during an outage, in probes.
const PROBE_DEPTH: f64 = 2.0;
/// The maximum time, in microseconds, for which a bucket admits no call. This is also the maximum retry hint.
const LONGEST_HOLD_MICROS: u64 = 2_000_000;

/// The minimum retry hint, in microseconds. Tokens are added at this interval, so an earlier call would be shed again.
const SHORTEST_HOLD_MICROS: u64 = 1 << super::LOOK_BITS;

#[derive(Debug)]
pub(super) struct Bucket {
    levels: f64,
    tokens: Number,
    depth: Number,
    rate: Number,
    /// The time, in microseconds, at which a call was last admitted; before the first call, the time at which the
    /// bucket started.
    passed_at: AtomicU64,
}

impl Bucket {
    pub(super) fn new(levels: u16) -> Self {
        Self {
            levels: f64::from(levels),
            tokens: Number::new(0.0),
            depth: Number::new(DEPTH_CALLS),
            rate: Number::new(0.0),
            passed_at: AtomicU64::new(0),
        }
    }

    /// Starts shedding, with as many tokens as the lowest level needs for one call, so that only that level is shed at
    /// first.
    pub(super) fn start(&self, rate: f64, now: u64) {
        self.passed_at.store(now, Relaxed);
        self.set(rate, (rate * DEPTH_SECONDS).max(DEPTH_CALLS));
        self.tokens.store(self.need(self.levels - 1.0));
    }

    /// Starts probing, without tokens.
    pub(super) fn start_probing(&self, rate: f64, now: u64) {
        self.passed_at.store(now, Relaxed);
        self.set(rate, PROBE_DEPTH);
        self.tokens.store(0.0);
    }

    /// Sets the rate, and adds the tokens for `seconds` at that rate.
    pub(super) fn refill(&self, rate: f64, seconds: f64, probing: bool) {
        self.set(rate, if probing { PROBE_DEPTH } else { (rate * DEPTH_SECONDS).max(DEPTH_CALLS) });
        self.pour(rate * seconds, self.depth.load());
    }

    /// Adds tokens for `calls` more calls after a probe was accepted.
    pub(super) fn free(&self, calls: f64) {
        self.pour(calls, f64::INFINITY);
    }

    /// Takes one token if the bucket is full enough for this priority level. `now` is in microseconds.
    pub(super) fn take(&self, level: u16, now: u64) -> Result<(), Short> {
        let need = self.need(f64::from(level));
        match self.tokens.update(|tokens| (tokens >= need).then_some(tokens - 1.0)) {
            Ok(_) => {
                self.passed_at.store(now, Relaxed);
                Ok(())
            }
            Err(tokens) => self.take_floor(need - tokens, now),
        }
    }

    /// Admits a call without a token if no call was admitted for the maximum hold time. Otherwise returns an error with
    /// the time to wait before acquiring again.
    #[cold]
    fn take_floor(&self, missing: f64, now: u64) -> Result<(), Short> {
        let passed_at = self.passed_at.load(Relaxed);
        // If the clock stepped back, calls must not be held back until it has caught up.
        let held = now.abs_diff(passed_at);
        if held >= LONGEST_HOLD_MICROS
            && self.passed_at.compare_exchange(passed_at, now, Relaxed, Relaxed).is_ok()
        {
            return Ok(());
        }
        let left = match LONGEST_HOLD_MICROS.saturating_sub(held) {
            // Another thread has just been admitted by the floor.
            0 => LONGEST_HOLD_MICROS,
            left => left,
        };
        let rate = self.rate.load();
        // A rate of zero gives infinity, which the upper limit replaces.
        let wait = Duration::try_from_secs_f64(missing.max(0.0) / rate).unwrap_or(Duration::MAX);
        let retry_in = wait.max(Duration::from_micros(SHORTEST_HOLD_MICROS)).min(Duration::from_micros(left));
        Err(Short { rate, retry_in })
    }

    /// Returns the number of calls per second that the bucket admits.
    pub(super) fn rate(&self) -> f64 {
        self.rate.load()
    }

    fn set(&self, rate: f64, depth: f64) {
        self.rate.store(rate);
        self.depth.store(depth);
    }

    /// Adds tokens for this many calls, up to a total of `brim`. Tokens already above `brim` are kept.
    fn pour(&self, calls: f64, brim: f64) {
        // The closure always returns a value, so the update cannot fail.
        let _ = self.tokens.update(|tokens| Some((tokens + calls).min(brim.max(tokens))));
    }

    /// Returns the number of tokens that must be in the bucket for a call with this level. The highest level needs one
    /// token, and each lower level needs more, in equal steps.
    fn need(&self, level: f64) -> f64 {
        1.0 + (self.depth.load() - 1.0) * level / self.levels
    }
}

/// The bucket has too few tokens for a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Short {
    pub(crate) rate: f64,
    pub(crate) retry_in: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_micros(LONGEST_HOLD_MICROS);

    /// Takes tokens until the bucket has too few, and returns how many were taken.
    fn passed(bucket: &Bucket, level: u16) -> usize {
        (0..1_000).take_while(|_| bucket.take(level, 0).is_ok()).count()
    }

    #[test]
    fn a_lower_level_gets_what_the_higher_ones_leave_over() {
        let bucket = Bucket::new(4);
        bucket.start(10.0, 0);
        let passed: [usize; 4] = [3, 2, 1, 0].map(|level| passed(&bucket, level));
        assert_eq!(passed, [1, 2, 2, 2], "the lowest first; the bucket holds 7.75 at the start");
    }

    #[test]
    fn says_when_to_ask_again() {
        let bucket = Bucket::new(1);
        bucket.start(10.0, 0);
        assert_eq!(bucket.take(0, 0), Ok(()));
        assert_eq!(bucket.take(0, 0), Err(Short { rate: 10.0, retry_in: Duration::from_millis(100) }));
    }

    #[test]
    fn holds_all_calls_back_for_two_seconds_at_most() {
        for rate in [0.0, 1e-9, 0.1] {
            let bucket = Bucket::new(4);
            bucket.start_probing(rate, 0);
            let retry_in = |now: u64| bucket.take(3, now).map_err(|short| short.retry_in);
            assert_eq!(retry_in(0), Err(HOLD), "{rate}/s");
            assert_eq!(retry_in(500_000), Err(HOLD * 3 / 4), "the hint says when the floor lets one pass");
            assert_eq!(retry_in(2_000_000), Ok(()), "the lowest level, and no token");
            assert_eq!(retry_in(2_000_000), Err(HOLD), "one at a time");
        }
    }

    #[test]
    fn a_clock_that_steps_back_holds_nothing_for_longer() {
        let bucket = Bucket::new(1);
        bucket.start_probing(0.0, 100_000_000);
        assert_eq!(bucket.take(0, 5_000_000), Ok(()));
        assert_eq!(bucket.take(0, 5_000_000).map_err(|short| short.retry_in), Err(HOLD));
    }

    #[test]
    fn holds_no_more_than_its_depth_but_loses_nothing_freed() {
        let bucket = Bucket::new(1);
        bucket.start_probing(1.0, 0);
        bucket.refill(1.0, 1_000.0, true);
        assert_eq!(passed(&bucket, 0), 2);
        (0..10).for_each(|_| bucket.free(2.0));
        bucket.refill(1.0, 1_000.0, true);
        assert_eq!(passed(&bucket, 0), 20);
    }
}
