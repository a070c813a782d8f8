//! One wave: a hundred askers ask at the same moment. What they share, and what is seen of it.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use breakerbox::{Clock, ManualClock, Refusal, Timestamp};
use tokio::sync::watch;

use super::fate::{Fate, Late, Moment, Plan};
use super::pool::ASKERS;
use super::receiver::{Receiver, Visit};

/// For how many turns the first at the gate waits for a second. A few dozen microseconds: longer than a wake-up, and short
/// enough for a machine whose other cores are busy.
const TURNS: u32 = 20_000;

/// How many refusals for coming too early are borne after the clock has moved: whoever decided on the time before.
const PATIENCE: u64 = 100_000;

/// How the askers come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Manner {
    /// Each asks as soon as it is woken. The clock has moved before.
    AsTheyWake,
    /// The first waits for a second, on another core, and they ask together. The clock has moved before.
    Together,
    /// As together; but they come too early and ask again and again, until after this many refusals one of them moves the
    /// clock.
    TooEarly {
        /// How many refusals.
        refusals: u64,
    },
}

/// What the askers of one wave share.
pub(super) struct Wave {
    pub(super) plan: Plan,
    pub(super) manner: Manner,
    /// Whether a probe is settled while others still ask. Else it waits until all have their answer.
    pub(super) hasty: bool,
    /// The policy's `cancel_grace`.
    pub(super) grace: Duration,
    pub(super) clock: ManualClock,
    /// Where the clock is moved. Whoever is told to come back by then came too early.
    moment: Timestamp,
    receiver: Arc<Receiver>,
    at_the_gate: AtomicU32,
    /// Somebody may probe.
    pub(super) given: Latch,
    /// Everybody has an answer.
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

/// What is decided of a wave beforehand.
pub(super) struct Setting<'a> {
    pub(super) plan: Plan,
    pub(super) manner: Manner,
    pub(super) hasty: bool,
    pub(super) grace: Duration,
    pub(super) moment: Timestamp,
    pub(super) clock: &'a ManualClock,
    pub(super) receiver: &'a Arc<Receiver>,
}

impl Wave {
    /// A wave that is about to come.
    pub(super) fn new(setting: &Setting<'_>) -> Self {
        let Setting { plan, manner, hasty, grace, moment, clock, receiver } = *setting;
        let wave = Self {
            plan,
            manner,
            hasty,
            grace,
            moment,
            clock: clock.clone(),
            receiver: Arc::clone(receiver),
            at_the_gate: AtomicU32::new(0),
            given: Latch::new(1),
            answered: Latch::new(ASKERS),
            finished: Latch::new(ASKERS),
            too_early: AtomicU64::new(0),
            entered: AtomicU32::new(0),
            left: AtomicU32::new(0),
            admitted: AtomicBool::new(false),
            raced: AtomicBool::new(false),
            probes: AtomicU32::new(0),
            late_applied: AtomicU32::new(0),
            oddities: Mutex::new(Vec::new()),
        };
        if !matches!(manner, Manner::TooEarly { .. }) {
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

    /// Whether nobody but a probe is admitted: not if the circuit is closed, or closes while others still ask.
    pub(super) fn admits_only_probes(&self) -> bool {
        self.plan.probe.is_some_and(|fate| fate != Fate::Succeeds || !self.hasty)
    }

    /// Meets another asker at the gate, if the manner is so and another comes in time. Spins, because whoever sleeps comes
    /// one by one.
    pub(super) fn meet(&self) {
        self.at_the_gate.fetch_add(1, Ordering::SeqCst);
        if self.manner != Manner::AsTheyWake {
            (0..TURNS)
                .take_while(|_| self.at_the_gate.load(Ordering::SeqCst) < 2)
                .for_each(|_| hint::spin_loop());
        }
    }

    /// Makes one ask, and sees whether somebody else was asking while the first permit was given out.
    pub(super) fn try_acquire<A>(&self, ask: impl FnOnce() -> Result<A, Refusal>) -> Result<A, Refusal> {
        let left = self.left.load(Ordering::SeqCst);
        self.entered.fetch_add(1, Ordering::SeqCst);
        let answer = ask();
        let entered = self.entered.load(Ordering::SeqCst);
        self.left.fetch_add(1, Ordering::SeqCst);
        // Whoever had entered when this one left, and had not left when it entered, asked at the same time. That takes
        // another thread, since nobody steps aside while asking.
        if answer.is_ok() && !self.admitted.swap(true, Ordering::SeqCst) {
            self.raced.store(entered - left > 1, Ordering::SeqCst);
        }
        answer
    }

    /// Whether a refusal only says that the moment has not come. One of those that hear so makes it come.
    pub(super) fn is_too_early(&self, refusal: &Refusal) -> bool {
        let Manner::TooEarly { refusals } = self.manner else { return false };
        if refusal.retry_at().is_none_or(|retry_at| retry_at > self.moment) {
            return false;
        }
        let before = self.too_early.fetch_add(1, Ordering::SeqCst);
        if before + 1 == refusals {
            self.move_the_clock();
        }
        before < refusals + PATIENCE
    }

    /// A probe comes in.
    pub(super) fn probe(&self) -> Visit {
        let visit = self.receiver.visit();
        if self.probes.fetch_add(1, Ordering::SeqCst) == 0 {
            self.given.arrive();
        }
        visit
    }

    /// How many probes there were.
    pub(super) fn probes(&self) -> u32 {
        self.probes.load(Ordering::SeqCst)
    }

    /// Whether the first permit was given out while somebody else was asking.
    pub(super) fn raced(&self) -> bool {
        self.raced.load(Ordering::SeqCst)
    }

    /// A late result changed something.
    pub(super) fn late_applied(&self, late: Late) {
        self.late_applied.fetch_add(1, Ordering::SeqCst);
        self.note(format!("changed by what came late: {late:?}"));
    }

    /// How many late results changed something.
    pub(super) fn lates_applied(&self) -> u32 {
        self.late_applied.load(Ordering::SeqCst)
    }

    /// Notes what should not have been.
    pub(super) fn note(&self, oddity: String) {
        self.oddities.lock().unwrap_or_else(PoisonError::into_inner).push(oddity);
    }

    /// Takes what was noted.
    pub(super) fn oddities(&self) -> Vec<String> {
        std::mem::take(&mut *self.oddities.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Opens when as many have arrived as it was made for.
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
