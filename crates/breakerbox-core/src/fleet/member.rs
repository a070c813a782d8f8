//! One process's circuit: alone, or one of many that share a record in a store.
//!
//! Alone it is a [`Circuit`] and nothing else. In a fleet it counts for itself and for the store, and says what the store
//! should hear; what the store says is taken in by `conversation`.

use alloc::boxed::Box;
use core::time::Duration;

use super::answers::{Consistency, MemberAnswer, Moment, Proposal, Reported, Tell};
use super::link::{Link, Seen};
use crate::change::{Change, Command};
use crate::circuit::{Asked, Circuit, Settled, Settlement};
use crate::outcome::{Outcome, OutcomeKind};
use crate::permit::{Decision, Permit, PermitKind, Refusal};
use crate::policy::Policy;
use crate::record::{Attribution, State};
use crate::rule::TripRule;
use crate::time::Timestamp;
use crate::token::{Draw, Epoch};
use crate::transitions::Answer;

/// One process's circuit.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    pub(super) circuit: Circuit,
    /// None: it shares nothing.
    pub(super) link: Option<Box<Link>>,
}

impl Member {
    /// A circuit that only this process has.
    #[must_use]
    pub fn alone(policy: &Policy, now: Timestamp) -> Self {
        Self { circuit: Circuit::new(policy, now), link: None }
    }

    /// A circuit of a fleet, of which this process has not heard yet.
    #[must_use]
    pub fn of_fleet(policy: &Policy, consistency: Consistency, now: Timestamp) -> Self {
        Self { circuit: Circuit::new(policy, now), link: Some(Box::new(Link::new(policy, consistency))) }
    }

    /// The circuit as this process knows it.
    #[must_use]
    pub const fn circuit(&self) -> &Circuit {
        &self.circuit
    }

    /// Whether the record comes from the store, or is known to be none.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.link.as_ref().is_none_or(|link| link.seen.is_some())
    }

    /// Whether every ask goes to the store, as long as that is there.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        let is_strict = |link: &Link| link.consistency == Consistency::Strict && link.alone_since.is_none();
        self.link.as_deref().is_some_and(is_strict)
    }

    /// Whether nothing would be lost with this circuit.
    #[must_use]
    pub fn is_forgettable(&self, policy: &Policy, now: Timestamp) -> bool {
        self.circuit.is_forgettable(policy, now)
            && self.circuit.totals(now).calls() == 0
            && self.link.as_ref().is_none_or(|link| !link.has_something_to_tell(now))
    }

    /// Whether the store has not heard of everything.
    #[must_use]
    pub fn has_something_to_tell(&self, now: Timestamp) -> bool {
        self.link.as_ref().is_some_and(|link| link.alone_since.is_none() && link.has_something_to_tell(now))
    }

    /// The clock says `after` where it said `before`: what was counted is as old as it was.
    pub fn clock_moved(&mut self, before: Timestamp, after: Timestamp) {
        self.circuit.clock_moved(before, after);
        if let Some(link) = &mut self.link {
            link.clock_moved(before, after);
        }
    }

    /// Does what an operator says to a circuit that only this process has. In a fleet, [the store](Self::obey) is asked.
    pub fn obey_alone(
        &mut self,
        command: Command,
        by: &Attribution,
        policy: &Policy,
        draw: Draw,
        now: Timestamp,
    ) -> Option<Change> {
        self.circuit.obey(command, by, policy, draw, now)
    }

    /// Whether quick successes may be counted aside; as [`Circuit::is_at_ease`].
    #[must_use]
    pub fn is_at_ease(&self, policy: &Policy, now: Timestamp) -> bool {
        match &self.link {
            Some(link) if link.alone_since.is_none() => {
                link.consistency == Consistency::LocalFirst
                    && link.seen.is_some()
                    && link.judging.is_none()
                    && self.circuit.admits_all()
                    && !TripRule::successes_could_break(policy, &link.totals(policy, now))
            }
            _ => self.circuit.is_at_ease(policy, now),
        }
    }

    /// Counts successes that were counted aside, in this epoch.
    pub fn count_aside(&mut self, successes: u32, latency_sum: Duration, policy: &Policy, now: Timestamp) {
        self.circuit.count_aside(successes, latency_sum, policy, now);
        if let Some(link) = self.link.as_mut().filter(|_| successes > 0) {
            link.count_aside(successes, latency_sum, policy, now);
        }
    }

    /// Asks for a permit.
    pub fn ask(&mut self, policy: &Policy, draw: Draw, now: Timestamp) -> MemberAnswer {
        let Some(link) = self.link.as_ref().filter(|link| link.alone_since.is_none()) else {
            return MemberAnswer::Decided(self.by_itself(|circuit| circuit.ask(policy, draw, now)));
        };
        if link.consistency == Consistency::Strict {
            return MemberAnswer::LeaseDue;
        }
        if link.seen.is_none() {
            return MemberAnswer::Unknown;
        }
        if link.judging.is_some() {
            return MemberAnswer::Decided(refused(Refusal::Judging));
        }
        let record = self.circuit.record();
        if record.state != State::Closed && record.rebased_in_fleet(draw, now).is_some() {
            // The store's clock seems to have stepped back; it must say so itself.
            return MemberAnswer::LeaseDue;
        }
        match record.ask(policy, draw, now) {
            Answer::Admit => MemberAnswer::Decided(self.admit(policy, now)),
            Answer::Refuse(refusal) => MemberAnswer::Decided(refused(refusal)),
            Answer::Probe(_) => MemberAnswer::LeaseDue,
        }
    }

    /// Asks without waiting for the store: a circuit that this process has not heard of is taken for closed.
    pub fn ask_at_once(&mut self, policy: &Policy, draw: Draw, now: Timestamp) -> MemberAnswer {
        match self.ask(policy, draw, now) {
            MemberAnswer::Unknown => MemberAnswer::Decided(self.admit(policy, now)),
            answer => answer,
        }
    }

    /// The store did not answer an ask that it should have: what is known here decides. There is no probe without it.
    pub fn ask_unanswered(&mut self, retry_at: Timestamp, at: Moment<'_>) -> Asked {
        let Moment { policy, draw, now, .. } = at;
        match self.circuit.record().ask(policy, draw, now) {
            Answer::Admit => self.admit(policy, now),
            Answer::Refuse(refusal) => refused(refusal),
            Answer::Probe(_) => refused(Refusal::probing(retry_at, now)),
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
    ) -> Reported {
        let Some(link) = &mut self.link else {
            return Reported::quietly(self.circuit.settle(permit, outcome, policy, draw, now));
        };
        let is_of_store = match permit.kind {
            PermitKind::Probe { nonce, .. } => {
                let is_own = link.probe.take_if(|probe| *probe == nonce).is_some();
                // Also one whose permit was handed out, or that another process gave: the record is as the store had it.
                is_own || link.seen == Some(Seen::of(Some(&self.circuit.record())))
            }
            _ => false,
        };
        if link.alone_since.is_some() {
            if is_of_store {
                // The store gave the lease, and only the store can take its result.
                return Reported::quietly(Settled::LATE);
            }
            if permit.epoch == self.circuit.epoch() && !permit.is_probe() && self.circuit.is_automatic() {
                link.count(outcome, policy, now);
            }
            let settle = |circuit: &mut Circuit| circuit.settle(permit, outcome, policy, draw, now);
            return Reported::quietly(self.by_itself(settle));
        }
        let Permit { epoch, kind, .. } = permit;
        if epoch != self.circuit.epoch() {
            return Reported::quietly(match kind {
                PermitKind::Uncounted => Settled::UNCOUNTED,
                _ => Settled::LATE,
            });
        }
        match kind {
            PermitKind::Uncounted => Reported::quietly(Settled::UNCOUNTED),
            _ if !self.circuit.is_automatic() => Reported::quietly(Settled::UNCOUNTED),
            PermitKind::Probe { nonce, .. } => {
                let record = self.circuit.record();
                let (expected, lease) = (Some(record.version), record.lease);
                let step = record.settle_probe(epoch, nonce, outcome, policy, draw, now);
                let Some((step, lease)) = step.zip(lease) else { return Reported::quietly(Settled::LATE) };
                let settlement = match outcome.kind {
                    OutcomeKind::Ignored => Settlement::Uncounted,
                    OutcomeKind::Success | OutcomeKind::Failure => Settlement::Counted,
                };
                // At the expiry itself the lease is somebody else's to take.
                let not_after = Timestamp::from_micros(lease.expires_at.as_micros().saturating_sub(1));
                let proposal = Proposal {
                    result_of: Some((epoch, nonce)),
                    ..Proposal::new(expected, step, not_after, policy)
                };
                Reported {
                    settled: Settled { settlement, change: None },
                    tell: Tell::Swap(Box::new(proposal)),
                }
            }
            PermitKind::Ramped { generation } => {
                self.circuit.settle_on_ramp(generation, outcome, policy, now);
                self.count(outcome, policy, now)
            }
            PermitKind::Call => self.count(outcome, policy, now),
        }
    }

    /// A step that needs nobody's word. If an epoch begins with it, what was counted for the store belongs to the one before.
    fn by_itself<R>(&mut self, step: impl FnOnce(&mut Circuit) -> R) -> R {
        let epoch = self.circuit.epoch();
        let result = step(&mut self.circuit);
        if let Some(link) = self.link.as_mut().filter(|_| self.circuit.epoch() != epoch) {
            link.begin_epoch();
        }
        result
    }

    /// Counts an ordinary outcome here and for the store.
    fn count(&mut self, outcome: &Outcome, policy: &Policy, now: Timestamp) -> Reported {
        let is_published = self.is_published();
        let Some(link) = self.link.as_mut().filter(|_| outcome.kind != OutcomeKind::Ignored) else {
            return Reported::quietly(Settled::UNCOUNTED);
        };
        self.circuit.put_in_window(outcome, policy, now);
        if link.consistency == Consistency::Strict {
            link.retry_after = link.retry_after.max(outcome.retry_after);
            // One that the store has not taken yet it does not count for the one that it has.
            let seen = link.seen.map_or(Epoch::default(), |seen| seen.epoch);
            let epoch = if is_published { seen } else { self.circuit.epoch() };
            return Reported { settled: Settled::COUNTED, tell: Tell::One { epoch, outcome: *outcome } };
        }
        link.count(outcome, policy, now);
        let is_bad = outcome.kind == OutcomeKind::Failure || outcome.is_slow(policy);
        let tell = if TripRule::first_broken(policy, &link.totals(policy, now)).is_some() {
            link.judging.get_or_insert(now);
            Tell::Now
        } else if is_bad {
            Tell::Soon
        } else {
            Tell::Later
        };
        Reported { settled: Settled::COUNTED, tell }
    }

    pub(super) fn admit(&mut self, policy: &Policy, now: Timestamp) -> Asked {
        Asked { decision: self.circuit.admit(policy, now), change: None }
    }
}

pub(super) const fn refused(refusal: Refusal) -> Asked {
    Asked { decision: Decision::Refused(refusal), change: None }
}
