//! One tick: update the copy of the records, poll the sampler once, let the core decide for every key, swap in the
//! changes.
//!
//! No step blocks other tasks for long: keys are evaluated a thousand at a time, and records are swapped in 250 at a
//! time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::fleet::Proposal;
use breakerbox_core::{
    LatestSuccesses, MissingLatencySum, RandomBits, Record, Sample, Span, Status, Step, Timestamp, Version,
};
use tokio::time::Instant;

use super::known::Known;
use super::leader::Leader;
use super::office::Term;
use super::report::Ticked;
use super::sampler::{Poll, SampleError, Since};
use crate::breakerbox::{Breakerbox, Shared};
use crate::cell::tenant_of;
use crate::clock::Clock;
use crate::registry::check_key;
use crate::store::{Swap, Swapped};

/// How many keys are evaluated before other tasks run.
const AT_ONCE: usize = 1_000;

/// How many records are swapped in at once. Fewer than the changes that a store queues for a listener.
const SWAPPED_AT_ONCE: usize = 250;

/// How often a change is tried while other processes take and release leases.
const TRIED: u32 = 5;

/// The reason why a tick changed nothing.
pub(super) enum Undone {
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

/// A decision to swap in.
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
    ) -> Result<Ticked, Undone> {
        let began_at = Instant::now();
        known.refresh(leader).await?;
        let ticked = Ticked { circuits: known.len(), ..Ticked::default() };
        let mut tick = Self { leader, term, known, latest, ticked };
        let samples = tick.poll().await?;
        let used_up =
            tick.known.iter().any(|(_, record)| record.with_fresh_probes(RandomBits(0), term.now).is_some());
        // An empty poll decides nothing, but a half-open circuit may admit its next few calls.
        if !samples.is_empty() || used_up {
            // Extend the term again: it must still last, and the store's time is needed.
            let term = leader.stand().await.ok_or(Undone::Interrupted)?;
            if !term.continues(tick.term) {
                return Err(Undone::Interrupted);
            }
            tick.term = term;
            let mut decided =
                if samples.is_empty() { tick.renew_probes() } else { tick.judge(samples).await? };
            for _ in 0..TRIED {
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

    /// Polls the sampler once, with the timeout.
    async fn poll(&mut self) -> Result<HashMap<String, Sample>, Undone> {
        let Leader { shared, office, sampler, .. } = self.leader;
        let now = shared.times.there(shared.times.now());
        let since = |(key, record): (&Arc<str>, &Record)| {
            let (age, started) = match span(shared, key, record, now) {
                Span::FinishedWithin(age) => (age, false),
                Span::StartedWithin(age) => (age, true),
                Span::Window | Span::Unused => return None,
            };
            Some(Since { key: Arc::clone(key), age, started })
        };
        let since = self.known.iter().filter_map(since).collect();
        let poll = Poll { window: office.window, since, recent: office.recent() };
        let polled_at = Instant::now();
        let limit = office.settings.poll_timeout;
        // In a task of its own, so that a panic affects nothing else.
        let sampler = Arc::clone(sampler);
        let mut polling = tokio::spawn(async move { sampler.sample(&poll).await });
        let answer = match tokio::time::timeout(limit, &mut polling).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(panicked)) => Err(SampleError::failed(panicked)),
            Err(_) => {
                polling.abort();
                // Wait for its end, so that polls never overlap.
                let _ = polling.await;
                Err(SampleError::TimedOut { limit })
            }
        };
        self.ticked.polled_for = polled_at.elapsed();
        let samples = answer.map_err(Undone::NotPolled)?;
        self.ticked.keys = samples.len();
        Ok(samples)
    }

    /// Lets the core decide for every key that was sampled or is not closed. If one sample is not valid, none is used.
    async fn judge(&mut self, samples: HashMap<String, Sample>) -> Result<Vec<Decided>, Undone> {
        let mut keys: Vec<(Arc<str>, Sample)> = Vec::with_capacity(samples.len());
        for (key, record) in self.known.iter() {
            if record.status() != Status::Closed && !samples.contains_key(&**key) {
                keys.push((Arc::clone(key), Sample::default()));
            }
        }
        keys.extend(samples.into_iter().map(|(key, sample)| (Arc::from(key), sample)));
        let mut changing = Vec::new();
        for keys in keys.chunks(AT_ONCE) {
            for (key, sample) in keys {
                if check_key(key).is_err() {
                    self.ticked.unusable_keys += 1;
                    continue;
                }
                let judged = self.judge_with(key, *sample, RandomBits(0)).map_err(|missing| {
                    let reason = format!("{missing} for {key}");
                    Undone::NotPolled(SampleError::Unreadable { field: "latency_sum", reason })
                })?;
                if judged.is_some() {
                    changing.push((Arc::clone(key), *sample));
                }
            }
            tokio::task::yield_now().await;
        }
        // Only changes need random bits, in the order of keys: samples have no order, and seeded runs must be
        // reproducible.
        changing.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let judge = |(key, sample): (Arc<str>, Sample)| self.judge_one(&key, sample).ok().flatten();
        let decided = changing.into_iter().filter_map(judge).collect();
        self.latest.forget(self.term.now);
        Ok(decided)
    }

    /// Lets half-open circuits admit their next few calls.
    fn renew_probes(&self) -> Vec<Decided> {
        let renewed = |(key, record): (&Arc<str>, &Record)| {
            let step = record.with_fresh_probes(self.shared().times.draw(), self.term.now)?;
            let keep_for = step.record.keep_for(&self.shared().policy_of(key));
            let (key, expected) = (Arc::clone(key), Some(record.version));
            Some(Decided { key, sample: Sample::default(), expected, step, keep_for })
        };
        self.known.iter().filter_map(renewed).collect()
    }

    fn judge_one(&mut self, key: &Arc<str>, sample: Sample) -> Result<Option<Decided>, MissingLatencySum> {
        let draw = self.shared().times.draw();
        self.judge_with(key, sample, draw)
    }

    fn judge_with(
        &mut self,
        key: &Arc<str>,
        sample: Sample,
        draw: RandomBits,
    ) -> Result<Option<Decided>, MissingLatencySum> {
        let policy = self.shared().policy_of(key);
        let record = self.known.get(key);
        let step = self.latest.judge(key, record, &sample, &policy, draw, self.term.now)?;
        Ok(step.map(|step| {
            let expected = record.map(|record| record.version);
            let keep_for = step.record.keep_for(&policy);
            Decided { key: Arc::clone(key), sample, expected, step, keep_for }
        }))
    }

    /// Swaps in the decisions, and applies them to this process. If the store had another record for which the same
    /// attempts count, the sample is evaluated again, and the new decisions are returned. All other circuits wait for
    /// the next tick.
    async fn swap(&mut self, mut decided: Vec<Decided>) -> Vec<Decided> {
        let Leader { shared, fleet, office, .. } = self.leader;
        let mut again = Vec::new();
        while !decided.is_empty() {
            let some = decided.split_off(decided.len().saturating_sub(SWAPPED_AT_ONCE));
            let swaps: Vec<_> = some.iter().map(|decided| self.swap_of(decided)).collect();
            let Ok(answer) = shared.write_store(fleet, fleet.store.swap_all(&swaps)).await else {
                self.ticked.not_changed += some.len();
                continue;
            };
            let mut refused = 0;
            for (decided, swapped) in some.into_iter().zip(answer.value) {
                match swapped {
                    Ok(Swapped::Won) => self.won(decided),
                    Ok(Swapped::Lost(there)) => match self.lost(&decided, there) {
                        Some(decided) => again.push(decided),
                        None => self.ticked.not_changed += 1,
                    },
                    Ok(Swapped::TooLate(there)) => {
                        self.known.put(&decided.key, there);
                        self.ticked.not_changed += 1;
                        refused += 1;
                    }
                    // This circuit stays as it is until an operator resets it.
                    Err(_) => self.ticked.not_changed += 1,
                }
            }
            if refused > 0 {
                office.count_refused_writes(refused);
            }
            self.known.hear(shared);
        }
        again
    }

    fn swap_of(&self, decided: &Decided) -> Swap {
        let Decided { key, expected, step, keep_for, .. } = decided;
        Swap {
            key: self.shared().name_of(key),
            expected: *expected,
            record: Record { tenant: Some(tenant_of(key).into()), ..step.record.clone() },
            not_after: self.term.not_after(),
            keep_for: *keep_for,
        }
    }

    /// Applies a swap that won to this process, and reports it to observers.
    fn won(&mut self, decided: Decided) {
        let Decided { key, expected, step, keep_for, .. } = decided;
        self.ticked.changes += usize::from(step.change.is_some());
        let before = self.known.get(&key).cloned();
        self.known.put(&key, Some(step.record.clone()));
        let not_after = self.term.not_after();
        let proposal = Proposal { expected, step, not_after, keep_for, result_of: None };
        tell(self.shared(), &key, before, &proposal);
    }

    /// Handles a swap that lost. If the same attempts count for both records, the sample is valid for the present one
    /// too: the epoch is the same, and another process took or released a lease; or the whole window counts.
    fn lost(&mut self, decided: &Decided, there: Option<Record>) -> Option<Decided> {
        let known = self.known.get(&decided.key);
        let whole_window = |record: Option<&Record>| {
            let counts = |record| span(self.shared(), &decided.key, record, self.term.now);
            record.is_none_or(|record| counts(record) == Span::Window)
        };
        let same_epoch = known.map(|record| record.epoch) == there.as_ref().map(|record| record.epoch);
        let is_as_good = same_epoch || (whole_window(known) && whole_window(there.as_ref()));
        self.known.put(&decided.key, there);
        if is_as_good { self.judge_one(&decided.key, decided.sample).ok().flatten() } else { None }
    }
}

/// Returns which attempts of this key count.
fn span(shared: &Shared, key: &str, record: &Record, now: Timestamp) -> Span {
    record.sampled_over(&shared.policy_of(key), now)
}

/// Applies a record that this leader swapped in to this process, and reports it to observers.
fn tell(shared: &Arc<Shared>, key: &str, before: Option<Record>, proposal: &Proposal) {
    let Ok(circuit) = Breakerbox::of(shared).circuit(key) else { return };
    let change = if circuit.is_controlled() {
        shared.converse(&circuit.cell, None, |member, at| {
            if !member.is_known() {
                // The previous record is no change to report.
                member.learn(before, at);
            }
            member.won(proposal, at.policy, at.now)
        })
    } else {
        proposal.step.change.clone()
    };
    shared.waiters.wake_one(&circuit.cell);
    if let Some(change) = change {
        shared.observers.tell(key, change);
    }
}
