//! Runs rounds of recoveries: prepares the circuit, runs the callers, and checks the result.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use breakerbox::{Breakerbox, Circuit, CircuitStatus, Clock, ManualClock, Policy, Timestamp};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::pool::Pool;
use super::probe_end::{Moment, Plan, ProbeEnd, When};
use super::proof::Proof;
use super::receiver::Receiver;
use super::wave::{Setting, Timing, Wave};

/// The number of failures that trip the circuit.
const FAILURES: u64 = 3;

/// The reason why the rounds could not be completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// Tasks or threads could not be started.
    #[error("the askers can't be started: {0}")]
    Askers(#[from] io::Error),
    /// Some callers did not finish in time.
    #[error("a probe that {probe_end}, round {round}: some askers never came back")]
    Hung {
        /// How the probes in these rounds end.
        probe_end: ProbeEnd,
        /// The number of the round in which the callers hung.
        round: u64,
    },
}

/// Runs `rounds` recoveries of one circuit. In each recovery, a hundred callers acquire at the end of the
/// cool-off, and the probe ends in the way that `probe_end` states.
///
/// # Errors
/// Returns an error if callers can't be started, or do not finish.
pub fn prove(probe_end: ProbeEnd, rounds: u64) -> Result<Proof, RecoveryError> {
    let mut course = Rounds::new(probe_end)?;
    for round in 0..rounds {
        course.round(round)?;
    }
    Ok(course.finish())
}

/// The state that is shared by all rounds with the same [`ProbeEnd`].
struct Rounds {
    breakers: Breakerbox,
    circuit: Circuit,
    policy: Arc<Policy>,
    clock: ManualClock,
    receiver: Arc<Receiver>,
    half_opened: Arc<AtomicU64>,
    pool: Pool,
    proof: Proof,
}

impl Rounds {
    fn new(probe_end: ProbeEnd) -> io::Result<Self> {
        // A call times out by the runtime's timer, in real time, so this is the minimum.
        let probe_timeout = Duration::from_millis(if probe_end == ProbeEnd::TimesOut { 1 } else { 10_000 });
        let policy = Policy::builder().failure_rate(None).consecutive_failures(FAILURES).ramp_cap(None);
        let policy = policy.jitter(0).cool_off_factor(1.0).probes(1).probe_timeout(probe_timeout).build();
        let clock = ManualClock::new();
        let half_opened = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&half_opened);
        let breakers = Breakerbox::builder()
            .policy(policy.expect("all numbers are in their ranges"))
            .clock(clock.clone())
            .observer(move |changed| {
                seen.fetch_add(u64::from(changed.change.to == CircuitStatus::HalfOpen), Ordering::SeqCst);
            })
            .build();
        let circuit = breakers.circuit("e1").expect("a short key");
        Ok(Self {
            policy: circuit.policy(),
            pool: Pool::new(&circuit)?,
            receiver: Arc::default(),
            breakers,
            circuit,
            clock,
            half_opened,
            proof: Proof::new(probe_end),
        })
    }

    fn round(&mut self, round: u64) -> Result<(), RecoveryError> {
        let mut chance = SmallRng::seed_from_u64(round);
        self.trip();
        self.proof.rounds += 1;
        for (number, plan) in self.proof.probe_end.waves(&mut chance).into_iter().enumerate() {
            let wave = Arc::new(Wave::new(&self.setting(plan, &mut chance)));
            if !self.pool.run(&wave, chance.random::<bool>()) {
                return Err(RecoveryError::Hung { probe_end: self.proof.probe_end, round });
            }
            for oddity in self.judge(&wave, number == 0) {
                self.proof.deviates(format!("round {round}, wave {}: {oddity}", number + 1));
            }
        }
        Ok(())
    }

    /// Trips the circuit, which starts a cool-off.
    fn trip(&self) {
        for _ in 0..FAILURES {
            // The circuit refuses if the previous round left it open.
            if let Ok(permit) = self.circuit.try_acquire() {
                permit.failure();
            }
        }
    }

    fn setting(&self, plan: Plan, chance: &mut SmallRng) -> Setting<'_> {
        let moment = self.moment(plan.at);
        // If a caller moves the clock, a result that arrives at the same time might not be late yet.
        let may_be_early = moment > self.clock.now()
            && plan.probe.is_some()
            && plan.late.is_none_or(|late| late.when != When::AtOnce);
        let timing = match chance.random_range(0..3_u8) {
            0 => Timing::AsTheyWake,
            1 if may_be_early => Timing::TooEarly { refusals: chance.random_range(1..300) },
            _ => Timing::Together,
        };
        Setting {
            plan,
            timing,
            // A probe that is to verify that a late result changes nothing has to last until that result
            // arrives.
            hasty: chance.random::<bool>() && plan.late.is_none(),
            grace: self.policy.cancel_grace(),
            moment,
            clock: &self.clock,
            receiver: &self.receiver,
        }
    }

    fn moment(&self, at: Moment) -> Timestamp {
        let record = self.circuit.record();
        let lease_ends = record.lease.map(|lease| lease.expires_at);
        let moment = match at {
            Moment::Now => None,
            Moment::CoolOffEnds => record.retry_at,
            Moment::LeaseEnds => lease_ends,
            Moment::LeaseNearlyEnds => lease_ends.map(|at| Timestamp::from_micros(at.as_micros() - 1)),
        };
        moment.unwrap_or_else(|| self.clock.now())
    }

    /// Adds a wave's results to the proof, and returns the deviations.
    fn judge(&mut self, wave: &Wave, is_first: bool) -> Vec<String> {
        let mut oddities = wave.oddities();
        let (plan, probes, proof) = (wave.plan, wave.probes(), &mut self.proof);
        proof.late_applied += u64::from(wave.lates_applied());
        if is_first {
            proof.raced += u64::from(wave.raced());
            // If a hasty probe releases its lease, other callers in its wave take it over.
            let freed = wave.hasty && plan.probe.is_some_and(ProbeEnd::frees_the_lease);
            let heirs = if freed { probes.saturating_sub(1) } else { 0 };
            proof.heirs += u64::from(heirs);
            proof.probes += u64::from(probes - heirs);
            if probes - heirs != 1 {
                oddities.push(format!("{probes} probes at the end of the cool-off"));
            }
        } else {
            proof.heirs += u64::from(probes);
            if probes != u32::from(plan.probe.is_some()) {
                oddities.push(format!("{probes} probes"));
            }
        }
        let status = self.circuit.status();
        if status != plan.then {
            oddities.push(format!("the circuit is {status}, not {}", plan.then));
        }
        let stays = plan.at == Moment::LeaseNearlyEnds || plan.probe.is_some_and(ProbeEnd::keeps_the_lease);
        let live = self.receiver.live();
        if live != u32::from(stays) {
            oddities.push(format!("{live} probes are left at the destination"));
        }
        oddities
    }

    fn finish(mut self) -> Proof {
        self.proof.half_opened = self.half_opened.load(Ordering::SeqCst);
        self.proof.overlaps = self.receiver.overlaps();
        self.proof.late = self.breakers.counts().late_results;
        self.proof
    }
}
