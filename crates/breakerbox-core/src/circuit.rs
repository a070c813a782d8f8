//! One circuit, whole: its record, its window and its ramp, in one process.
//!
//! The record's transitions are decided by [`Record`]; here they are put together with the
//! counts of a window and a process's own ramp. A circuit takes its policy with each step, so that a policy can change
//! at any time: state and counts stay, no deadline moves, and the new numbers apply from the next outcome on.

use alloc::sync::Arc;

use crate::change::{Cause, Change, Command, Step};
use crate::outcome::{Outcome, OutcomeKind};
use crate::permit::{Decision, Permit, PermitKind, Refusal};
use crate::policy::Policy;
use crate::ramp::{Ramp, RampAnswer};
use crate::record::{Attribution, Record, Status};
use crate::time::Timestamp;
use crate::token::Draw;
use crate::transitions::{Answer, MissingLatencySum, Sample};
use crate::window::{Totals, Window};

/// A circuit breaker, as a value. Time and random samples are arguments; nothing is shared and nothing waits.
///
/// ```
/// use breakerbox_core::{Circuit, Decision, Draw, Outcome, Policy, Refusal, Status, Timestamp};
/// use core::time::Duration;
///
/// let policy = Policy::builder().consecutive_failures(2).cool_off(Duration::from_secs(30)).build()?;
/// let mut draws = (1..).map(Draw); // A real caller draws random bits.
/// let mut circuit = Circuit::new(None, &policy, draws.next().unwrap(), Timestamp::ZERO);
///
/// for second in 1..=2 {
///     let now = Timestamp::from_millis(second * 1_000);
///     let Decision::Admitted(permit) = circuit.ask(&policy, draws.next().unwrap(), now).decision else {
///         panic!("a closed circuit admits");
///     };
///     let timeout = Outcome::failure(Duration::from_millis(500));
///     circuit.settle(permit, &timeout, &policy, draws.next().unwrap(), now);
/// }
/// assert_eq!(circuit.status(), Status::Open);
///
/// let asked = circuit.ask(&policy, draws.next().unwrap(), Timestamp::from_millis(3_000));
/// let Decision::Refused(Refusal::Open { retry_in, .. }) = asked.decision else { panic!("open") };
/// assert!(retry_in > Duration::from_secs(25), "the cool-off, give or take its jitter");
/// # Ok::<(), breakerbox_core::PolicyError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Circuit {
    record: Record,
    window: Window,
    ramp: Option<Ramp>,
}

/// What came of an ask.
#[derive(PartialEq, Debug)]
#[must_use = "a permit must be settled"]
pub struct Asked {
    /// The answer.
    pub decision: Decision,
    /// What observers hear.
    pub change: Option<Change>,
}

/// What came of settling a permit.
#[derive(Clone, PartialEq, Debug)]
pub struct Settled {
    /// How the outcome was taken.
    pub verdict: Verdict,
    /// What observers hear.
    pub change: Option<Change>,
}

/// How an outcome was taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// It counted.
    Counted,
    /// It said nothing about the destination, or nobody wanted to know: it was ignored or cancelled, the circuit is
    /// overridden, or dry-run let the call through.
    Uncounted,
    /// It belongs to an epoch or a lease that is over: nothing changed.
    Late,
}

impl Settled {
    const UNCOUNTED: Self = Self { verdict: Verdict::Uncounted, change: None };
    const LATE: Self = Self { verdict: Verdict::Late, change: None };
}

impl Circuit {
    /// A circuit that nothing has happened to: closed.
    #[must_use]
    pub fn new(tenant: Option<Arc<str>>, policy: &Policy, draw: Draw, now: Timestamp) -> Self {
        Self::from_record(Record::new(tenant, draw, now), policy, now)
    }

    /// A circuit that is known from elsewhere. If it closed less than a window ago, this process ramps up too.
    #[must_use]
    pub fn from_record(record: Record, policy: &Policy, now: Timestamp) -> Self {
        let ramp = if record.closed_recently(policy, now) { Ramp::begin(policy, now) } else { None };
        Self { record, window: Window::new(policy.window()), ramp }
    }

    /// The record as it is.
    #[must_use]
    pub const fn record(&self) -> &Record {
        &self.record
    }

    /// The state as it is reported.
    #[must_use]
    pub fn status(&self) -> Status {
        self.record.status()
    }

    /// What the window holds.
    #[must_use]
    pub fn totals(&self, now: Timestamp) -> Totals {
        self.window.totals(now)
    }

    /// The ramp, while there is one.
    #[must_use]
    pub const fn ramp(&self) -> Option<&Ramp> {
        self.ramp.as_ref()
    }

    /// Asks for a permit.
    pub fn ask(&mut self, policy: &Policy, draw: Draw, now: Timestamp) -> Asked {
        if let Some(rebased) = self.record.rebased(draw, now) {
            self.record = rebased;
        }
        match self.record.ask(policy, draw, now) {
            Answer::Admit => Asked { decision: self.admit(policy, now), change: None },
            Answer::Refuse(refusal) => Asked { decision: Decision::Refused(refusal), change: None },
            Answer::Probe(step) => {
                let change = self.apply(*step, policy, now);
                let deadline = now + policy.probe_timeout();
                let kind = PermitKind::Probe { nonce: draw.nonce(), deadline };
                let permit = Permit::new(self.record.epoch, kind, now);
                Asked { decision: Decision::Admitted(permit), change }
            }
        }
    }

    /// Settles a permit with what the call turned out to be.
    pub fn settle(
        &mut self,
        permit: Permit,
        outcome: &Outcome,
        policy: &Policy,
        draw: Draw,
        now: Timestamp,
    ) -> Settled {
        let Permit { epoch, kind, .. } = permit;
        match kind {
            PermitKind::Uncounted => Settled::UNCOUNTED,
            _ if epoch != self.record.epoch => Settled::LATE,
            _ if !self.record.is_automatic() => Settled::UNCOUNTED,
            PermitKind::Probe { nonce, .. } => {
                let Some(step) = self.record.settle_probe(epoch, nonce, outcome, policy, draw, now) else {
                    return Settled::LATE;
                };
                let verdict = match outcome.kind {
                    OutcomeKind::Ignored => Verdict::Uncounted,
                    OutcomeKind::Success | OutcomeKind::Failure => Verdict::Counted,
                };
                Settled { verdict, change: self.apply(step, policy, now) }
            }
            PermitKind::Ramped { generation } => {
                let goes_on = |ramp: &mut Ramp| ramp.settle(generation, outcome.kind, policy, now);
                if self.ramp.as_mut().is_some_and(|ramp| !goes_on(ramp)) {
                    self.ramp = None;
                }
                self.count(outcome, policy, draw, now)
            }
            PermitKind::Call => self.count(outcome, policy, draw, now),
        }
    }

    /// Settles a permit whose holder went away without saying how the call went.
    pub fn settle_dropped(&mut self, permit: Permit, policy: &Policy, draw: Draw, now: Timestamp) -> Settled {
        let outcome = permit.outcome_of_drop(policy, now);
        self.settle(permit, &outcome, policy, draw, now)
    }

    /// Does what an operator says. None if there was nothing to do.
    pub fn obey(
        &mut self,
        command: Command,
        by: &Attribution,
        policy: &Policy,
        draw: Draw,
        now: Timestamp,
    ) -> Option<Change> {
        let step = self.record.obey(command, by, draw, now)?;
        self.apply(step, policy, now)
    }

    /// Evaluates one tick of a sampler.
    ///
    /// # Errors
    /// If the policy needs latencies and the sample has none.
    pub fn sample(
        &mut self,
        sample: &Sample,
        policy: &Policy,
        draw: Draw,
        now: Timestamp,
    ) -> Result<Option<Change>, MissingLatencySum> {
        let Some(step) = self.record.sample(sample, policy, draw, now)? else {
            self.record.last_success = self.record.last_success_with(sample, now);
            return Ok(None);
        };
        Ok(self.apply(step, policy, now))
    }

    /// Admits an ordinary call, unless the ramp has no place for it.
    fn admit(&mut self, policy: &Policy, now: Timestamp) -> Decision {
        let kind = match self.ramp.as_mut().map(|ramp| ramp.ask(policy, now)) {
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
        Decision::Admitted(Permit::new(self.record.epoch, kind, now))
    }

    /// Counts the outcome of an ordinary call, and trips if a rule now holds.
    fn count(&mut self, outcome: &Outcome, policy: &Policy, draw: Draw, now: Timestamp) -> Settled {
        if outcome.kind == OutcomeKind::Ignored {
            return Settled::UNCOUNTED;
        }
        self.record.note_outcome(outcome.kind == OutcomeKind::Failure, now);
        self.window.fit(policy.window(), now);
        self.window.record(outcome, policy.slow_call(), now);
        let totals = self.window.totals(now);
        let step = self.record.judge(&totals, outcome.retry_after, policy, draw, now);
        let change = step.and_then(|step| self.apply(step, policy, now));
        Settled { verdict: Verdict::Counted, change }
    }

    /// Makes a step's record this circuit's own. A new epoch begins with an empty window.
    fn apply(&mut self, step: Step, policy: &Policy, now: Timestamp) -> Option<Change> {
        self.record = step.record;
        if let Some(change) = &step.change {
            self.window.clear();
            self.ramp = if change.cause == Cause::ProbesSucceeded { Ramp::begin(policy, now) } else { None };
        }
        step.change
    }
}
