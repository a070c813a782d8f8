//! A test circuit: one policy, a clock that tests set, and a list of all changes.

use std::time::Duration;

use breakerbox_core::{
    AcquireResult, Attribution, Cause, Change, Circuit, CircuitStatus, Decision, Outcome, OverrideCommand,
    Permit, Policy, PolicyBuilder, RandomBits, Record, Refusal, Sample, Settlement, Timestamp, TripRule,
};

pub(crate) struct Rig {
    pub(crate) circuit: Circuit,
    pub(crate) policy: Policy,
    pub(crate) now: Timestamp,
    pub(crate) changes: Vec<Change>,
    random: u128,
}

/// Returns a policy without jitter that trips only after 3 consecutive failures, cools off for 30 s and then twice as
/// long each time, closes after one probe, and is disabled at once if it is disabled at all.
pub(crate) fn simple() -> PolicyBuilder {
    let policy = Policy::builder().failure_rate(None).consecutive_failures(3).jitter(0).probes(1);
    let policy = policy.cool_off(secs(30)).cool_off_factor(2.0).cool_off_max(secs(600));
    policy.forgive_after(secs(600)).disable_min(Duration::ZERO)
}

pub(crate) fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn ok() -> Outcome {
    Outcome::success(ms(10))
}

pub(crate) fn failed() -> Outcome {
    Outcome::failure(ms(10))
}

pub(crate) fn operator() -> Attribution {
    Attribution::new("ops", "a drill").unwrap()
}

impl Rig {
    pub(crate) fn new(policy: PolicyBuilder) -> Self {
        Self::with_policy(policy.build().unwrap())
    }

    pub(crate) fn with_policy(policy: Policy) -> Self {
        let circuit = Circuit::new(&policy, Timestamp::ZERO);
        Self { circuit, policy, now: Timestamp::ZERO, changes: Vec::new(), random: 0 }
    }

    /// Creates a rig whose circuit tripped at time 0 and cools off for 30 s.
    pub(crate) fn open() -> Self {
        let mut rig = Self::new(simple());
        rig.fail(3);
        assert_eq!(rig.status(), CircuitStatus::Open);
        rig.changes.clear();
        rig
    }

    /// Creates a rig whose circuit turned half-open at 30 s, with the probe's permit.
    pub(crate) fn half_open(policy: PolicyBuilder) -> (Self, Permit) {
        let mut rig = Self::new(policy);
        rig.fail(3);
        rig.now = at(30_000);
        let probe = rig.permit();
        assert!(probe.is_probe());
        rig.changes.clear();
        (rig, probe)
    }

    pub(crate) fn draw(&mut self) -> RandomBits {
        self.random += 1;
        RandomBits(self.random)
    }

    pub(crate) fn status(&self) -> CircuitStatus {
        self.circuit.status()
    }

    pub(crate) fn record(&self) -> Record {
        self.circuit.record()
    }

    /// Returns the ramp's calls in flight and its limit.
    #[track_caller]
    pub(crate) fn ramp(&self) -> (u32, u32) {
        let ramp = self.circuit.ramp().expect("a ramp");
        (ramp.in_flight(), ramp.limit())
    }

    pub(crate) fn try_acquire(&mut self) -> Decision {
        let draw = self.draw();
        let AcquireResult { decision, change } = self.circuit.try_acquire(&self.policy, draw, self.now);
        self.changes.extend(change);
        decision
    }

    #[track_caller]
    pub(crate) fn permit(&mut self) -> Permit {
        match self.try_acquire() {
            Decision::Admitted(permit) => permit,
            Decision::Refused(refusal) => panic!("refused: {refusal:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn refusal(&mut self) -> Refusal {
        match self.try_acquire() {
            Decision::Refused(refusal) => refusal,
            Decision::Admitted(permit) => panic!("admitted: {permit:?}"),
        }
    }

    pub(crate) fn settle(&mut self, permit: Permit, outcome: &Outcome) -> Settlement {
        let draw = self.draw();
        let settled = self.circuit.settle(permit, outcome, &self.policy, draw, self.now);
        self.changes.extend(settled.change);
        settled.settlement
    }

    pub(crate) fn drop_permit(&mut self, permit: Permit) -> Settlement {
        let draw = self.draw();
        let settled = self.circuit.settle_dropped(permit, &self.policy, draw, self.now);
        self.changes.extend(settled.change);
        settled.settlement
    }

    /// Makes one call with this outcome, without advancing the clock.
    #[track_caller]
    pub(crate) fn call(&mut self, outcome: &Outcome) -> Settlement {
        let permit = self.permit();
        self.settle(permit, outcome)
    }

    #[track_caller]
    pub(crate) fn fail(&mut self, times: u32) {
        (0..times).for_each(|_| assert_eq!(self.call(&failed()), Settlement::Counted));
    }

    #[track_caller]
    pub(crate) fn succeed(&mut self, times: u32) {
        (0..times).for_each(|_| assert_eq!(self.call(&ok()), Settlement::Counted));
    }

    pub(crate) fn apply_override(&mut self, command: OverrideCommand) -> bool {
        let draw = self.draw();
        let change = self.circuit.apply_override(command, &operator(), &self.policy, draw, self.now);
        let obeyed = change.is_some();
        self.changes.extend(change);
        obeyed
    }

    pub(crate) fn sample(&mut self, successes: u64, failures: u64) -> Option<Change> {
        let sample = Sample::new(successes, failures);
        let draw = self.draw();
        self.circuit.sample(&sample, &self.policy, draw, self.now).unwrap()
    }

    /// Returns the only change since the list of changes was last cleared.
    #[track_caller]
    pub(crate) fn only_change(&self) -> &Change {
        assert_eq!(self.changes.len(), 1, "{:#?}", self.changes);
        &self.changes[0]
    }

    /// Returns the trip rule that caused the only change.
    #[track_caller]
    pub(crate) fn rule(&self) -> TripRule {
        match self.only_change().cause {
            Cause::Rule(rule) => rule,
            ref other => panic!("not by a rule: {other:?}"),
        }
    }
}
