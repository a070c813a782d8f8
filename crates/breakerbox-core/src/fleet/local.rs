//! The process-local circuit: a small circuit over this process's own outcomes, in addition to the shared one.
//!
//! If the policy's trip rules are met over this process's outcomes but not over the fleet's, only this process
//! refuses calls, with its own cool-off and probes. Without it, a process with a broken network would let every call
//! fail, because the others' successes keep the shared circuit closed.
//!
//! A permit is acquired from the shared circuit first. If that admits an ordinary call, the local circuit may refuse
//! it or use it as its probe. A local probe is an ordinary call for the fleet and is counted like any other. The
//! local circuit is created at the first local trip; until then the rules are evaluated over the shared circuit's
//! window in this process, which contains the process's own outcomes.
//!
//! The local circuit is never stored, causes no notification, does not count towards disabling, and ends with the
//! shared circuit's epoch. It has no ramp: the destination serves the other processes all the time, so it needs no
//! paced return. It does not exist with an exclusive store, nor while the store is unavailable, because then the
//! shared circuit itself depends on this process's outcomes alone.

use alloc::boxed::Box;
use core::time::Duration;

use super::link::Link;
use super::member::{Member, refused};
use super::results::StepContext;
use crate::change::Step;
use crate::circuit::{AcquireResult, Circuit};
use crate::fault::Fault;
use crate::outcome::{OpenedBy, Outcome, OutcomeKind};
use crate::permit::{Decision, LocalProbe, Permit, PermitKind, Refusal};
use crate::policy::Policy;
use crate::record::CircuitStatus;
use crate::rule::TripRule;
use crate::time::Timestamp;
use crate::token::RandomBits;
use crate::transitions::Answer;
use crate::window::Totals;

/// The circuit that exists only in this process. Every policy passed to it must come from [`Policy::for_one_process`].
#[derive(Clone, PartialEq, Debug)]
pub(super) struct LocalCircuit(Circuit);

impl LocalCircuit {
    fn new(policy: &Policy, now: Timestamp) -> Self {
        Self(Circuit::new(policy, now))
    }

    pub(super) fn is_open(&self) -> bool {
        self.0.status() != CircuitStatus::Closed
    }

    /// Whether the local circuit is closed and its trips are forgiven, so that it can be dropped without loss.
    pub(super) fn is_forgettable(&self, policy: &Policy, now: Timestamp) -> bool {
        self.0.is_forgettable(policy, now)
    }

    /// Opens the local circuit if these totals meet a rule. Returns whether it did.
    fn trip(
        &mut self,
        totals: &Totals,
        opened_by: OpenedBy,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) -> bool {
        let step = self.0.record().evaluate(totals, opened_by, policy, draw, now);
        step.and_then(|step| self.0.apply(step, policy, now)).is_some()
    }

    /// Returns the refusal if the local circuit would refuse a call now; otherwise `None`. A due probe is left for
    /// `take_probe`.
    fn refusal(&mut self, policy: &Policy, draw: RandomBits, now: Timestamp) -> Option<Refusal> {
        let mut record = self.0.record();
        if let Some(rebased) = record.rebased(draw, now) {
            self.0.apply(Step { record: rebased.clone(), change: None }, policy, now);
            record = rebased;
        }
        match record.try_acquire(policy, draw, now) {
            Answer::Refuse(refusal) => Some(Refusal::open_here(refusal.retry_at().unwrap_or(now), now)),
            Answer::Admit | Answer::Probe(_) => None,
        }
    }

    /// Returns the local circuit's probe if the next call must be a probe; otherwise `None`.
    fn take_probe(&mut self, policy: &Policy, draw: RandomBits, now: Timestamp) -> Option<LocalProbe> {
        match self.0.try_acquire(policy, draw, now).decision {
            Decision::Admitted(Permit { epoch, kind: PermitKind::Probe { nonce, .. }, .. }) => {
                Some(LocalProbe { epoch, nonce })
            }
            _ => None,
        }
    }

    fn settle(
        &mut self,
        probe: Option<LocalProbe>,
        outcome: &Outcome,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) {
        if let Some(LocalProbe { epoch, nonce }) = probe {
            let permit = Permit::new(epoch, PermitKind::Probe { nonce, deadline: now }, now);
            // Local changes are not published to observers.
            let _ = self.0.settle(permit, outcome, policy, draw, now);
        } else if outcome.kind != OutcomeKind::Ignored && !self.is_open() {
            // A call that started before the circuit closed says nothing about the time after that.
            if now.back_by(outcome.latency) >= self.0.record().changed_at {
                self.0.put_in_window(outcome, policy, now);
            }
        }
    }
}

impl Link {
    pub(super) fn is_open_locally(&self) -> bool {
        self.local.as_ref().is_some_and(|local| local.is_open())
    }
}

impl Member {
    /// Whether the circuit is open in this process only, because this process's outcomes meet a rule and the fleet's do
    /// not.
    #[must_use]
    pub fn is_open_locally(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.is_open_locally())
    }

    /// Admits an ordinary call, unless the local circuit or the ramp refuses.
    pub(super) fn admit_here(&mut self, policy: &Policy, draw: RandomBits, now: Timestamp) -> AcquireResult {
        let Some(local) = self.link.as_mut().and_then(|link| link.local.as_mut()) else {
            return self.admit(policy, now);
        };
        let own_policy = policy.for_one_process();
        // Checked before a slot in the ramp is taken, so that a refusal need not release one.
        if let Some(refusal) = local.refusal(&own_policy, draw, now) {
            return refused(refusal);
        }
        let mut acquired = self.admit(policy, now);
        if let (Decision::Admitted(permit), Some(local)) =
            (&mut acquired.decision, self.link.as_mut().and_then(|link| link.local.as_mut()))
        {
            permit.local_probe = local.take_probe(&own_policy, draw, now);
        }
        acquired
    }

    /// Settles a call in the local circuit, if there is a local circuit.
    pub(super) fn settle_here(
        &mut self,
        probe: Option<LocalProbe>,
        outcome: &Outcome,
        policy: &Policy,
        draw: RandomBits,
        now: Timestamp,
    ) {
        let Some(link) = &mut self.link else { return };
        if let Some(local) = &mut link.local {
            local.settle(probe, outcome, &policy.for_one_process(), draw, now);
        }
        link.local.take_if(|local| local.is_forgettable(policy, now));
    }

    /// Adds successes that a caller counted itself to the local circuit, if there is a local circuit.
    pub(super) fn add_successes_here(
        &mut self,
        successes: u32,
        latency_sum: Duration,
        policy: &Policy,
        now: Timestamp,
    ) {
        if let Some(local) = self.link.as_mut().and_then(|link| link.local.as_mut()) {
            local.0.add_successes(successes, latency_sum, policy, now);
        }
    }

    /// Whether this process's own outcomes meet a rule, and its local circuit is not open yet.
    pub(super) fn is_broken_here(&self, policy: &Policy, now: Timestamp) -> bool {
        !policy.has_fault(Fault::NoOwnCircuit)
            && self.own_totals(now).is_some_and(|totals| TripRule::first_broken(policy, &totals).is_some())
    }

    /// Opens the local circuit if this process's own outcomes meet a rule, while the fleet's do not. Returns whether
    /// it did.
    pub(super) fn trip_here(&mut self, opened_by: OpenedBy, at: StepContext<'_>) -> bool {
        let StepContext { policy, draw, now, .. } = at;
        if !self.is_broken_here(policy, now) {
            return false;
        }
        let Some((totals, link)) = self.own_totals(now).zip(self.link.as_mut()) else { return false };
        if TripRule::first_broken(policy, &link.totals(policy, now)).is_some() {
            // The store does not have all counts yet; with them, its totals may meet a rule too.
            return false;
        }
        let own_policy = policy.for_one_process();
        let local = link.local.get_or_insert_with(|| Box::new(LocalCircuit::new(&own_policy, now)));
        local.trip(&totals, opened_by, &own_policy, draw, now)
    }

    /// Returns this process's counts since the local circuit last changed; `None` if the local circuit is open or does
    /// not apply, for example because the store is unavailable.
    fn own_totals(&self, now: Timestamp) -> Option<Totals> {
        let link = self.link.as_ref().filter(|link| !link.is_exclusive && !link.alone)?;
        if !self.circuit.counts_calls() {
            return None;
        }
        match &link.local {
            None => Some(self.circuit.totals(now)),
            Some(local) if local.is_open() => None,
            Some(local) => Some(local.0.totals(now)),
        }
    }
}
