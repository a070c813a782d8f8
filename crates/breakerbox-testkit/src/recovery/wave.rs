//! One wave: a hundred callers acquire at the same moment. Their shared state, and what is observed.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use breakerbox::{Clock, ManualClock, Refusal, Timestamp};
use tokio::sync::watch;

use super::pool::CALLERS;
use super::probe_end::{Late, Moment, Plan, ProbeEnd};
use super::receiver::{Receiver, Visit};

/// How many spins the first caller at the gate waits for a second. This is a few dozen microseconds: longer than a
/// wake-up, and short enough for a machine whose other cores are busy.
const MAX_SPINS: u32 = 20_000;

/// How many refusals for acquiring too early are tolerated after the clock has moved: from callers that decided by the
/// time before.
const MAX_EARLY_REFUSALS: u64 = 100_000;

/// How the callers acquire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timing {
    /// Each acquires as soon as it is woken. The clock has moved before.
    AsTheyWake,
    /// The first waits for a second, on another core, and they acquire together. The clock has moved before.
    Together,
    /// As together; but they come too early and acquire again and again, until after this many refusals one of them
    /// moves the clock.
    TooEarly {
        /// The number of refusals.
        refusals: u64,
    },
}

/// The shared state of the callers of one wave.
pub(super) struct Wave {
    pub(super) plan: Plan,
    pub(super) timing: Timing,
    /// Whether a probe is settled while others still acquire. Otherwise it waits until all have their answer.
    pub(super) hasty: bool,
    /// The policy's `cancel_grace`.
    pub(super) grace: Duration,
    pub(super) clock: ManualClock,
    /// The time to which the clock is moved. A refusal with this time or an earlier one came too early.
    moment: Timestamp,
    receiver: Arc<Receiver>,
    at_the_gate: AtomicU32,
    /// Opens when a caller has the probe.
    pub(super) given: Latch,
    /// Opens when all callers have an answer.
    pub(super) answered: Latch,
    pub(super) finished: Latch,
    too_early: AtomicU64,
    entered: AtomicU32,
    left: AtomicU32,
    admitted: AtomicBool,
    raced: AtomicBool,
    probes: AtomicU32,
    late_applied: AtomicU32,
    oddities: Mutex<Vec<String>>,
}

/// The parameters of a wave.
pub(super) struct Setting<'a> {
    pub(super) plan: Plan,
    pub(super) timing: Timing,
    pub(super) hasty: bool,
    pub(super) grace: Duration,
    pub(super) moment: Timestamp,
    pub(super) clock: &'a ManualClock,
    pub(super) receiver: &'a Arc<Receiver>,
}

impl Wave {
    /// Returns a wave that has not begun.
    pub(super) fn new(setting: &Setting<'_>) -> Self {
        let Setting { plan, timing, hasty, grace, moment, clock, receiver } = *setting;
        let wave = Self {
            plan,
            timing,
            hasty,
            grace,
            moment,
            clock: clock.clone(),
            receiver: Arc::clone(receiver),
            at_the_gate: AtomicU32::new(0),
            given: Latch::new(1),
            answered: Latch::new(CALLERS),
            finished: Latch::new(CALLERS),
            too_early: AtomicU64::new(0),
            entered: AtomicU32::new(0),
            left: AtomicU32::new(0),
            admitted: AtomicBool::new(false),
            raced: AtomicBool::new(false),
            probes: AtomicU32::new(0),
            late_applied: AtomicU32::new(0),
            oddities: Mutex::new(Vec::new()),
        };
        if !matches!(timing, Timing::TooEarly { .. }) {
            wave.move_the_clock();
        }
        wave
    }

    fn move_the_clock(&self) {
        if self.plan.at == Moment::LeaseEnds {
            self.receiver.leave();
        }
        self.clock.advance(self.moment.since(self.clock.now()));
    }

    /// Returns whether only a probe is admitted: not if the circuit is closed, or closes while others still acquire.
    pub(super) fn admits_only_probes(&self) -> bool {
        self.plan.probe.is_some_and(|probe_end| probe_end != ProbeEnd::Succeeds || !self.hasty)
    }

    /// Waits for another caller at the gate, if the timing requires it and another one comes in time. Spins, because
    /// callers that sleep wake one by one.
    pub(super) fn meet(&self) {
        self.at_the_gate.fetch_add(1, Ordering::SeqCst);
        if self.timing != Timing::AsTheyWake {
            (0..MAX_SPINS)
                .take_while(|_| self.at_the_gate.load(Ordering::SeqCst) < 2)
                .for_each(|_| hint::spin_loop());
        }
    }

    /// Acquires once, and notes whether another caller was acquiring while the first permit was given out.
    pub(super) fn try_acquire<A>(&self, ask: impl FnOnce() -> Result<A, Refusal>) -> Result<A, Refusal> {
        let left = self.left.load(Ordering::SeqCst);
        self.entered.fetch_add(1, Ordering::SeqCst);
        let answer = ask();
        let entered = self.entered.load(Ordering::SeqCst);
        self.left.fetch_add(1, Ordering::SeqCst);
        // A caller that had entered when this one left, and had not left when it entered, acquired at the same time.
        // It must run on another thread, since no task yields while it acquires.
        if answer.is_ok() && !self.admitted.swap(true, Ordering::SeqCst) {
            self.raced.store(entered - left > 1, Ordering::SeqCst);
        }
        answer
    }

    /// Returns whether a refusal only means that the clock has not moved yet. One of the callers that get it moves the
    /// clock.
    pub(super) fn is_too_early(&self, refusal: &Refusal) -> bool {
        let Timing::TooEarly { refusals } = self.timing else { return false };
        if refusal.retry_at().is_none_or(|retry_at| retry_at > self.moment) {
            return false;
        }
        let before = self.too_early.fetch_add(1, Ordering::SeqCst);
        if before + 1 == refusals {
            self.move_the_clock();
        }
        before < refusals + MAX_EARLY_REFUSALS
    }

    /// Begins a probe's call.
    pub(super) fn probe(&self) -> Visit {
        let visit = self.receiver.visit();
        if self.probes.fetch_add(1, Ordering::SeqCst) == 0 {
            self.given.arrive();
        }
        visit
    }

    /// Returns how many probes there were.
    pub(super) fn probes(&self) -> u32 {
        self.probes.load(Ordering::SeqCst)
    }

    /// Returns whether the first permit was given out while another caller was acquiring.
    pub(super) fn raced(&self) -> bool {
        self.raced.load(Ordering::SeqCst)
    }

    /// Notes that a late result changed something.
    pub(super) fn late_applied(&self, late: Late) {
        self.late_applied.fetch_add(1, Ordering::SeqCst);
        self.note(format!("changed by what came late: {late:?}"));
    }

    /// Returns how many late results changed something.
    pub(super) fn lates_applied(&self) -> u32 {
        self.late_applied.load(Ordering::SeqCst)
    }

    /// Notes a deviation.
    pub(super) fn note(&self, oddity: String) {
        self.oddities.lock().unwrap_or_else(PoisonError::into_inner).push(oddity);
    }

    /// Returns the deviations that were noted.
    pub(super) fn oddities(&self) -> Vec<String> {
        std::mem::take(&mut *self.oddities.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A latch that opens when its number of arrivals is reached.
pub(super) struct Latch {
    missing: AtomicU32,
    open: watch::Sender<bool>,
}

impl Latch {
    fn new(missing: u32) -> Self {
        Self { missing: AtomicU32::new(missing), open: watch::Sender::new(false) }
    }

    pub(super) fn arrive(&self) {
        if self.missing.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.open.send_replace(true);
        }
    }

    pub(super) async fn wait(&self) {
        self.open.subscribe().wait_for(|open| *open).await.expect("the sender is this latch's own");
    }
}
