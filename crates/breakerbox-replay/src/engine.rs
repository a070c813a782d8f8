//! The replay engine: past calls acquire permits and settle them in virtual time, with one circuit for each key.
//!
//! A permit is settled when its call ends, before any call that starts at the same time. A probe that would take
//! longer than `probe_timeout` fails when the timeout has passed. Samples are evaluated tick by tick; a key that is
//! missing in a tick had no calls, and an empty tick changes nothing.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::{
    AcquireResult, Change, Circuit, Decision, Outcome, Permit, Policy, RandomBits, Sample, Timestamp,
};

use super::clock::Times;
use super::input::{Call, Tick};
use super::report::{Report, rule_name};
use super::tally::Tally;
use super::timeline::{Shown, Stretch, Timeline};

/// Limits on the memory that a replay uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The maximum number of keys.
    pub keys: usize,
    /// The maximum number of calls in flight.
    pub in_flight: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { keys: 1_000_000, in_flight: 4_000_000 }
    }
}

/// Why a line could not be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The number of keys exceeds this limit.
    #[error("key: exceeds the maximum of {0} keys; raise --max-keys (each key takes about 1 KB of memory)")]
    TooManyKeys(usize),
    /// The number of calls in flight exceeds this limit.
    #[error("latency_ms: more than {0} calls are in flight; check that latency_ms is in milliseconds")]
    TooManyInFlight(usize),
    /// A sample lacks a field that the policy needs.
    #[error("samples.{key}.latency_sum_ms: {reason}")]
    MissingLatencySum {
        /// The sample's key.
        key: String,
        /// Why the policy needs the field.
        reason: breakerbox_core::MissingLatencySum,
    },
    /// The report could not be written.
    #[error(transparent)]
    Report(#[from] io::Error),
}

/// One key's circuit, and the results of its replay.
#[derive(Debug)]
pub struct KeyLife {
    /// The key of the circuit.
    pub key: Arc<str>,
    /// The counts of calls, samples and trips, and the time in each state.
    pub tally: Tally,
    /// The states and calls over time. `None` unless timelines were requested.
    pub timeline: Option<Timeline>,
    circuit: Circuit,
}

/// A replay in progress.
pub struct Engine<'w> {
    policy: Policy,
    limits: Limits,
    report: Report<'w>,
    draw_timelines: bool,
    by_key: HashMap<Arc<str>, usize>,
    lives: Vec<KeyLife>,
    in_flight: BinaryHeap<Reverse<InFlight>>,
    /// Only for samples: the open circuits, ordered by the time at which they become half-open.
    cooling_off: BTreeSet<(Timestamp, usize)>,
    draws: u128,
    started_ms: Option<u64>,
    times: Times,
    now: Timestamp,
}

/// An admitted call that is not settled yet. Calls are ordered by settlement time, then by the order in which they were
/// admitted.
#[derive(PartialEq, Eq)]
struct InFlight {
    settles_at: Timestamp,
    order: u128,
    life: usize,
    permit: Permit,
    outcome: Outcome,
}

impl Ord for InFlight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.settles_at, self.order).cmp(&(other.settles_at, other.order))
    }
}

impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<'w> Engine<'w> {
    /// Creates a replay without any calls. Jitter is off, regardless of the policy.
    pub fn new(policy: Policy, limits: Limits, report: Report<'w>, draw_timelines: bool) -> Self {
        Self {
            policy: policy.without_jitter(),
            limits,
            report,
            draw_timelines,
            by_key: HashMap::new(),
            lives: Vec::new(),
            in_flight: BinaryHeap::new(),
            cooling_off: BTreeSet::new(),
            draws: 0,
            started_ms: None,
            times: Times::default(),
            now: Timestamp::ZERO,
        }
    }

    /// Replays one call.
    ///
    /// # Errors
    /// Returns an error if there are too many keys or calls in flight, or the report can't be written.
    pub fn call(&mut self, call: &Call<'_>) -> Result<(), EngineError> {
        self.advance(call.at_ms, call.times)?;
        let life = self.life(&call.key)?;
        let draw = self.draw();
        let AcquireResult { decision, change } =
            self.lives[life].circuit.try_acquire(&self.policy, draw, self.now);
        self.changed(life, change.as_ref())?;
        let state = &mut self.lives[life];
        state.tally.asked(&decision, call.outcome);
        if let Some(timeline) = &mut state.timeline {
            let admitted = matches!(decision, Decision::Admitted(_));
            if let Some(shown) = Shown::of(admitted, call.outcome) {
                timeline.call(call.at_ms, shown);
            }
        }
        self.report.decision(&state.key, &decision, self.now, self.times)?;
        match decision {
            Decision::Admitted(permit) => self.start(life, permit, call),
            Decision::Refused(_) => Ok(()),
        }
    }

    /// Replays one tick: the samples of all keys at one time.
    ///
    /// # Errors
    /// Returns an error if there are too many keys, a sample lacks a field that the policy needs, or the report can't
    /// be written.
    pub fn tick(&mut self, tick: &Tick) -> Result<(), EngineError> {
        self.advance(tick.at_ms, tick.times)?;
        for (key, sample) in &tick.samples {
            let life = self.life(key)?;
            self.lives[life].tally.samples += 1;
            self.sample(life, sample)?;
        }
        // Open circuits get no calls, so most ticks do not contain them. Their cool-off ends nevertheless.
        while !tick.samples.is_empty() {
            let Some((_, life)) = self.cooling_off.first().copied().filter(|(at, _)| *at <= self.now) else {
                break;
            };
            self.sample(life, &Sample::default())?;
        }
        Ok(())
    }

    fn sample(&mut self, life: usize, sample: &Sample) -> Result<(), EngineError> {
        let draw = self.draw();
        let state = &mut self.lives[life];
        let retry_at = state.circuit.record().retry_at;
        let change = state
            .circuit
            .sample(sample, &self.policy, draw, self.now)
            .map_err(|reason| EngineError::MissingLatencySum { key: state.key.to_string(), reason })?;
        if let Some(change) = &change {
            retry_at.map(|at| self.cooling_off.remove(&(at, life)));
            self.cooling_off.extend(change.retry_at.map(|at| (at, life)));
        }
        self.changed(life, change.as_ref())
    }

    /// Settles the calls that are still in flight, and returns the results.
    ///
    /// # Errors
    /// Returns an error if the report can't be written.
    pub fn finish(mut self) -> Result<Finished, EngineError> {
        self.settle_until(Timestamp::from_micros(u64::MAX))?;
        self.report.flush()?;
        for life in &mut self.lives {
            life.tally.ended(self.now);
        }
        let ended_ms = self.now.as_millis_ceil();
        let started_ms = self.started_ms.unwrap_or(ended_ms);
        Ok(Finished { lives: self.lives, times: self.times, started_ms, ended_ms })
    }

    /// Flushes the report so far. Call it if the replay ends early because of invalid input.
    ///
    /// # Errors
    /// Returns an error if the report can't be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.report.flush()
    }

    /// Advances the time to `at_ms`, settling the calls that end by then.
    fn advance(&mut self, at_ms: u64, times: Times) -> Result<(), EngineError> {
        self.started_ms.get_or_insert(at_ms);
        self.times = times;
        let now = Timestamp::from_millis(at_ms);
        self.settle_until(now)?;
        self.now = now;
        Ok(())
    }

    fn settle_until(&mut self, limit: Timestamp) -> Result<(), EngineError> {
        while self.in_flight.peek().is_some_and(|Reverse(next)| next.settles_at <= limit) {
            let Some(Reverse(call)) = self.in_flight.pop() else { break };
            self.now = call.settles_at;
            let draw = self.draw();
            let settled = self.lives[call.life].circuit.settle(
                call.permit,
                &call.outcome,
                &self.policy,
                draw,
                self.now,
            );
            self.lives[call.life].tally.settled(settled.settlement);
            self.changed(call.life, settled.change.as_ref())?;
        }
        Ok(())
    }

    fn start(&mut self, life: usize, permit: Permit, call: &Call<'_>) -> Result<(), EngineError> {
        if self.in_flight.len() >= self.limits.in_flight {
            return Err(EngineError::TooManyInFlight(self.limits.in_flight));
        }
        let kind = if permit.is_probe() { call.probe_outcome } else { call.outcome };
        let mut outcome = Outcome::new(kind, Duration::from_millis(call.latency_ms))
            .with_retry_after(call.retry_after_ms.map(Duration::from_millis));
        let limit = self.policy.probe_timeout();
        if permit.is_probe() && outcome.latency > limit {
            outcome = Outcome::failure(limit);
        }
        let settles_at = self.now + outcome.latency;
        self.in_flight.push(Reverse(InFlight { settles_at, order: self.draws, life, permit, outcome }));
        Ok(())
    }

    /// Returns the index of a key's circuit, creating it if necessary.
    fn life(&mut self, key: &str) -> Result<usize, EngineError> {
        if let Some(life) = self.by_key.get(key) {
            return Ok(*life);
        }
        if self.lives.len() >= self.limits.keys {
            return Err(EngineError::TooManyKeys(self.limits.keys));
        }
        let key: Arc<str> = key.into();
        let life = self.lives.len();
        let origin_ms = self.started_ms.unwrap_or_default();
        self.lives.push(KeyLife {
            key: Arc::clone(&key),
            tally: Tally::default(),
            timeline: self.draw_timelines.then(|| Timeline::new(origin_ms)),
            circuit: Circuit::new(&self.policy, self.now),
        });
        self.by_key.insert(key, life);
        Ok(life)
    }

    fn changed(&mut self, life: usize, change: Option<&Change>) -> Result<(), EngineError> {
        let Some(change) = change else { return Ok(()) };
        let life = &mut self.lives[life];
        life.tally.changed(change);
        if let Some(timeline) = &mut life.timeline {
            timeline.change(Stretch {
                from_ms: change.at.as_millis_ceil(),
                status: Some(change.to),
                rule: rule_name(&change.cause),
            });
        }
        self.report.transition(&life.key, change, self.times)?;
        Ok(())
    }

    /// Returns bits from a counter. Random bits are not needed, because no other process writes these records and
    /// jitter is off.
    fn draw(&mut self) -> RandomBits {
        self.draws += 1;
        RandomBits(self.draws)
    }
}

/// The results of a finished replay.
#[derive(Debug)]
pub struct Finished {
    /// All keys with their results, in order of appearance.
    pub lives: Vec<KeyLife>,
    /// How the traffic states its times.
    pub times: Times,
    /// The time of the first line, in milliseconds.
    pub started_ms: u64,
    /// The time of the last line or the last settlement, whichever is later, in milliseconds.
    pub ended_ms: u64,
}
