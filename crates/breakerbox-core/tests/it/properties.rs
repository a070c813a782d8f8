//! Random sequences of steps of a circuit: however it is called, settled, overridden and reconfigured, and however
//! time passes, the rules of the transition table are met.

use std::time::Duration;

use breakerbox_core::{
    AcquireResult, Attribution, Change, Circuit, CircuitStatus, Decision, Epoch, Lease, Nonce, Outcome,
    OutcomeKind, OverrideCommand, Permit, Policy, PolicyBuilder, RandomBits, Record, Refusal, Sample,
    Settlement, State, Timestamp, Totals,
};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::test_runner::TestCaseError;

use crate::rig::{ms, secs};

// ---- The window, compared with a model that keeps every outcome ----

/// A model that keeps every outcome and counts them anew for each query, with the same bucket bounds.
struct Naive {
    width: u64,
    outcomes: Vec<(u64, Outcome)>,
}

impl Naive {
    fn totals(&self, slow_call: Duration, now: Timestamp) -> Totals {
        let newest = now.as_micros() / self.width;
        let inside = |at: u64| at / self.width + 10 > newest;
        let mut totals = Totals::default();
        for (at, outcome) in &self.outcomes {
            // The run of failures is not part of the window.
            match outcome.kind {
                OutcomeKind::Success => totals.failure_run = 0,
                OutcomeKind::Failure => totals.failure_run += 1,
                OutcomeKind::Ignored => continue,
            }
            if !inside(*at) {
                continue;
            }
            match outcome.kind {
                OutcomeKind::Success => totals.successes += 1,
                _ => totals.failures += 1,
            }
            totals.slow += u64::from(outcome.latency >= slow_call);
            totals.latency_sum += outcome.latency;
        }
        totals
    }
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let latency = (0_u64..3_000).prop_map(ms);
    let retry_after = prop_oneof![4 => Just(None), 1 => (0_u64..2_000).prop_map(|s| Some(secs(s)))];
    (0..8_u8, latency, retry_after).prop_map(|(kind, latency, retry_after)| {
        let kind = match kind {
            0 => OutcomeKind::Ignored,
            1..=4 => OutcomeKind::Success,
            _ => OutcomeKind::Failure,
        };
        Outcome::new(kind, latency).with_retry_after(retry_after)
    })
}

/// Generates time steps, which are zero, short, about a bucket, about a window, or long.
fn time_step() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => Just(Duration::ZERO),
        4 => (0_u64..1_000).prop_map(Duration::from_micros),
        4 => (0_u64..2_000).prop_map(ms),
        2 => (5_000_u64..70_000).prop_map(ms),
        1 => (0_u64..100_000).prop_map(secs),
    ]
}

proptest! {
    #[test]
    fn window_totals_equal_a_recount(
        window_ms in 1_u64..20_000,
        start in any::<u32>(),
        life in vec((time_step(), outcome(), time_step()), 1..120),
    ) {
        const SLOW: Duration = Duration::from_millis(1_500);
        // No rule is ever met, so the window is never cleared.
        let policy = Policy::builder().window(ms(window_ms)).failure_rate(None)
            .consecutive_failures(1_000_000_000).slow_call(SLOW).build().unwrap();
        let mut now = Timestamp::from_micros(start.into());
        let mut circuit = Circuit::new(&policy, now);
        let mut naive = Naive { width: window_ms * 1_000 / 10, outcomes: vec![] };
        for (step, outcome, look_ahead) in life {
            now = now + step;
            let Decision::Admitted(permit) = circuit.try_acquire(&policy, RandomBits(1), now).decision else {
                return Err(TestCaseError::fail("a closed circuit admits"));
            };
            circuit.settle(permit, &outcome, &policy, RandomBits(2), now);
            naive.outcomes.push((now.as_micros(), outcome));
            prop_assert_eq!(circuit.totals(now), naive.totals(SLOW, now));
            let later = now + look_ahead;
            prop_assert_eq!(circuit.totals(later), naive.totals(SLOW, later), "expires on read");
        }
    }
}

// ---- Successes that are counted on the fast path ----

/// A circuit whose caller counts fast successes by itself and adds them late, all at once.
struct FastPathCircuit {
    circuit: Circuit,
    fast_until: Timestamp,
    successes: u32,
    latency_sum: Duration,
}

impl FastPathCircuit {
    /// Adds the successes counted on the fast path, at the end of their bucket.
    fn add_tallies(&mut self, policy: &Policy) {
        let last_moment = Timestamp::from_micros(self.fast_until.as_micros().saturating_sub(1));
        self.circuit.add_successes(self.successes, self.latency_sum, policy, last_moment);
        (self.successes, self.latency_sum) = (0, Duration::ZERO);
    }

    fn settle(
        &mut self,
        permit: Permit,
        outcome: &Outcome,
        policy: &Policy,
        now: Timestamp,
    ) -> Option<Change> {
        let harmless = policy.harmless_latency().is_none_or(|limit| outcome.latency < limit);
        if now < self.fast_until && outcome.kind == OutcomeKind::Success && harmless {
            self.successes += 1;
            self.latency_sum += outcome.latency;
            return None;
        }
        self.add_tallies(policy);
        let change = self.circuit.settle(permit, outcome, policy, RandomBits(3), now).change;
        self.fast_until = if self.circuit.allows_fast_path(policy, now) {
            self.circuit.bucket_ends_at(now)
        } else {
            Timestamp::ZERO
        };
        change
    }
}

proptest! {
    /// Compares the fast path with counting each outcome, until the first trip. After a trip the circuit does not allow
    /// the fast path, and every outcome is counted individually.
    #[test]
    fn the_fast_path_changes_nothing(n in 0..POLICIES, life in vec((time_step(), outcome()), 1..200)) {
        let policy = policy(n);
        let fresh = || Circuit::new(&policy, Timestamp::ZERO);
        let mut plain = fresh();
        let mut fast = FastPathCircuit { circuit: fresh(), fast_until: Timestamp::ZERO, successes: 0, latency_sum: Duration::ZERO };
        let mut now = Timestamp::ZERO;
        for (step, outcome) in life {
            now = now + step;
            let (acquired, acquired_fast) = (plain.try_acquire(&policy, RandomBits(1), now), fast.circuit.try_acquire(&policy, RandomBits(1), now));
            let (Decision::Admitted(permit), Decision::Admitted(permit_fast)) = (acquired.decision, acquired_fast.decision)
            else {
                return Err(TestCaseError::fail("closed until the first trip"));
            };
            let change = plain.settle(permit, &outcome, &policy, RandomBits(3), now).change;
            // The time of the latest success is only as exact as a bucket, because successes are added at the end of
            // theirs.
            let timeless = |change: Option<Change>| change.map(|mut change| { change.last_success = None; change });
            let change = timeless(change);
            prop_assert_eq!(&change, &timeless(fast.settle(permit_fast, &outcome, &policy, now)));
            if change.is_some() {
                return Ok(());
            }
        }
        fast.add_tallies(&policy);
        prop_assert_eq!(plain.totals(now), fast.circuit.totals(now));
    }
}

// ---- Random sequences of steps ----

#[derive(Clone, Debug)]
enum Action {
    Wait(Duration),
    /// Wait until the circuit's retry time, or until a lease expires.
    WaitForRetry,
    Ask,
    /// Settle the n-th unsettled permit.
    Settle(usize, Outcome),
    Drop(usize),
    Obey(OverrideCommand),
    ChangePolicy(usize),
    Sample(Sample),
    /// The clock steps back.
    StepBack(Duration),
}

/// Generates the actions of callers, and the passing of time.
fn calling() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => time_step().prop_map(Action::Wait),
        3 => Just(Action::WaitForRetry),
        12 => Just(Action::Ask),
        10 => (any::<usize>(), outcome()).prop_map(|(n, outcome)| Action::Settle(n, outcome)),
        2 => any::<usize>().prop_map(Action::Drop),
        1 => (0..POLICIES).prop_map(Action::ChangePolicy),
    ]
}

/// Generates all actions.
fn action() -> impl Strategy<Value = Action> {
    let command = prop_oneof![
        1 => Just(OverrideCommand::ForceOpen),
        1 => Just(OverrideCommand::ForceClosed),
        1 => Just(OverrideCommand::Disable),
        3 => Just(OverrideCommand::Release),
        3 => Just(OverrideCommand::Enable),
        1 => Just(OverrideCommand::Reset),
    ];
    let sample = (0..20_u64, 0..20_u64).prop_map(|(successes, failures)| {
        Action::Sample({
            let mut sample = Sample::new(successes, failures);
            sample.latency_sum = Some(secs(successes));
            sample
        })
    });
    prop_oneof![
        34 => calling(),
        1 => command.prop_map(Action::Obey),
        1 => sample,
        1 => time_step().prop_map(Action::StepBack),
    ]
}

const POLICIES: usize = 5;

fn policy(n: usize) -> Policy {
    let builder: PolicyBuilder = match n {
        0 => Policy::builder(),
        1 => Policy::builder().min_calls(3).failure_rate(60).probes(1).ramp_cap(None),
        2 => Policy::builder().consecutive_failures(2).probes(2).disable_after(4).jitter(100),
        3 => Policy::builder().failures(2).window(secs(5)).probe_timeout(ms(800)).ramp_cap(4),
        _ => Policy::builder()
            .mean_latency(ms(900))
            .slow_call(ms(1_000))
            .slow_rate(30)
            .min_calls(2)
            .cool_off(secs(1)),
    };
    builder.build().unwrap()
}

/// Whether the transition table contains this change.
fn is_legal(change: &Change) -> bool {
    use CircuitStatus::{Closed, Disabled, HalfOpen, Open};
    use breakerbox_core::Cause::{
        CoolOffOver, Override as Commanded, ProbeFailed, ProbesSucceeded, RecoveryRateMet,
        RecoveryRateMissed, Rule,
    };
    use breakerbox_core::OverrideCommand as Said;
    match (&change.cause, change.from, change.to) {
        (Rule(_), Closed, Open | Disabled) => true,
        (ProbeFailed | RecoveryRateMissed, HalfOpen, Open | Disabled) => true,
        (CoolOffOver, Open, HalfOpen) => true,
        (ProbesSucceeded | RecoveryRateMet, HalfOpen, Closed) => true,
        (Commanded { command: Said::ForceOpen | Said::Release | Said::Enable, .. }, _, Open) => true,
        (Commanded { command: Said::ForceClosed | Said::Reset, .. }, _, Closed) => true,
        (Commanded { command: Said::Disable, .. }, _, Disabled) => true,
        _ => false,
    }
}

struct Life {
    circuit: Circuit,
    policy: Policy,
    now: Timestamp,
    random: u128,
    permits: Vec<Out>,
}

/// An unsettled permit, with the record at the time when it was given.
struct Out {
    permit: Permit,
    epoch: Epoch,
    nonce: Option<Nonce>,
}

impl Life {
    fn new(first_policy: usize) -> Self {
        let policy = policy(first_policy);
        let circuit = Circuit::new(&policy, Timestamp::ZERO);
        Self { circuit, policy, now: Timestamp::ZERO, random: 0, permits: vec![] }
    }

    /// Returns numbers that differ in all bits, so that jitter and versions vary.
    fn draw(&mut self) -> RandomBits {
        self.random += 1;
        RandomBits(self.random.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    }

    fn record(&self) -> Record {
        self.circuit.record()
    }

    fn try_acquire(&mut self) -> Option<Change> {
        let draw = self.draw();
        let AcquireResult { decision, change } = self.circuit.try_acquire(&self.policy, draw, self.now);
        if let Decision::Admitted(permit) = decision {
            let nonce = self.record().lease.map(|lease| lease.nonce).filter(|_| permit.is_probe());
            self.permits.push(Out { permit, epoch: self.record().epoch, nonce });
        }
        change
    }

    /// Settles the n-th unsettled permit. Whether its result must be late is computed independently, as row 9 of the
    /// transition table defines it.
    fn settle(&mut self, n: usize, outcome: Option<&Outcome>) -> Result<Option<Change>, TestCaseError> {
        if self.permits.is_empty() {
            return Ok(None);
        }
        let Out { permit, epoch, nonce } = self.permits.swap_remove(n % self.permits.len());
        let outcome = outcome.copied().unwrap_or_else(|| permit.outcome_of_drop(&self.policy, self.now));
        let record = self.record();
        let lease = record.lease.filter(|lease| Some(lease.nonce) == nonce);
        let in_time = |lease: Lease| outcome.kind == OutcomeKind::Ignored || lease.is_live(self.now);
        let is_current = record.epoch == epoch && (nonce.is_none() || lease.is_some_and(in_time));
        let before = self.circuit.clone();
        let draw = self.draw();
        let settled = self.circuit.settle(permit, &outcome, &self.policy, draw, self.now);
        prop_assert_eq!(settled.settlement == Settlement::Late, !is_current);
        if !is_current {
            prop_assert_eq!(&before, &self.circuit, "a late result changes nothing");
        }
        Ok(settled.change)
    }

    /// Takes one action, and checks all conditions that must hold for any step.
    fn step(&mut self, action: &Action) -> Result<(), TestCaseError> {
        let before = self.circuit.clone();
        let change = match action {
            Action::Wait(step) => {
                self.now = self.now + *step;
                None
            }
            Action::WaitForRetry => {
                let record = self.record();
                let until = record.retry_at.or(record.lease.map(|lease| lease.expires_at));
                self.now = until.map_or(self.now, |until| until.max(self.now));
                None
            }
            Action::Ask => self.try_acquire(),
            Action::Settle(n, outcome) => self.settle(*n, Some(outcome))?,
            Action::Drop(n) => self.settle(*n, None)?,
            Action::Obey(command) => {
                let by = Attribution::new("property", "test").unwrap();
                let draw = self.draw();
                self.circuit.apply_override(*command, &by, &self.policy, draw, self.now)
            }
            Action::Sample(sample) => {
                let draw = self.draw();
                self.circuit.sample(sample, &self.policy, draw, self.now).expect("with latencies")
            }
            Action::StepBack(step) => {
                let back = step.as_micros().min(self.now.as_micros().into());
                self.now = Timestamp::from_micros(self.now.as_micros() - u64::try_from(back).unwrap());
                None
            }
            Action::ChangePolicy(n) => {
                self.policy = policy(*n);
                None
            }
        };
        self.check(&before, change.as_ref())
    }

    fn check(&self, before: &Circuit, change: Option<&Change>) -> Result<(), TestCaseError> {
        let (old, new) = (before.record(), self.record());
        // One transition means one change; the epoch only increases.
        prop_assert_eq!(new.epoch > old.epoch, change.is_some(), "{:?}", change);
        prop_assert!(new.epoch >= old.epoch);
        // The version changes with every write. (Recording an outcome's time is not a write.)
        let written = new.clone().with_latest_outcomes(old.latest_outcomes()) != old;
        prop_assert_eq!(written, new.version != old.version);
        if let Some(change) = change {
            prop_assert!(is_legal(change), "{:?}", change);
            prop_assert_eq!((change.from, change.to), (old.status(), new.status()));
            // A process that reads the record later derives the same change, whatever state it knew before.
            let from = change.cause.leaves().unwrap_or(old.status());
            let told_later = Change::to(&new, from);
            prop_assert_eq!(told_later.as_ref(), Some(change));
            prop_assert!(new.evidence.is_none() || new.status() != CircuitStatus::Closed);
            prop_assert_eq!((change.epoch, change.at), (new.epoch, self.now));
            prop_assert_eq!(self.circuit.totals(self.now), Totals::default(), "a new epoch counts from zero");
        } else {
            prop_assert_eq!(old.status(), new.status());
        }
        // The fields of a record are consistent.
        prop_assert_eq!(new.retry_at.is_some(), new.is_automatic() && new.state == State::Open);
        prop_assert!(new.lease.is_none() || (new.is_automatic() && new.state == State::HalfOpen));
        if let (Some(retry_at), Some(change)) = (new.retry_at, change) {
            prop_assert!(retry_at.since(change.at) <= self.policy.cool_off_max());
        }
        Ok(())
    }

    /// Checks that with a healthy destination and enough time, the circuit closes and admits every call, unless it is
    /// overridden or disabled. The remaining permits are never settled.
    fn recovers(&mut self) -> Result<(), TestCaseError> {
        if !self.record().is_automatic() {
            return Ok(());
        }
        // Failures in the window may still trip the circuit, so one more recovery is allowed.
        let mut waits = 0;
        let mut in_a_row = 0;
        while in_a_row < 200 {
            let draw = self.draw();
            match self.circuit.try_acquire(&self.policy, draw, self.now).decision {
                Decision::Admitted(permit) => {
                    let draw = self.draw();
                    self.circuit.settle(permit, &Outcome::success(ms(1)), &self.policy, draw, self.now);
                    in_a_row += 1;
                }
                Decision::Refused(refusal) => {
                    waits += 1;
                    in_a_row = 0;
                    prop_assert!(waits < 20, "stuck: {:?} at {:?}", self.circuit, self.now);
                    if !self.record().is_automatic() {
                        // A success can complete the counts for the trip that disables the circuit.
                        return Ok(());
                    }
                    self.now = match refusal {
                        Refusal::Ramping { .. } => self.now + self.policy.window().max(secs(12)),
                        _ => refusal.retry_at().expect("an automatic circuit says when"),
                    };
                }
            }
        }
        prop_assert_eq!(self.circuit.status(), CircuitStatus::Closed);
        Ok(())
    }
}

proptest! {
    #[test]
    fn every_life_keeps_the_rules_and_ends_well(
        first in 0..POLICIES,
        actions in vec(action(), 1..200),
    ) {
        let mut life = Life::new(first);
        for action in &actions {
            life.step(action)?;
        }
        life.recovers()?;
    }

    /// Covers histories without overrides, samples and clock steps, because those end a lease while its probe is in
    /// flight.
    #[test]
    fn at_most_one_probe_is_out_at_a_time(
        first in 0..POLICIES,
        actions in vec(calling(), 1..200),
    ) {
        let mut life = Life::new(first);
        for action in &actions {
            life.step(action)?;
            let now = life.now;
            let running = life.permits.iter().map(|out| &out.permit).filter(|p| p.is_probe() && !p.is_past_deadline(now));
            prop_assert!(running.count() <= 1);
        }
    }
}
