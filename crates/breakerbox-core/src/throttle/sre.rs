//! The published formula, for those who want exactly that.
//!
//! A call of level p is shed with probability `max(0, (requests - K * accepts) / (requests + min_rate * window))`,
//! where accepts are those of its level, and requests are those of its level plus what higher levels asked for and did
//! not get. Sheds count as requests. Slots go by absolute index and expire when they are read.
//!
//! It reads and writes counters and never waits. A call that is counted while its slot is being emptied may be lost.

use alloc::boxed::Box;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use super::ThrottlePolicy;
use crate::time::{Timestamp, micros};

/// Into how many slots the window is cut.
const SLOTS: u64 = 10;

#[derive(Debug)]
pub(super) struct Sre {
    k: f64,
    /// `min_rate * window`: what the denominator has even when nothing was asked for.
    min_requests: f64,
    /// The length of a slot in microseconds.
    width: u64,
    slots: Box<[Slot]>,
    /// All accepts there ever were, for the retry budget.
    accepted: AtomicU64,
}

#[derive(Debug)]
struct Slot {
    index: AtomicU64,
    levels: Box<[Counts]>,
}

#[derive(Default, Debug)]
struct Counts {
    requests: AtomicU64,
    accepts: AtomicU64,
}

impl Sre {
    pub(super) fn new(policy: &ThrottlePolicy) -> Self {
        let counts = || (0..policy.levels().count()).map(|_| Counts::default()).collect();
        let slot = |_| Slot { index: AtomicU64::new(0), levels: counts() };
        Self {
            k: policy.k(),
            min_requests: policy.min_rate() * policy.window().as_secs_f64(),
            width: (micros(policy.window()) / SLOTS).max(1),
            slots: (0..SLOTS).map(slot).collect(),
            accepted: AtomicU64::new(0),
        }
    }

    /// The probability with which to shed this call. The call counts as a request.
    pub(super) fn ask(&self, level: u16, now: Timestamp) -> f64 {
        let index = now.as_micros() / self.width;
        let mut requests = 0;
        let mut accepts = 0;
        for slot in self.slots.iter().filter(|slot| slot.is_within(index)) {
            let (higher, own) = slot.levels.split_at(usize::from(level));
            for counts in higher {
                // Only the difference of the whole window means anything, so it may be negative in one slot.
                requests += counts.requests() - counts.accepts();
            }
            if let Some(own) = own.first() {
                requests += own.requests();
                accepts += own.accepts();
            }
        }
        self.count(index, level, |counts| &counts.requests);
        let requests = requests.max(0) as f64;
        ((requests - self.k * accepts as f64) / (requests + self.min_requests)).max(0.0)
    }

    pub(super) fn accept(&self, level: u16, now: Timestamp) {
        self.accepted.fetch_add(1, Relaxed);
        self.count(now.as_micros() / self.width, level, |counts| &counts.accepts);
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Relaxed)
    }

    /// Whether the window is empty.
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        let index = now.as_micros() / self.width;
        !self.slots.iter().any(|slot| slot.is_within(index))
    }

    /// When the window will have moved.
    pub(super) const fn slot(&self) -> Duration {
        Duration::from_micros(self.width)
    }

    fn count(&self, index: u64, level: u16, which: impl Fn(&Counts) -> &AtomicU64) {
        let Some(slot) = usize::try_from(index % SLOTS).ok().and_then(|at| self.slots.get(at)) else {
            return;
        };
        slot.turn_to(index);
        if let Some(counts) = slot.levels.get(usize::from(level)) {
            which(counts).fetch_add(1, Relaxed);
        }
    }
}

impl Slot {
    /// Whether this slot is the one of `newest` or one of those just before it.
    fn is_within(&self, newest: u64) -> bool {
        newest.checked_sub(self.index.load(Relaxed)).is_some_and(|age| age < SLOTS)
    }

    /// Empties the slot if it holds another index. Of threads that come at once, one does it.
    fn turn_to(&self, index: u64) {
        let held = self.index.load(Relaxed);
        if held != index && self.index.compare_exchange(held, index, Relaxed, Relaxed).is_ok() {
            for counts in &self.levels {
                counts.requests.store(0, Relaxed);
                counts.accepts.store(0, Relaxed);
            }
        }
    }
}

impl Counts {
    fn requests(&self) -> i64 {
        self.requests.load(Relaxed).cast_signed()
    }

    fn accepts(&self) -> i64 {
        self.accepts.load(Relaxed).cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sre() -> Sre {
        Sre::new(&ThrottlePolicy::default())
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    /// Makes `requests` calls of a level, of which the first `accepts` are accepted.
    fn traffic(sre: &Sre, level: u16, requests: u64, accepts: u64, now: Timestamp) {
        for n in 0..requests {
            sre.ask(level, now);
            if n < accepts {
                sre.accept(level, now);
            }
        }
    }

    #[test]
    fn follows_the_formula() {
        // Requests and accepts of level 0 and of level 1, then the probability for each.
        let table = [
            ((0, 0), (0, 0), 0.0, 0.0),
            ((100, 50), (0, 0), 0.0, 50.0 / 110.0),
            ((100, 49), (0, 0), 2.0 / 160.0, 51.0 / 111.0),
            ((100, 0), (100, 0), 100.0 / 160.0, 200.0 / 260.0),
            ((100, 100), (100, 100), 0.0, 0.0),
            ((1_000, 400), (100, 100), 200.0 / 1_060.0, (700.0 - 200.0) / 760.0),
        ];
        for (high, low, p_high, p_low) in table {
            let sre = sre();
            traffic(&sre, 0, high.0, high.1, at(7));
            traffic(&sre, 1, low.0, low.1, at(7));
            assert_eq!(sre.ask(0, at(8)), p_high, "{high:?} {low:?}");
            let unmet = |requests: f64| (requests - 2.0 * low.1 as f64) / (requests + 60.0);
            let expected = unmet((high.0 + 1 - high.1 + low.0) as f64).max(0.0);
            assert_eq!(sre.ask(1, at(8)), expected, "about {p_low}");
        }
    }

    #[test]
    fn expires_on_read() {
        let sre = sre();
        traffic(&sre, 0, 100, 0, at(61));
        for (read_at, sheds) in [(65, true), (119, true), (120, false), (100_000, false), (5, false)] {
            assert_eq!(sre.ask(0, at(read_at)) > 0.3, sheds, "at {read_at} s");
        }
    }
}
