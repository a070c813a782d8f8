//! One wave: a hundred callers acquire at the same moment. Their shared state, and the observations.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use breakerbox::{Clock, ManualClock, Refusal, Timestamp};
use tokio::sync::watch;

use super::pool::CALLERS;
use super::probe_end::{Late, Moment, Plan, ProbeEnd};
use super::receiver::{Receiver, Visit};

/// The maximum number of spins for which the first caller waits for a second caller. These spins take a few
/// dozen microseconds, which is longer than a wake-up takes, but short enough not to matter if all other
/// cores are busy.
const MAX_SPINS: u32 = 20_000;

/// The maximum number of refusals after the clock was moved that still count as too early. Callers that read
/// the clock before it was moved get such refusals.
const MAX_EARLY_REFUSALS: u64 = 100_000;

/// When the callers acquire relative to each other and to the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timing {
    /// The clock is moved first. Then each caller acquires as soon as it wakes.
    AsTheyWake,
    /// The clock is moved first. Then the first caller waits for a second caller on another core, and the two
    /// acquire together.
    Together,
    /// Like `Together`, but the callers start before the clock is moved and acquire repeatedly. After this many
    /// refusals, one of them moves the clock.
    TooEarly {
        /// The number of refusals before the clock is moved.
        refusals: u64,
    },
}

/// The shared state of all callers in one wave.
pub(super) struct Wave {
    pub(super) plan: Plan,
    pub(super) timing: Timing,
    /// Whether the probe may be settled while other callers still acquire. Otherwise the probe waits until
    /// every caller was admitted or refused.
    pub(super) hasty: bool,
    /// The policy's `cancel_grace`.
    pub(super) grace: Duration,
    pub(super) clock: ManualClock,
    /// The time to which the clock is moved. A refusal with this retry time or an earlier one was made before
    /// the clock was moved.
    moment: Timestamp,
    receiver: Arc<Receiver>,
    at_the_gate: AtomicU32,
    /// Opens when a caller has received the probe permit.
    pub(super) given: Latch,
    /// Opens when all callers have a response.
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

/// The parameters for creating a [`Wave`].
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
    /// Returns a wave that has not started.
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

    /// Returns whether every admitted call must be a probe. Regular calls can be admitted too if the circuit
    /// is closed, or if it closes while other callers still acquire.
    pub(super) fn admits_only_probes(&self) -> bool {
        self.plan.probe.is_some_and(|probe_end| probe_end != ProbeEnd::Succeeds || !self.hasty)
    }

    /// Waits until a second caller has arrived, or for [`MAX_SPINS`] if none does. Does nothing if the timing
    /// is `AsTheyWake`. Spins, because callers that sleep wake one by one.
    pub(super) fn meet(&self) {
        self.at_the_gate.fetch_add(1, Ordering::SeqCst);
        if self.timing != Timing::AsTheyWake {
            (0..MAX_SPINS)
                .take_while(|_| self.at_the_gate.load(Ordering::SeqCst) < 2)
                .for_each(|_| hint::spin_loop());
        }
    }

    /// Acquires once. If this grants the wave's first permit, records whether another caller was acquiring at
    /// the same time.
    pub(super) fn try_acquire<A>(&self, ask: impl FnOnce() -> Result<A, Refusal>) -> Result<A, Refusal> {
        let left = self.left.load(Ordering::SeqCst);
        self.entered.fetch_add(1, Ordering::SeqCst);
        let answer = ask();
        let entered = self.entered.load(Ordering::SeqCst);
        self.left.fetch_add(1, Ordering::SeqCst);
        // A caller that had entered when this one left, and had not left when this one entered, acquired at the
        // same time. It must be on another thread, since no task yields while it acquires.
        if answer.is_ok() && !self.admitted.swap(true, Ordering::SeqCst) {
            self.raced.store(entered - left > 1, Ordering::SeqCst);
        }
        answer
    }

    /// Returns whether a refusal only means that the clock has not been moved yet, so that the caller should
    /// acquire again. The call that reaches the planned number of such refusals moves the clock.
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

    /// Starts a probe's call.
    pub(super) fn probe(&self) -> Visit {
        let visit = self.receiver.visit();
        if self.probes.fetch_add(1, Ordering::SeqCst) == 0 {
            self.given.arrive();
        }
        visit
    }

    /// Returns the number of probes in this wave.
    pub(super) fn probes(&self) -> u32 {
        self.probes.load(Ordering::SeqCst)
    }

    /// Returns whether the first permit was granted while another caller was acquiring.
    pub(super) fn raced(&self) -> bool {
        self.raced.load(Ordering::SeqCst)
    }

    /// Records that a late result changed something.
    pub(super) fn late_applied(&self, late: Late) {
        self.late_applied.fetch_add(1, Ordering::SeqCst);
        self.note(format!("changed by what came late: {late:?}"));
    }

    /// Returns the number of late results that changed something.
    pub(super) fn lates_applied(&self) -> u32 {
        self.late_applied.load(Ordering::SeqCst)
    }

    /// Records a deviation.
    pub(super) fn note(&self, oddity: String) {
        self.oddities.lock().unwrap_or_else(PoisonError::into_inner).push(oddity);
    }

    /// Returns the recorded deviations.
    pub(super) fn oddities(&self) -> Vec<String> {
        std::mem::take(&mut *self.oddities.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A latch that opens after a given number of arrivals.
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
