//! A complete circuit in one process: its record, its window and its ramp.
//!
//! [`Record`] decides the transitions; this module combines them with a window's counts and the process's ramp. Every
//! step takes the policy as an argument, so that it can change at any time: state and counts are kept, no deadline
//! moves, and the new settings apply to the next outcome.

use alloc::boxed::Box;
use core::time::Duration;

use crate::change::{Cause, Change, OverrideCommand, Step};
use crate::outcome::{Outcome, OutcomeKind};
use crate::permit::{Decision, Permit, PermitKind, Refusal};
use crate::policy::Policy;
use crate::ramp::{Ramp, RampAnswer};
use crate::record::{Attribution, CircuitStatus, LatestOutcomes, Record, State};
use crate::rule::TripRule;
use crate::time::Timestamp;
use crate::token::{Epoch, RandomBits};
use crate::transitions::{Answer, MissingLatencySum, Sample};
use crate::window::{Totals, Window};

/// A circuit breaker as a plain value. Time and random bits are arguments; a circuit shares no data and never blocks.
///
/// ```
/// use breakerbox_core::{Circuit, Decision, RandomBits, Outcome, Policy, Refusal, CircuitStatus, Timestamp};
/// use core::time::Duration;
///
/// let policy = Policy::builder().consecutive_failures(2).cool_off(Duration::from_secs(30)).build()?;
/// let mut random = (1..).map(RandomBits); // A real caller passes random bits.
/// let mut circuit = Circuit::new(&policy, Timestamp::ZERO);
///
/// for second in 1..=2 {
///     let now = Timestamp::from_millis(second * 1_000);
///     let Decision::Admitted(permit) = circuit.try_acquire(&policy, random.next().unwrap(), now).decision else {
///         panic!("a closed circuit admits");
///     };
///     let timeout = Outcome::failure(Duration::from_millis(500));
///     circuit.settle(permit, &timeout, &policy, random.next().unwrap(), now);
/// }
/// assert_eq!(circuit.status(), CircuitStatus::Open);
///
/// let acquired = circuit.try_acquire(&policy, random.next().unwrap(), Timestamp::from_millis(3_000));
/// let Decision::Refused(Refusal::Open { retry_in, .. }) = acquired.decision else { panic!("open") };
/// assert!(retry_in > Duration::from_secs(25), "the cool-off, give or take its jitter");
/// # Ok::<(), breakerbox_core::PolicyError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Circuit {
    memory: Memory,
    window: Window,
    ramp: Option<Box<Ramp>>,
}

/// A circuit's state apart from its window and ramp. Most circuits never trip, so they have no record, which saves
/// memory.
#[derive(Clone, PartialEq, Debug)]
enum Memory {
    /// The circuit has never made a transition.
    Pristine { born_at: Timestamp, latest: LatestOutcomes },
    /// The circuit has a record.
    Lived(Box<Record>),
}

/// The result of [`Circuit::try_acquire`].
#[derive(PartialEq, Debug)]
#[must_use = "a permit must be settled"]
pub struct AcquireResult {
    /// The permit, or the refusal.
    pub decision: Decision,
    /// The change to publish to observers; `None` if there was no transition.
    pub change: Option<Change>,
}

/// The result of settling a permit in a [`Circuit`].
#[derive(Clone, PartialEq, Debug)]
pub struct Settled {
    /// Whether the outcome counted and, if not, why.
    pub settlement: Settlement,
    /// The change to publish to observers; `None` if there was no transition.
    pub change: Option<Change>,
}

/// Whether an outcome counted, and if not, why.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Settlement {
    /// The outcome counted.
    Counted,
    /// The outcome does not count, because it was ignored or cancelled, an override is in place, or dry-run admitted
    /// the call.
    Uncounted,
    /// The outcome is late, because its epoch or lease is over. It has no effect.
    Late,
    /// The store did not respond to the report of the outcome, which may or may not have counted.
    Unconfirmed,
}

impl Settled {
    pub(crate) const COUNTED: Self = Self { settlement: Settlement::Counted, change: None };
    pub(crate) const UNCOUNTED: Self = Self { settlement: Settlement::Uncounted, change: None };
    pub(crate) const LATE: Self = Self { settlement: Settlement::Late, change: None };
}

/// The maximum error in a process's estimate of the store's time.
const SKEW: Duration = Duration::from_secs(1);

impl Circuit {
    /// Creates a closed circuit without history.
    #[must_use]
    pub fn new(policy: &Policy, now: Timestamp) -> Self {
        let memory = Memory::Pristine { born_at: now, latest: LatestOutcomes::default() };
        Self { memory, window: Window::new(policy), ramp: None }
    }

    /// Returns this circuit with `known` as the time of its latest success, if `known` is later than the time in the
    /// record.
    pub(crate) fn with_success_at(mut self, known: Option<Timestamp>) -> Self {
        let latest = self.record().with_success_at(known).latest_outcomes();
        self.set_latest_outcomes(latest);
        self
    }

    /// Creates a circuit from another process's record. If the circuit closed less than a window ago, this process
    /// ramps up too.
    #[must_use]
    pub fn from_record(record: Record, policy: &Policy, now: Timestamp) -> Self {
        let ramp = if record.closed_recently(policy, now) { Ramp::begin(policy, now) } else { None };
        let memory = Memory::Lived(Box::new(record));
        Self { memory, window: Window::new(policy), ramp: ramp.map(Box::new) }
    }

    /// Starts a ramp if the fleet may still be ramping up. Used when a process joins the fleet;
    /// [`from_record`](Self::from_record) is not enough, because a ramp can last longer than a window.
    pub(crate) fn joining_ramp(mut self, policy: &Policy, now: Timestamp) -> Self {
        if let Memory::Lived(record) = &self.memory
            && self.ramp.is_none()
            && record.may_ramp(policy, now)
        {
            self.ramp = Ramp::begin(policy, now).map(Box::new);
        }
        self
    }

    pub(crate) fn end_ramp(&mut self) {
        self.ramp = None;
    }

    /// Records that the fleet's ramp refused a call.
    pub(crate) fn note_ramp_refusal(&mut self, now: Timestamp) {
        if let Some(ramp) = &mut self.ramp {
            ramp.note_refusal(now);
        }
    }

    /// Returns the circuit's record. For a circuit that never made a transition, this is a new record with version
    /// zero.
    #[must_use]
    pub fn record(&self) -> Record {
        match &self.memory {
            Memory::Lived(record) => Record::clone(record),
            Memory::Pristine { born_at, latest } => {
                Record::new(None, RandomBits(0), *born_at).with_latest_outcomes(*latest)
            }
        }
    }

    /// Whether this circuit can be dropped without loss once its window is empty and it has no run of failures.
    #[must_use]
    pub fn is_forgettable(&self, policy: &Policy, now: Timestamp) -> bool {
        match &self.memory {
            Memory::Pristine { .. } => true,
            Memory::Lived(record) => record.is_forgettable(policy, now),
        }
    }

    /// Whether the store may have expired the record, because the record can be dropped without loss and its retention
    /// time is over. If the store has no record, this distinguishes an expiry from an outdated response.
    pub(crate) fn may_have_expired(&self, policy: &Policy, now: Timestamp) -> bool {
        match &self.memory {
            Memory::Pristine { .. } => true,
            Memory::Lived(record) => {
                // The record's writer only estimated the store's time, and may have been ahead of it.
                let skew = |keep_for: Duration| SKEW.min(keep_for / 2);
                let was_kept = |keep_for| now.since(record.changed_at) + skew(keep_for) >= keep_for;
                let keep_for = record.keep_for(policy);
                keep_for.is_some_and(was_kept)
                    && record.is_forgettable(policy, now + keep_for.map_or(Duration::ZERO, skew))
            }
        }
    }

    /// Whether the circuit has never made a transition.
    pub(crate) const fn is_pristine(&self) -> bool {
        matches!(self.memory, Memory::Pristine { .. })
    }

    /// Returns the current epoch, to which new permits belong.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        match &self.memory {
            Memory::Pristine { born_at, .. } => Record::first_epoch(*born_at),
            Memory::Lived(record) => record.epoch,
        }
    }

    /// Returns the state to report: disabled if the mode is disabled, otherwise the record's state.
    #[must_use]
    pub fn status(&self) -> CircuitStatus {
        match &self.memory {
            Memory::Pristine { .. } => CircuitStatus::Closed,
            Memory::Lived(record) => record.status(),
        }
    }

    /// Returns the earliest time at which a caller may probe; `None` unless the circuit is open.
    #[must_use]
    pub fn retry_at(&self) -> Option<Timestamp> {
        match &self.memory {
            Memory::Pristine { .. } => None,
            Memory::Lived(record) => record.retry_at,
        }
    }

    /// Returns the window's counts, and the run of failures.
    #[must_use]
    pub fn totals(&self, now: Timestamp) -> Totals {
        self.window.totals(now)
    }

    /// Returns the ramp; `None` if the circuit is not ramping up.
    #[must_use]
    pub fn ramp(&self) -> Option<&Ramp> {
        self.ramp.as_deref()
    }

    /// Whether a caller may count fast successes itself and [add](Self::add_successes) them later, in one step. This is
    /// allowed while the circuit admits every call, and no success below the policy's [harmless
    /// latency](Policy::harmless_latency) could change its state. The result is valid until the circuit's next step or
    /// the end of the [current bucket](Self::bucket_ends_at).
    #[must_use]
    pub fn allows_fast_path(&self, policy: &Policy, now: Timestamp) -> bool {
        self.admits_all() && !TripRule::successes_could_break(policy, &self.window.totals(now))
    }

    /// Whether the circuit is closed, not overridden, and has no ramp, so that it admits every call.
    pub(crate) fn admits_all(&self) -> bool {
        self.counts_calls() && self.ramp.is_none()
    }

    /// Whether the circuit is closed and has no override, so that outcomes of ordinary calls count.
    #[must_use]
    pub fn counts_calls(&self) -> bool {
        match &self.memory {
            Memory::Pristine { .. } => true,
            Memory::Lived(record) => record.is_automatic() && record.state == State::Closed,
        }
    }

    /// Returns the end of the window's current bucket.
    #[must_use]
    pub fn bucket_ends_at(&self, now: Timestamp) -> Timestamp {
        self.window.bucket_ends_at(now)
    }

    /// Adds successes that the caller counted itself in this epoch, while the circuit [allowed the fast
    /// path](Self::allows_fast_path).
    pub fn add_successes(&mut self, successes: u32, latency_sum: Duration, policy: &Policy, now: Timestamp) {
        if successes > 0 {
            self.note_outcome(false, now);
            self.window.fit(policy, now);
            self.window.record_successes(successes, latency_sum, now);
        }
    }

    /// Acquires a permit. The decision contains the permit, or the reason for the refusal.
    pub fn try_acquire(&mut self, policy: &Policy, draw: RandomBits, now: Timestamp) -> AcquireResult {
        let Memory::Lived(record) = &mut self.memory else {
            return AcquireResult { decision: self.admit(policy, now), change: None };
        };
        if let Some(rebased) = record.rebased(draw, now) {
            **record = rebased;
        }
        match record.try_acquire(policy, draw, now) {
            Answer::Admit => AcquireResult { decision: self.admit(policy, now), change: None },
            Answer::Refuse(refusal) => AcquireResult { decision: Decision::Refused(refusal), change: None },
            Answer::Probe(step) => {
                let change = self.apply(*step, policy, now);
                let deadline = now + policy.probe_timeout();
                let kind = PermitKind::Probe { nonce: draw.nonce(), deadline };
                let permit = Permit::new(self.epoch(), kind, now);
                AcquireResult { decision: Decision::Admitted(permit), change }
            }
        }
    }

    /// Settles a permit with its call's outcome.
    pub fn settle(
        &mut self,
        permit: Permit,
        outcome: &Outcome,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) -> Settled {
        let Permit { epoch, kind, .. } = permit;
        match kind {
            PermitKind::Uncounted => Settled::UNCOUNTED,
            _ if epoch != self.epoch() => Settled::LATE,
            _ if !self.is_automatic() => Settled::UNCOUNTED,
            PermitKind::Probe { nonce, .. } => {
                let settled = self.record().settle_probe(epoch, nonce, outcome, policy, draw, now);
                let Some(step) = settled else {
                    return Settled::LATE;
                };
                let settlement = match outcome.kind {
                    OutcomeKind::Ignored => Settlement::Uncounted,
                    OutcomeKind::Success | OutcomeKind::Failure => Settlement::Counted,
                };
                Settled { settlement, change: self.apply(step, policy, now) }
            }
            PermitKind::Ramped { generation } => {
                self.settle_on_ramp(generation, outcome, policy, now);
                self.count(outcome, policy, draw, now)
            }
            PermitKind::Call | PermitKind::OnRamp { .. } => self.count(outcome, policy, draw, now),
        }
    }

    /// Settles a permit that its holder dropped without reporting an outcome.
    pub fn settle_dropped(
        &mut self,
        permit: Permit,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) -> Settled {
        let outcome = permit.outcome_of_drop(policy, now);
        self.settle(permit, &outcome, policy, draw, now)
    }

    /// Applies an operator's override. Returns `None` if the override changes nothing.
    pub fn apply_override(
        &mut self,
        command: OverrideCommand,
        by: &Attribution,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) -> Option<Change> {
        let step = self.record().apply_override(command, by, draw, now)?;
        self.apply(step, policy, now)
    }

    /// Evaluates one tick's sample.
    ///
    /// # Errors
    /// If the policy needs latencies and the sample contains none.
    pub fn sample(
        &mut self,
        sample: &Sample,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) -> Result<Option<Change>, MissingLatencySum> {
        let record = self.record();
        let Some(step) = record.sample(sample, policy, draw, now)? else {
            self.set_latest_outcomes(record.latest_outcomes_with(sample, now));
            return Ok(None);
        };
        Ok(self.apply(step, policy, now))
    }

    /// Admits an ordinary call, unless the ramp has no free slot.
    pub(crate) fn admit(&mut self, policy: &Policy, now: Timestamp) -> Decision {
        let kind = match self.ramp.as_mut().map(|ramp| ramp.try_acquire(policy, now)) {
            Some(RampAnswer::Refuse { in_flight, limit }) => {
                return Decision::Refused(Refusal::Ramping { in_flight, limit });
            }
            Some(RampAnswer::Start { generation }) => PermitKind::Ramped { generation },
            Some(RampAnswer::Over) => {
                self.ramp = None;
                PermitKind::Call
            }
            None => PermitKind::Call,
        };
        Decision::Admitted(Permit::new(self.epoch(), kind, now))
    }

    /// Settles a call in the ramp, which releases the call's slot. If this completes the ramp, calls are no longer
    /// limited.
    pub(crate) fn settle_on_ramp(
        &mut self,
        generation: u32,
        outcome: &Outcome,
        policy: &Policy,
        now: Timestamp,
    ) {
        let goes_on = |ramp: &mut Ramp| ramp.settle(generation, outcome.kind, policy, now);
        if self.ramp.as_mut().is_some_and(|ramp| !goes_on(ramp)) {
            self.ramp = None;
        }
    }

    /// Adds an outcome to the window, without evaluating the trip rules.
    pub(crate) fn put_in_window(&mut self, outcome: &Outcome, policy: &Policy, now: Timestamp) {
        self.note_outcome(outcome.kind == OutcomeKind::Failure, now);
        self.window.fit(policy, now);
        self.window.record(outcome, policy.slow_call(), now);
    }

    /// Adjusts the window after the clock was set from `before` to `after`, so that counted outcomes keep their age.
    pub(crate) fn clock_moved(&mut self, before: Timestamp, after: Timestamp) {
        self.window.clock_moved(before, after);
    }

    /// Adjusts the times in the record after the clock was set from `before` to `after`.
    pub(crate) fn record_moved(&mut self, before: Timestamp, after: Timestamp) {
        match &mut self.memory {
            Memory::Pristine { latest, .. } => *latest = latest.moved(before, after),
            Memory::Lived(record) => **record = record.moved(before, after),
        }
    }

    /// Counts an ordinary call's outcome, and trips the circuit if a rule is met.
    fn count(&mut self, outcome: &Outcome, policy: &Policy, draw: RandomBits, now: Timestamp) -> Settled {
        if outcome.kind == OutcomeKind::Ignored {
            return Settled::UNCOUNTED;
        }
        self.put_in_window(outcome, policy, now);
        let totals = self.window.totals(now);
        let mut change = None;
        if TripRule::first_broken(policy, &totals).is_some() {
            let step = self.record().evaluate(&totals, outcome.into(), policy, draw, now);
            change = step.and_then(|step| self.apply(step, policy, now));
        }
        Settled { settlement: Settlement::Counted, change }
    }

    /// Replaces this circuit's record with the step's. If the step begins an epoch, the window is emptied. The latest
    /// success that this process knows of is kept if it is later than the record's.
    pub(crate) fn apply(&mut self, step: Step, policy: &Policy, now: Timestamp) -> Option<Change> {
        let record = step.record.with_success_at(self.latest_outcomes().until(now).last_success);
        self.memory = Memory::Lived(Box::new(record));
        if let Some(change) = &step.change {
            self.window.clear();
            let ramps = change.cause == Cause::ProbesSucceeded;
            self.ramp = if ramps { Ramp::begin(policy, now).map(Box::new) } else { None };
        }
        step.change
    }

    pub(crate) fn is_automatic(&self) -> bool {
        match &self.memory {
            Memory::Pristine { .. } => true,
            Memory::Lived(record) => record.is_automatic(),
        }
    }

    /// Returns the times of the latest success and of the first failure after it.
    pub(crate) fn latest_outcomes(&self) -> LatestOutcomes {
        match &self.memory {
            Memory::Pristine { latest, .. } => *latest,
            Memory::Lived(record) => record.latest_outcomes(),
        }
    }

    /// Sets the times of the latest outcomes. The record's version stays the same, because these times are not written
    /// to the store.
    fn set_latest_outcomes(&mut self, new: LatestOutcomes) {
        match &mut self.memory {
            Memory::Pristine { latest, .. } => *latest = new,
            Memory::Lived(record) => {
                record.last_success = new.last_success;
                record.failing_since = new.failing_since;
            }
        }
    }

    /// Records the time of a counted outcome.
    fn note_outcome(&mut self, failed: bool, now: Timestamp) {
        let mut latest = self.latest_outcomes();
        if failed {
            latest.failed(now);
        } else {
            latest.succeeded(now);
        }
        self.set_latest_outcomes(latest);
    }
}
