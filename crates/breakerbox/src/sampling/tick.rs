//! One tick: updates the copy of the records, polls the sampler once, lets the core decide about every key, and swaps
//! in the changes.
//!
//! No step blocks other tasks for long: keys are evaluated a thousand at a time, and records are swapped in 250 at a
//! time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::fleet::Proposal;
use breakerbox_core::{
    CircuitStatus, LatestSuccesses, MissingLatencySum, RandomBits, Record, Sample, Span, Step, Timestamp,
    Version,
};
use tokio::time::Instant;

use super::election::Term;
use super::known::Known;
use super::leader::Leader;
use super::report::Ticked;
use super::sampler::{Poll, SampleError, Since};
use crate::breakerbox::Breakerbox;
use crate::cell::tenant_of;
use crate::clock::Clock;
use crate::fleet::Shared;
use crate::registry::check_key;
use crate::store::{Swap, Swapped};

/// The number of keys to evaluate before yielding to other tasks.
const YIELD_EVERY: usize = 1_000;

/// The number of records to swap in at once. It is below the number of changes that a store queues for a listener, so
/// that the leader misses none.
const SWAP_BATCH: usize = 250;

/// The maximum number of attempts at a transition while other processes take and release leases.
const MAX_TRIES: u32 = 5;

/// The reason why a tick changed nothing.
pub(super) enum TickError {
    /// The poll failed.
    NotPolled(SampleError),
    /// The store does not respond, or this process no longer leads.
    Interrupted,
}

pub(super) struct Tick<'t> {
    leader: &'t Leader<'t>,
    term: Term,
    known: &'t mut Known,
    latest: &'t mut LatestSuccesses,
    ticked: Ticked,
}

/// A decision about one circuit that must be swapped in.
struct Decided {
    key: Arc<str>,
    sample: Sample,
    expected: Option<Version>,
    step: Step,
    keep_for: Option<Duration>,
}

impl<'t> Tick<'t> {
    /// Performs one tick.
    pub(super) async fn make(
        leader: &'t Leader<'t>,
        term: Term,
        known: &'t mut Known,
        latest: &'t mut LatestSuccesses,
    ) -> Result<Ticked, TickError> {
        let began_at = Instant::now();
        known.refresh(leader).await?;
        let ticked = Ticked { circuits: known.len(), ..Ticked::default() };
        let mut tick = Self { leader, term, known, latest, ticked };
        let samples = tick.poll().await?;
        let used_up =
            tick.known.iter().any(|(_, record)| record.with_fresh_probes(RandomBits(0), term.now).is_some());
        // An empty poll decides nothing, but allows half-open circuits to admit their next few calls.
        if !samples.is_empty() || used_up {
            // Extends the term again: it must not have ended, and the store's time is needed.
            let term = leader.campaign().await.ok_or(TickError::Interrupted)?;
            if !term.continues(tick.term) {
                return Err(TickError::Interrupted);
            }
            tick.term = term;
            let mut decided =
                if samples.is_empty() { tick.renew_probes() } else { tick.evaluate(samples).await? };
            for _ in 0..MAX_TRIES {
                decided = tick.swap(decided).await;
            }
            tick.ticked.not_changed += decided.len();
        }
        tick.ticked.took = began_at.elapsed();
        Ok(tick.ticked)
    }

    fn shared(&self) -> &'t Arc<Shared> {
        self.leader.shared
    }

    /// Polls the sampler once, with a timeout.
    async fn poll(&mut self) -> Result<HashMap<String, Sample>, TickError> {
        let Leader { shared, election, sampler, .. } = self.leader;
        let now = shared.times.to_store_time(shared.times.now());
        let since = |(key, record): (&Arc<str>, &Record)| {
            let (age, started) = match span(shared, key, record, now) {
                Span::FinishedWithin(age) => (age, false),
                Span::StartedWithin(age) => (age, true),
                Span::Window | Span::Unused => return None,
            };
            Some(Since { key: Arc::clone(key), age, started })
        };
        let since = self.known.iter().filter_map(since).collect();
        let poll = Poll { window: election.window, since, recent: election.recent() };
        let polled_at = Instant::now();
        let limit = election.settings.poll_timeout;
        // In a separate task, so that a panic has no other effect.
        let sampler = Arc::clone(sampler);
        let mut polling = tokio::spawn(async move { sampler.sample(&poll).await });
        let answer = match tokio::time::timeout(limit, &mut polling).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(panicked)) => Err(SampleError::failed(panicked)),
            Err(_) => {
                polling.abort();
                // Waits until the poll has ended, so that polls never overlap.
                let _ = polling.await;
                Err(SampleError::TimedOut { limit })
            }
        };
        self.ticked.polled_for = polled_at.elapsed();
        let samples = answer.map_err(TickError::NotPolled)?;
        self.ticked.keys = samples.len();
        Ok(samples)
    }

    /// Evaluates every key that was sampled or is not closed. If one sample is not valid, none is used.
    async fn evaluate(&mut self, samples: HashMap<String, Sample>) -> Result<Vec<Decided>, TickError> {
        let mut keys: Vec<(Arc<str>, Sample)> = Vec::with_capacity(samples.len());
        for (key, record) in self.known.iter() {
            if record.status() != CircuitStatus::Closed && !samples.contains_key(&**key) {
                keys.push((Arc::clone(key), Sample::default()));
            }
        }
        keys.extend(samples.into_iter().map(|(key, sample)| (Arc::from(key), sample)));
        let mut changing = Vec::new();
        for keys in keys.chunks(YIELD_EVERY) {
            for (key, sample) in keys {
                if check_key(key).is_err() {
                    self.ticked.unusable_keys += 1;
                    continue;
                }
                let evaluated = self.evaluate_with(key, *sample, RandomBits(0)).map_err(|missing| {
                    let reason = format!("{missing} for {key}");
                    TickError::NotPolled(SampleError::Unreadable { field: "latency_sum", reason })
                })?;
                if evaluated.is_some() {
                    changing.push((Arc::clone(key), *sample));
                }
            }
            tokio::task::yield_now().await;
        }
        // Only changes need random bits, in key order: samples have no order, and simulations with a seed must be
        // reproducible.
        changing.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let evaluate = |(key, sample): (Arc<str>, Sample)| self.evaluate_one(&key, sample).ok().flatten();
        let decided = changing.into_iter().filter_map(evaluate).collect();
        self.latest.forget(self.term.now);
        Ok(decided)
    }

    /// Returns the steps that let half-open circuits admit calls until the next tick.
    fn renew_probes(&self) -> Vec<Decided> {
        let renewed = |(key, record): (&Arc<str>, &Record)| {
            let step = record.with_fresh_probes(self.shared().times.draw(), self.term.now)?;
            let keep_for = step.record.keep_for(&self.shared().policy_of(key));
            let (key, expected) = (Arc::clone(key), Some(record.version));
            Some(Decided { key, sample: Sample::default(), expected, step, keep_for })
        };
        self.known.iter().filter_map(renewed).collect()
    }

    fn evaluate_one(&mut self, key: &Arc<str>, sample: Sample) -> Result<Option<Decided>, MissingLatencySum> {
        let draw = self.shared().times.draw();
        self.evaluate_with(key, sample, draw)
    }

    fn evaluate_with(
        &mut self,
        key: &Arc<str>,
        sample: Sample,
        draw: RandomBits,
    ) -> Result<Option<Decided>, MissingLatencySum> {
        let policy = self.shared().policy_of(key);
        let record = self.known.get(key);
        let step = self.latest.evaluate(key, record, &sample, &policy, draw, self.term.now)?;
        Ok(step.map(|step| {
            let expected = record.map(|record| record.version);
            let keep_for = step.record.keep_for(&policy);
            Decided { key: Arc::clone(key), sample, expected, step, keep_for }
        }))
    }

    /// Swaps in the decisions, and applies them to this process's circuits. If a swap fails, but the sample also
    /// applies to the store's current record, returns a new decision. All other failed swaps wait for the next tick.
    async fn swap(&mut self, mut decided: Vec<Decided>) -> Vec<Decided> {
        let Leader { shared, fleet, election, .. } = self.leader;
        let mut again = Vec::new();
        while !decided.is_empty() {
            let some = decided.split_off(decided.len().saturating_sub(SWAP_BATCH));
            let swaps: Vec<_> = some.iter().map(|decided| self.swap_of(decided)).collect();
            let Ok(answer) = shared.write_store(fleet, fleet.store.swap_all(&swaps)).await else {
                self.ticked.not_changed += some.len();
                continue;
            };
            let mut refused = 0;
            for (decided, swapped) in some.into_iter().zip(answer.value) {
                match swapped {
                    Ok(Swapped::Won) => self.won(decided),
                    Ok(Swapped::Lost(record)) => match self.lost(&decided, record) {
                        Some(decided) => again.push(decided),
                        None => self.ticked.not_changed += 1,
                    },
                    Ok(Swapped::TooLate(record)) => {
                        self.known.put(&decided.key, record);
                        self.ticked.not_changed += 1;
                        refused += 1;
                    }
                    // This circuit stays unchanged until an operator resets it.
                    Err(_) => self.ticked.not_changed += 1,
                }
            }
            if refused > 0 {
                election.count_refused_writes(refused);
            }
            self.known.apply_events(shared);
        }
        again
    }

    fn swap_of(&self, decided: &Decided) -> Swap {
        let Decided { key, expected, step, keep_for, .. } = decided;
        Swap {
            key: self.shared().name_of(key),
            expected: *expected,
            record: step.record.clone().with_tenant(Some(tenant_of(key).into())),
            not_after: self.term.not_after(),
            keep_for: *keep_for,
        }
    }

    /// Applies a successful swap to this process's circuit, and publishes the change to observers.
    fn won(&mut self, decided: Decided) {
        let Decided { key, expected, step, keep_for, .. } = decided;
        self.ticked.changes += usize::from(step.change.is_some());
        let before = self.known.get(&key).cloned();
        self.known.put(&key, Some(step.record.clone()));
        let not_after = self.term.not_after();
        let proposal = Proposal { expected, step, not_after, keep_for, result_of: None };
        apply_to_process(self.shared(), &key, before, &proposal);
    }

    /// Handles a failed swap. Returns a new decision if the sample also applies to the store's current record, because
    /// the same attempts count for it. This is so if the epoch is the same, because another process only took or
    /// released a lease, or if the whole window counts for both records. Otherwise returns `None`.
    fn lost(&mut self, decided: &Decided, record: Option<Record>) -> Option<Decided> {
        let known = self.known.get(&decided.key);
        let whole_window = |record: Option<&Record>| {
            let counts = |record| span(self.shared(), &decided.key, record, self.term.now);
            record.is_none_or(|record| counts(record) == Span::Window)
        };
        let same_epoch = known.map(|record| record.epoch) == record.as_ref().map(|record| record.epoch);
        let is_as_good = same_epoch || (whole_window(known) && whole_window(record.as_ref()));
        self.known.put(&decided.key, record);
        if is_as_good { self.evaluate_one(&decided.key, decided.sample).ok().flatten() } else { None }
    }
}

/// Returns which of this key's attempts count.
fn span(shared: &Shared, key: &str, record: &Record, now: Timestamp) -> Span {
    record.sampled_over(&shared.policy_of(key), now)
}

/// Applies a record that this leader swapped in to this process's circuit, and publishes the change to observers.
fn apply_to_process(shared: &Arc<Shared>, key: &str, before: Option<Record>, proposal: &Proposal) {
    let Ok(circuit) = Breakerbox::of(shared).circuit(key) else { return };
    let change = if circuit.is_controlled() {
        shared.step_member(&circuit.cell, None, |member, at| {
            if !member.is_known() {
                // The previous record is not a change to publish.
                member.learn(before, at);
            }
            member.won(proposal, at.policy, at.now)
        })
    } else {
        proposal.step.change.clone()
    };
    shared.waiters.wake_one(&circuit.cell);
    if let Some(change) = change {
        shared.observers.notify(key, change);
    }
}
