//! Tokens, handed out in strict order of priority: a lower level needs a fuller bucket, so it gets what the higher ones
//! leave over.

use core::time::Duration;

use super::super::shared::Number;

/// How many seconds of the rate a bucket holds...
const DEPTH_SECONDS: f64 = 0.5;
/// ...but at least so many calls, since traffic comes in bursts.
const DEPTH_CALLS: f64 = 10.0;
/// How many probes the bucket of an outage holds.
const PROBE_DEPTH: f64 = 2.0;
/// The longest hint of when to ask again, in seconds.
const LONGEST_WAIT: f64 = 60.0;

#[derive(Debug)]
pub(super) struct Bucket {
    levels: f64,
    tokens: Number,
    depth: Number,
    rate: Number,
}

impl Bucket {
    pub(super) fn new(levels: u16) -> Self {
        Self {
            levels: f64::from(levels),
            tokens: Number::new(0.0),
            depth: Number::new(DEPTH_CALLS),
            rate: Number::new(0.0),
        }
    }

    /// Starts with as much as the lowest level needs for one call: it is shed first, the others see no change.
    pub(super) fn start(&self, rate: f64) {
        self.set(rate, (rate * DEPTH_SECONDS).max(DEPTH_CALLS));
        self.tokens.store(self.need(self.levels - 1.0));
    }

    /// Starts empty.
    pub(super) fn start_probing(&self, rate: f64) {
        self.set(rate, PROBE_DEPTH);
        self.tokens.store(0.0);
    }

    /// Pours in what `seconds` at this rate bring.
    pub(super) fn refill(&self, rate: f64, seconds: f64, probing: bool) {
        self.set(rate, if probing { PROBE_DEPTH } else { (rate * DEPTH_SECONDS).max(DEPTH_CALLS) });
        self.pour(rate * seconds, self.depth.load());
    }

    /// Each accept of a probe frees more calls.
    pub(super) fn free(&self, calls: f64) {
        self.pour(calls, f64::INFINITY);
    }

    /// Takes one token, if this level may.
    pub(super) fn take(&self, level: u16) -> Result<(), Short> {
        let need = self.need(f64::from(level));
        match self.tokens.update(|tokens| (tokens >= need).then_some(tokens - 1.0)) {
            Ok(_) => Ok(()),
            Err(tokens) => {
                let rate = self.rate.load();
                // A rate of zero gives infinity, which the limit takes.
                let wait = ((need - tokens) / rate).clamp(0.0, LONGEST_WAIT);
                Err(Short { rate, retry_in: Duration::try_from_secs_f64(wait).unwrap_or_default() })
            }
        }
    }

    fn set(&self, rate: f64, depth: f64) {
        self.rate.store(rate);
        self.depth.store(depth);
    }

    /// Pours up to a brim; what is above it already stays.
    fn pour(&self, calls: f64, brim: f64) {
        // The closure always gives a value, so this can't be refused.
        let _ = self.tokens.update(|tokens| Some((tokens + calls).min(brim.max(tokens))));
    }

    /// How full the bucket must be for this level: one call for the highest, and the rest shared out evenly.
    fn need(&self, level: f64) -> f64 {
        1.0 + (self.depth.load() - 1.0) * level / self.levels
    }
}

/// Not enough tokens.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Short {
    pub(crate) rate: f64,
    pub(crate) retry_in: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(bucket: &Bucket, level: u16) -> usize {
        (0..1_000).take_while(|_| bucket.take(level).is_ok()).count()
    }

    #[test]
    fn a_lower_level_gets_what_the_higher_ones_leave_over() {
        let bucket = Bucket::new(4);
        bucket.start(10.0);
        let passed: [usize; 4] = [3, 2, 1, 0].map(|level| passed(&bucket, level));
        assert_eq!(passed, [1, 2, 2, 2], "the lowest first; the bucket holds 7.75 at the start");
    }

    #[test]
    fn says_when_to_ask_again() {
        let bucket = Bucket::new(1);
        bucket.start(10.0);
        assert_eq!(bucket.take(0), Ok(()));
        assert_eq!(bucket.take(0), Err(Short { rate: 10.0, retry_in: Duration::from_millis(100) }));
        bucket.refill(0.0, 1.0, false);
        assert_eq!(bucket.take(0).map_err(|short| short.retry_in), Err(Duration::from_secs(60)));
    }

    #[test]
    fn holds_no_more_than_its_depth_but_loses_nothing_freed() {
        let bucket = Bucket::new(1);
        bucket.start_probing(1.0);
        bucket.refill(1.0, 1_000.0, true);
        assert_eq!(passed(&bucket, 0), 2);
        (0..10).for_each(|_| bucket.free(2.0));
        bucket.refill(1.0, 1_000.0, true);
        assert_eq!(passed(&bucket, 0), 20);
    }
}
