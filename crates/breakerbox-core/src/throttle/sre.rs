//! The SRE strategy: the published client-side throttling formula, without additions.
//!
//! A call with level p is shed with probability `max(0, (requests - K * accepts) / (requests + min_rate * window))`,
//! where accepts are those of its level, and requests are those of its level plus the requests of higher levels that
//! were not accepted. Calls that were shed count as requests. Slots have absolute indexes and expire when they are
//! read.
//!
//! It reads and writes counters and never blocks. A call that is counted while its slot is being emptied may be lost,
//! and a call whose thread was delayed may be counted in the next slot. Only the newest slot changes, so the older
//! ones are added up once, when the newest begins.

use alloc::boxed::Box;
use core::time::Duration;

use super::ThrottlePolicy;
use super::shared::AtomicU64;
use super::shared::Ordering::Relaxed;
use crate::time::{Timestamp, micros};

/// The number of time slots in the window.
const SLOTS: u64 = 10;

#[derive(Debug)]
pub(super) struct Sre {
    k: f64,
    /// The value `min_rate * window`, which keeps the formula's denominator positive even without requests.
    min_requests: f64,
    /// The length of a slot in microseconds.
    width: u64,
    /// The absolute index of the newest slot.
    newest: AtomicU64,
    slots: Box<[Slot]>,
    /// The counts for each level, summed over all slots in the window except the newest.
    before: Box<[Counts]>,
    /// The number of all accepts so far, for the retry budget.
    accepted: AtomicU64,
    /// The number of all calls so far, sent or shed.
    asked: AtomicU64,
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
        let counts =
            || -> Box<[Counts]> { (0..policy.levels().count()).map(|_| Counts::default()).collect() };
        let slot = |_| Slot { index: AtomicU64::new(0), levels: counts() };
        Self {
            k: policy.k(),
            min_requests: policy.min_rate() * policy.window().as_secs_f64(),
            width: (micros(policy.window()) / SLOTS).max(1),
            newest: AtomicU64::new(0),
            slots: (0..SLOTS).map(slot).collect(),
            before: counts(),
            accepted: AtomicU64::new(0),
            asked: AtomicU64::new(0),
        }
    }

    /// Returns the probability with which to shed this call, 0 to 1. Then counts the call as a request.
    pub(super) fn try_acquire(&self, level: u16, now: Timestamp) -> f64 {
        self.asked.fetch_add(1, Relaxed);
        let newest = self.slide_to(now);
        let mut requests = 0;
        let mut accepts = 0;
        for (level_here, counts) in (0..=level).zip(self.before.iter().zip(&newest.levels)) {
            let (before, now) = counts;
            let (asked, accepted) = (before.requests() + now.requests(), before.accepts() + now.accepts());
            requests += asked;
            if level_here == level {
                accepts = accepted;
            } else {
                requests -= accepted;
            }
        }
        newest.count(level, |counts| &counts.requests);
        let requests = requests.max(0) as f64;
        let excess = requests - self.k * accepts as f64;
        if excess > 0.0 { excess / (requests + self.min_requests) } else { 0.0 }
    }

    pub(super) fn accept(&self, level: u16, now: Timestamp) {
        self.accepted.fetch_add(1, Relaxed);
        self.slide_to(now).count(level, |counts| &counts.accepts);
    }

    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Relaxed)
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Relaxed)
    }

    /// Whether the window is empty.
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        (now.as_micros() / self.width).abs_diff(self.newest.load(Relaxed)) >= SLOTS
    }

    /// Returns the length of a slot. The window moves by one slot at a time.
    pub(super) const fn slot(&self) -> Duration {
        Duration::from_micros(self.width)
    }

    /// Returns the newest slot, after beginning a new one if the current slot has ended.
    #[inline]
    fn slide_to(&self, now: Timestamp) -> &Slot {
        let newest = self.newest.load(Relaxed);
        // A multiplication, because a division would cost as much as the rest of the function.
        if now.as_micros().wrapping_sub(newest.wrapping_mul(self.width)) >= self.width {
            self.begin(now.as_micros() / self.width, newest);
        }
        self.slot_of(self.newest.load(Relaxed))
    }

    /// Begins a slot and adds up the previous slots. If several threads call this at once, only one has an effect.
    #[cold]
    fn begin(&self, index: u64, newest: u64) {
        // One slot back means that the thread was delayed; more, that the clock stepped back.
        let held_up = index.saturating_add(1) == newest;
        if held_up || self.newest.compare_exchange(newest, index, Relaxed, Relaxed).is_err() {
            return;
        }
        self.slot_of(index).turn_to(index);
        let in_window = |slot: &&Slot| slot.is_within(index) && slot.index.load(Relaxed) != index;
        for (level, before) in self.before.iter().enumerate() {
            let (mut requests, mut accepts) = (0, 0);
            for counts in self.slots.iter().filter(in_window).filter_map(|slot| slot.levels.get(level)) {
                requests += counts.requests.load(Relaxed);
                accepts += counts.accepts.load(Relaxed);
            }
            before.requests.store(requests, Relaxed);
            before.accepts.store(accepts, Relaxed);
        }
    }

    fn slot_of(&self, index: u64) -> &Slot {
        &self.slots[usize::try_from(index % SLOTS).unwrap_or_default()]
    }
}

impl Slot {
    fn count(&self, level: u16, which: impl Fn(&Counts) -> &AtomicU64) {
        if let Some(counts) = self.levels.get(usize::from(level)) {
            which(counts).fetch_add(1, Relaxed);
        }
    }

    /// Whether this slot is in the window that ends with the slot `newest`.
    fn is_within(&self, newest: u64) -> bool {
        newest.checked_sub(self.index.load(Relaxed)).is_some_and(|age| age < SLOTS)
    }

    /// Sets the slot's index, and empties the slot if it had another index.
    fn turn_to(&self, index: u64) {
        if self.index.swap(index, Relaxed) != index {
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
    use std::vec::Vec;

    use super::*;

    fn sre() -> Sre {
        Sre::new(&ThrottlePolicy::default())
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    /// Makes `requests` calls at this level, of which the first `accepts` are accepted.
    fn traffic(sre: &Sre, level: u16, requests: u64, accepts: u64, now: Timestamp) {
        for n in 0..requests {
            sre.try_acquire(level, now);
            if n < accepts {
                sre.accept(level, now);
            }
        }
    }

    #[test]
    fn follows_the_formula() {
        // Requests and accepts of level 0 and of level 1, then the probability for each level.
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
            assert_eq!(sre.try_acquire(0, at(8)), p_high, "{high:?} {low:?}");
            let unmet = |requests: f64| (requests - 2.0 * low.1 as f64) / (requests + 60.0);
            let expected = unmet((high.0 + 1 - high.1 + low.0) as f64).max(0.0);
            assert_eq!(sre.try_acquire(1, at(8)), expected, "about {p_low}");
        }
    }

    #[test]
    fn expires_on_read() {
        let sre = sre();
        traffic(&sre, 0, 100, 0, at(61));
        for (read_at, sheds) in [(65, true), (119, true), (120, false), (100_000, false), (5, false)] {
            assert_eq!(sre.try_acquire(0, at(read_at)) > 0.3, sheds, "at {read_at} s");
        }
    }

    #[test]
    fn equals_a_recount_of_everything_that_ever_happened() {
        let sre = sre();
        let mut seen: Vec<(u64, u16, bool)> = Vec::new();
        let mut random = 12_345_u64;
        let mut micros = 0;
        for _ in 0..1_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (gap, level, accepts) = (random >> 40, (random >> 20) % 4, (random >> 10) % 3);
            micros += if gap % 50 == 0 { 45_000_000 } else { gap % 400_000 };
            let (now, level) = (Timestamp::from_micros(micros), u16::try_from(level).unwrap());
            let slot = micros / 6_000_000;
            let count = |of: u16, accepted: bool| {
                let counts = |&&(at, level, kind): &&(u64, u16, bool)| {
                    slot - at < SLOTS && level == of && kind == accepted
                };
                seen.iter().filter(counts).count() as f64
            };
            let unmet: f64 = (0..level).map(|higher| count(higher, false) - count(higher, true)).sum();
            let requests = (count(level, false) + unmet).max(0.0);
            let expected = ((requests - 2.0 * count(level, true)) / (requests + 60.0)).max(0.0);
            assert_eq!(sre.try_acquire(level, now), expected, "at {micros}");
            seen.push((slot, level, false));
            for _ in 0..accepts {
                sre.accept(level, now);
                seen.push((slot, level, true));
            }
        }
    }
}
