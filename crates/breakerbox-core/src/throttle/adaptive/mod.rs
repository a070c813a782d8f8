//! The adaptive strategy: sheds by a rate learnt from accepted calls, in strict order of priority.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`Adaptive`] | counts calls, and evaluates the counts periodically |
//! | `estimate` | the evaluation: the destination's capacity, and the mode that follows from it |
//! | `noise` | the share of rejects that do not react to load, for which no call is shed |
//! | `bucket` | the distribution of the capacity among priorities |
//!
//! A call only adds to counters. About sixty times per second, the first call to arrive evaluates them (a *look*). It
//! never waits for another thread: a call that finds another thread evaluating continues at once.
//!
//! Rejects of calls that were sent in an earlier *era*, that is, before the latest change to calm or probing, do not
//! count: after an outage, its timeouts still arrive for a while.

mod bucket;
mod estimate;
#[cfg(all(test, breakerbox_loom))]
mod interleavings;
mod math;
mod noise;

use bucket::Bucket;
use estimate::{Estimate, Mode, Seen};

use super::priority::Levels;
use super::shared::Ordering::{Acquire, Relaxed, Release};
use super::shared::{AtomicBool, AtomicU32, AtomicU64, Number};
use super::{LoadSignal, Reason, Shed, ThrottleState};
use crate::time::Timestamp;

/// The number of low bits that are ignored when times in microseconds are compared to decide whether an evaluation is
/// due. With 14 bits, an evaluation is due every 16 ms.
const LOOK_BITS: u32 = 14;
/// The maximum time, in microseconds, by which a thread's clock reading may be older than the latest evaluation. If it
/// is older than that, the clock has stepped back.
const LATE_MICROS: u64 = 1_000_000;
/// The time without a call, in microseconds, after which everything that the throttle learnt has expired.
const HEALED_MICROS: u64 = 30_000_000;
/// The number of calls that an accepted probe allows, so that traffic doubles with each round trip during recovery.
const FREED_BY_ACCEPT: f64 = 2.0;
/// When an accept is faster than the usual latency, the usual latency falls by this fraction of the difference, at most
/// once per evaluation interval. A slower accept raises the usual latency at once.
const LATENCY_FALL: f64 = 0.1;

#[derive(Debug)]
pub(super) struct Adaptive {
    /// The mode, in the two lowest bits, and the era, which increases whenever the throttle turns calm or starts
    /// probing.
    state: AtomicU32,
    looked_at: AtomicU64,
    calls: Calls,
    rejected: AtomicU64,
    neither: AtomicU64,
    shed: AtomicU64,
    latency: Number,
    latency_at: AtomicU64,
    bucket: Bucket,
    memory: Memory,
}

/// The counters that every call increments. They are on a separate cache line, so that values that calls only read stay
/// in every processor's cache.
#[derive(Default, Debug)]
#[repr(align(64))]
struct Calls {
    asked: AtomicU64,
    accepted: AtomicU64,
}

/// The values that only the evaluating thread uses.
#[derive(Default, Debug)]
struct Memory {
    looking: AtomicBool,
    counted: [AtomicU64; 5],
    estimate: [Number; Estimate::NUMBERS],
}

impl Adaptive {
    pub(super) fn new(levels: Levels) -> Self {
        Self {
            state: AtomicU32::new(pack(0, Mode::Calm)),
            looked_at: AtomicU64::new(0),
            calls: Calls::default(),
            rejected: AtomicU64::new(0),
            neither: AtomicU64::new(0),
            shed: AtomicU64::new(0),
            latency: Number::new(0.0),
            latency_at: AtomicU64::new(0),
            bucket: Bucket::new(levels.count()),
            memory: Memory::default(),
        }
    }

    /// Decides whether to send a call. Returns the current era, which must be passed to `settle` with the call's
    /// result.
    #[inline]
    pub(super) fn try_acquire(&self, level: u16, now: Timestamp) -> Result<u32, Shed> {
        self.calls.asked.fetch_add(1, Relaxed);
        if is_later_look(now.as_micros(), self.looked_at.load(Relaxed)) {
            self.look(now.as_micros());
        }
        let state = self.state.load(Relaxed);
        if mode(state) == Mode::Calm {
            return Ok(era(state));
        }
        match self.bucket.take(level, now.as_micros()) {
            Ok(()) => Ok(era(state)),
            Err(short) => {
                self.shed.fetch_add(1, Relaxed);
                Err(Shed { reason: Reason::Rate(short.rate), retry_in: short.retry_in })
            }
        }
    }

    #[inline]
    pub(super) fn settle(&self, sent_in: u32, sent_at: Timestamp, verdict: LoadSignal, now: Timestamp) {
        let state = self.state.load(Relaxed);
        match verdict {
            LoadSignal::Accept => {
                self.calls.accepted.fetch_add(1, Relaxed);
                if is_later_look(now.as_micros(), self.latency_at.load(Relaxed)) {
                    self.notice_latency(sent_at, now);
                }
                if mode(state) == Mode::Probing {
                    self.bucket.free(FREED_BY_ACCEPT);
                }
            }
            LoadSignal::Reject if sent_in == era(state) => {
                self.rejected.fetch_add(1, Relaxed);
            }
            LoadSignal::Reject | LoadSignal::Neither => {
                self.neither.fetch_add(1, Relaxed);
            }
        }
    }

    /// Whether there was no call for so long that everything that the throttle learnt has expired.
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        now.as_micros().abs_diff(self.looked_at.load(Relaxed)) >= HEALED_MICROS
    }

    /// Whether every call is admitted, as of the latest evaluation.
    pub(super) fn is_calm(&self) -> bool {
        mode(self.state.load(Relaxed)) == Mode::Calm
    }

    pub(super) fn state(&self) -> ThrottleState {
        match mode(self.state.load(Relaxed)) {
            Mode::Calm => ThrottleState::Calm,
            Mode::Shedding => ThrottleState::Shedding,
            Mode::Probing => ThrottleState::Probing,
        }
    }

    /// Returns the number of calls per second that are admitted; `None` if every call is admitted.
    pub(super) fn rate(&self) -> Option<f64> {
        (!self.is_calm()).then(|| self.bucket.rate())
    }

    /// Returns the numbers of calls that were requested (sent or shed), accepted, and rejected.
    pub(super) fn totals(&self) -> [u64; 3] {
        [&self.calls.asked, &self.calls.accepted, &self.rejected].map(|counter| counter.load(Relaxed))
    }

    pub(super) fn accepted(&self) -> u64 {
        self.calls.accepted.load(Relaxed)
    }

    #[cold]
    fn notice_latency(&self, sent_at: Timestamp, now: Timestamp) {
        self.latency_at.store(now.as_micros(), Relaxed);
        let (usual, latency) = (self.latency.load(), now.since(sent_at).as_secs_f64());
        self.latency.store(latency.max(usual + (latency - usual) * LATENCY_FALL));
    }

    /// Evaluates the counts, unless another thread is doing so.
    #[cold]
    fn look(&self, now: u64) {
        let before = self.looked_at.load(Relaxed);
        if before > now && before - now < LATE_MICROS {
            return;
        }
        if self.memory.looking.compare_exchange(false, true, Acquire, Relaxed).is_err() {
            return;
        }
        // This may be later than above: another thread may have evaluated the counts meanwhile.
        let before = self.looked_at.swap(now, Relaxed);
        // The first evaluation only starts the counts: the time before it is not a pause in the calls.
        let seconds = if before == 0 { 0.0 } else { now.saturating_sub(before) as f64 / 1e6 };
        let seen = self.count(now, seconds);
        // Without elapsed time there are no rates: after the clock has stepped back, the counts only start anew.
        if seconds > 0.0 {
            self.judge(seen, now);
        }
        self.memory.looking.store(false, Release);
    }

    fn judge(&self, seen: Seen, now: u64) {
        let state = self.state.load(Relaxed);
        let mut estimate = Estimate::from_numbers(self.memory.estimate.each_ref().map(Number::load));
        let before = mode(state);
        let was_measuring = estimate.is_measuring_noise();
        let after = estimate.look(before, seen);
        let rate = estimate.rate(after);
        match (before, after) {
            (_, Mode::Calm) => {}
            (Mode::Shedding, Mode::Shedding) => self.bucket.refill(rate, seen.seconds, false),
            (Mode::Probing, Mode::Probing) => self.bucket.refill(rate, seen.seconds, true),
            (_, Mode::Shedding) => self.bucket.start(rate, now),
            (_, Mode::Probing) => self.bucket.start_probing(rate, now),
        }
        let starts_measuring = estimate.is_measuring_noise() && !was_measuring;
        if before != after || starts_measuring {
            let is_new_era = after != Mode::Shedding || starts_measuring;
            self.state.store(pack(era(state).wrapping_add(u32::from(is_new_era)), after), Relaxed);
        }
        for (cell, number) in self.memory.estimate.iter().zip(estimate.to_numbers()) {
            cell.store(number);
        }
    }

    /// Returns the counts since the latest evaluation.
    fn count(&self, now: u64, seconds: f64) -> Seen {
        let counters = [&self.calls.asked, &self.shed, &self.calls.accepted, &self.rejected, &self.neither];
        let totals = counters.map(|counter| counter.load(Relaxed));
        let mut new = [0.0; 5];
        for ((new, total), counted) in new.iter_mut().zip(totals).zip(&self.memory.counted) {
            *new = total.wrapping_sub(counted.swap(total, Relaxed)) as f64;
        }
        let [asked, shed, accepted, rejected, neither] = new;
        let latency = self.latency.load();
        let now = now as f64 / 1e6;
        Seen { now, seconds, asked, sent: asked - shed, accepted, rejected, neither, latency }
    }
}

/// Whether the two times differ in more than their low bits, so that an evaluation is due.
const fn is_later_look(now: u64, last: u64) -> bool {
    (now ^ last) >> LOOK_BITS != 0
}

const fn pack(era: u32, mode: Mode) -> u32 {
    era << 2 | mode as u32
}

const fn era(state: u32) -> u32 {
    state >> 2
}

const fn mode(state: u32) -> Mode {
    match state & 3 {
        0 => Mode::Calm,
        1 => Mode::Shedding,
        _ => Mode::Probing,
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    /// Makes `count` calls, one per millisecond, each settled at once. Returns how many were shed.
    fn calls(adaptive: &Adaptive, from_ms: u64, count: u64, verdict: impl Fn(u64) -> LoadSignal) -> u64 {
        let mut shed = 0;
        for n in 0..count {
            let now = Timestamp::from_millis(from_ms + n);
            match adaptive.try_acquire(3, now) {
                Ok(era) => adaptive.settle(era, now, verdict(n), now),
                Err(_) => shed += 1,
            }
        }
        shed
    }

    fn mode_of(adaptive: &Adaptive) -> Mode {
        mode(adaptive.state.load(Relaxed))
    }

    #[test]
    fn rejects_of_another_era_are_history() {
        let adaptive = Adaptive::new(Levels::STANDARD);
        let at = Timestamp::from_millis;
        calls(&adaptive, 1_000, 5_000, |_| LoadSignal::Accept);
        let sent_before: Vec<_> = (0..100).map(|n| adaptive.try_acquire(3, at(6_000 + n)).unwrap()).collect();
        assert!(calls(&adaptive, 6_100, 1_000, |_| LoadSignal::Reject) > 300);
        assert_eq!(mode_of(&adaptive), Mode::Probing);
        calls(&adaptive, 7_200, 1_000, |_| LoadSignal::Accept);
        assert_eq!(mode_of(&adaptive), Mode::Calm);
        for era in sent_before {
            adaptive.settle(era, at(6_000), LoadSignal::Reject, at(8_200));
        }
        assert_eq!(calls(&adaptive, 8_201, 1_000, |_| LoadSignal::Accept), 0);
    }

    #[test]
    fn each_accept_of_a_probe_frees_two_calls() {
        let adaptive = Adaptive::new(Levels::STANDARD);
        calls(&adaptive, 1_000, 5_000, |_| LoadSignal::Accept);
        calls(&adaptive, 6_000, 1_000, |_| LoadSignal::Reject);
        assert_eq!(mode_of(&adaptive), Mode::Probing);
        let now = Timestamp::from_millis(6_999);
        while adaptive.try_acquire(0, now).is_ok() {}
        adaptive.settle(0, now, LoadSignal::Accept, now);
        let passed = (0..10).filter(|_| adaptive.try_acquire(0, now).is_ok()).count();
        assert_eq!(passed, 2);
    }

    /// Makes `count` calls, one every `gap_ms` milliseconds, each settled at once. Returns how many were shed.
    fn spaced(gap_ms: u64, count: u64, verdict: impl Fn(u64) -> LoadSignal) -> u64 {
        let adaptive = Adaptive::new(Levels::STANDARD);
        let mut shed = 0;
        for n in 0..count {
            let now = Timestamp::from_millis(1_000_000 + n * gap_ms);
            match adaptive.try_acquire(2, now) {
                Ok(era) => adaptive.settle(era, now, verdict(n), now),
                Err(_) => shed += 1,
            }
        }
        shed
    }

    #[test]
    fn nothing_is_shed_before_ten_outcomes_with_an_accept() {
        for gap_ms in [5, 50, 200, 500, 2_000, 5_000] {
            for rejected in [1, 2, 5] {
                let first =
                    spaced(
                        gap_ms,
                        60,
                        |n| if n < rejected { LoadSignal::Reject } else { LoadSignal::Accept },
                    );
                assert_eq!(first, 0, "{rejected} rejected at first, a call each {gap_ms} ms");
            }
            let later = spaced(gap_ms, 60, |n| if n == 20 { LoadSignal::Reject } else { LoadSignal::Accept });
            assert_eq!(later, 0, "one rejected later, a call each {gap_ms} ms");
        }
        assert_eq!(spaced(50, 9, |n| if n < 5 { LoadSignal::Accept } else { LoadSignal::Reject }), 0);
        assert!(spaced(50, 30, |n| if n % 2 == 0 { LoadSignal::Accept } else { LoadSignal::Reject }) > 0);
    }

    #[test]
    fn what_sending_less_would_not_change_never_sheds() {
        for gap_ms in [5, 50, 500, 5_000] {
            assert_eq!(spaced(gap_ms, 500, |_| LoadSignal::Neither), 0, "a call each {gap_ms} ms");
        }
    }

    /// The caller acquires again after each retry hint, as the gateway's dispatcher does.
    #[test]
    fn a_caller_that_obeys_its_hints_gets_a_call_through_every_two_seconds() {
        let adaptive = Adaptive::new(Levels::STANDARD);
        let (mut now, mut latest) = (Timestamp::from_millis(1_000), Timestamp::from_millis(1_000));
        let mut longest = core::time::Duration::ZERO;
        while now < Timestamp::from_millis(120_000) {
            match adaptive.try_acquire(3, now) {
                Ok(era) => {
                    adaptive.settle(era, now, LoadSignal::Reject, now);
                    (longest, latest) = (longest.max(now.since(latest)), now);
                    now = now + core::time::Duration::from_millis(1);
                }
                Err(shed) => now = now + shed.retry_in.max(core::time::Duration::from_micros(1)),
            }
        }
        assert!(longest <= core::time::Duration::from_secs(2), "{longest:?}");
    }

    #[test]
    fn a_state_holds_mode_and_era() {
        for mode_in in [Mode::Calm, Mode::Shedding, Mode::Probing] {
            for era_in in [0, 1, u32::MAX >> 2] {
                let state = pack(era_in, mode_in);
                assert_eq!((era(state), mode(state)), (era_in, mode_in));
            }
        }
    }

    #[test]
    fn a_thread_that_was_held_up_changes_nothing_and_a_clock_that_stepped_back_begins_anew() {
        let adaptive = Adaptive::new(Levels::STANDARD);
        calls(&adaptive, 100_000, 100, |_| LoadSignal::Accept);
        let looked_at = adaptive.looked_at.load(Relaxed);
        assert!(adaptive.try_acquire(0, Timestamp::from_millis(99_500)).is_ok());
        assert_eq!(adaptive.looked_at.load(Relaxed), looked_at);
        assert!(adaptive.try_acquire(0, Timestamp::from_millis(5)).is_ok());
        assert_eq!(adaptive.looked_at.load(Relaxed), 5_000);
    }
}
