//! One tick: read every record, ask the sampler once, let the core judge every key, swap in what changes.
//!
//! Nothing here takes long without letting others have their turn: records are read and judged by the thousand, and swapped
//! in by the hundred.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::fleet::Proposal;
use breakerbox_core::{Draw, LatestSuccesses, Record, Sample, Span, Status, Step, Timestamp, Version};
use tokio::time::Instant;

use super::leader::Leader;
use super::office::Term;
use super::report::Ticked;
use super::sampler::{Poll, SampleError, Since};
use crate::breakerbox::{Breakerbox, Shared};
use crate::cell::tenant_of;
use crate::clock::Clock;
use crate::registry::check_key;
use crate::store::{Answer, ListQuery, Swap, Swapped};

/// How many records are read, or keys judged, before others have their turn.
const AT_ONCE: usize = 1_000;

/// How many records are swapped in at once.
const SWAPPED_AT_ONCE: usize = 250;

/// What circuits of a fleet that only watches begin with, in the store.
const DRY_RUN: &str = "dry-run ";

/// Why a tick changed nothing.
pub(super) enum Undone {
    /// There are no totals.
    NotPolled(SampleError),
    /// The store does not answer, or this process does not lead any more.
    Interrupted,
}

pub(super) struct Tick<'t> {
    leader: &'t Leader<'t>,
    term: Term,
    records: HashMap<Arc<str>, Record>,
    ticked: Ticked,
}

/// Something to swap in.
struct Decided {
    key: Arc<str>,
    expected: Option<Version>,
    step: Step,
    keep_for: Option<Duration>,
}

impl<'t> Tick<'t> {
    /// One tick, from its beginning to its end.
    pub(super) async fn begin(
        leader: &'t Leader<'t>,
        term: Term,
        latest: &mut LatestSuccesses,
    ) -> Result<Ticked, Undone> {
        let began_at = Instant::now();
        let mut tick = Self { leader, term, records: HashMap::new(), ticked: Ticked::default() };
        tick.read_records().await?;
        let samples = tick.poll().await?;
        if !samples.is_empty() {
            // The term again: whether it still lasts, and what time it is.
            let term = leader.stand().await.ok_or(Undone::Interrupted)?;
            if !term.continues(tick.term) {
                return Err(Undone::Interrupted);
            }
            tick.term = term;
            let decided = tick.judge(samples, latest).await?;
            tick.swap(decided).await;
        }
        tick.ticked.took = began_at.elapsed();
        Ok(tick.ticked)
    }

    fn shared(&self) -> &Arc<Shared> {
        self.leader.shared
    }

    /// Reads every record there is, and lets this process know what it had not heard.
    async fn read_records(&mut self) -> Result<(), Undone> {
        let (shared, fleet) = (self.leader.shared, self.leader.fleet);
        let prefix = if shared.dry_run { DRY_RUN.to_owned() } else { String::new() };
        let mut query = ListQuery { prefix, limit: AT_ONCE, ..ListQuery::default() };
        loop {
            // A page tells no time; ours will do.
            let page = async {
                let now = shared.times.there(shared.times.now());
                fleet.store.list(&query).await.map(|value| Answer { now, value })
            };
            let page = shared.ask_store(fleet, page).await.map_err(|_| Undone::Interrupted)?.value;
            let now = shared.times.there(shared.times.now());
            for (store_key, record) in page.circuits {
                let Some(key) = self.key_of(&store_key) else { continue };
                if record.status() != Status::Closed || span(shared, &key, &record, now) != Span::Window {
                    heard(shared, &key, &record);
                }
                self.records.insert(key, record);
            }
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
            tokio::task::yield_now().await;
        }
        self.ticked.circuits = self.records.len();
        Ok(())
    }

    /// Whose circuit the store knows by this name; none if it is another fleet's.
    fn key_of(&self, store_key: &Arc<str>) -> Option<Arc<str>> {
        match (self.shared().dry_run, store_key.strip_prefix(DRY_RUN)) {
            (true, Some(key)) => Some(key.into()),
            (false, None) => Some(Arc::clone(store_key)),
            _ => None,
        }
    }

    /// Asks the sampler, once, for a limited time.
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
        let poll = Poll { window: office.window, since: self.records.iter().filter_map(since).collect() };
        let polled_at = Instant::now();
        let limit = office.settings.poll_timeout;
        // In a task of its own, so that one that panics takes nobody with it.
        let sampler = Arc::clone(sampler);
        let mut polling = tokio::spawn(async move { sampler.sample(&poll).await });
        let answer = match tokio::time::timeout(limit, &mut polling).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(panicked)) => Err(SampleError::failed(panicked)),
            Err(_) => {
                polling.abort();
                // Its end is waited for, so that no two polls are under way at once.
                let _ = polling.await;
                Err(SampleError::TimedOut { limit })
            }
        };
        self.ticked.polled_for = polled_at.elapsed();
        let samples = answer.map_err(Undone::NotPolled)?;
        self.ticked.keys = samples.len();
        Ok(samples)
    }

    /// Lets the core judge every key: those that were sampled, and those that are not closed. If a sample can't be used,
    /// none is.
    async fn judge(
        &mut self,
        mut samples: HashMap<String, Sample>,
        latest: &mut LatestSuccesses,
    ) -> Result<Vec<Decided>, Undone> {
        let now = self.term.now;
        let mut keys: Vec<(Arc<str>, Sample)> = Vec::with_capacity(samples.len());
        for (key, record) in &self.records {
            if record.status() != Status::Closed && !samples.contains_key(&**key) {
                keys.push((Arc::clone(key), Sample::default()));
            }
        }
        keys.extend(samples.drain().map(|(key, sample)| (Arc::from(key), sample)));
        let mut decided = Vec::new();
        for keys in keys.chunks(AT_ONCE) {
            for (key, sample) in keys {
                if check_key(key).is_err() {
                    self.ticked.unusable_keys += 1;
                    continue;
                }
                let policy = self.shared().policy_of(key);
                let record = self.records.get(key);
                let draw = Draw(rand::random());
                let step = latest.judge(key, record, sample, &policy, draw, now).map_err(|missing| {
                    let reason = format!("{missing} for {key}");
                    Undone::NotPolled(SampleError::Unreadable { field: "latency_sum", reason })
                })?;
                if let Some(step) = step {
                    let keep_for = step.record.keep_for(&policy);
                    let expected = record.map(|record| record.version);
                    decided.push(Decided { key: Arc::clone(key), expected, step, keep_for });
                }
            }
            tokio::task::yield_now().await;
        }
        latest.forget(now);
        Ok(decided)
    }

    /// Swaps in what was decided, and lets this process know. What is lost is looked at again at the next tick.
    async fn swap(&mut self, mut decided: Vec<Decided>) {
        let Leader { shared, fleet, office, .. } = self.leader;
        let not_after = self.term.not_after();
        while !decided.is_empty() {
            let some = decided.split_off(decided.len().saturating_sub(SWAPPED_AT_ONCE));
            let swaps: Vec<_> = some.iter().map(|decided| self.swap_of(decided)).collect();
            let Ok(answer) = shared.ask_store(fleet, fleet.store.swap_all(&swaps)).await else {
                self.ticked.not_changed += some.len();
                continue;
            };
            let mut refused = 0;
            for (decided, swapped) in some.into_iter().zip(answer.value) {
                match swapped {
                    Swapped::Won => {
                        self.ticked.changes += usize::from(decided.step.change.is_some());
                        let before = self.records.get(&decided.key).cloned();
                        let Decided { key, expected, step, keep_for } = decided;
                        let proposal = Proposal { expected, step, not_after, keep_for, is_result: false };
                        won(shared, &key, before, &proposal);
                    }
                    Swapped::Lost(_) => self.ticked.not_changed += 1,
                    Swapped::TooLate(_) => {
                        self.ticked.not_changed += 1;
                        refused += 1;
                    }
                }
            }
            if refused > 0 {
                office.count_refused_writes(refused);
            }
        }
    }

    fn swap_of(&self, decided: &Decided) -> Swap {
        let Decided { key, expected, step, keep_for } = decided;
        let store_key =
            if self.shared().dry_run { format!("{DRY_RUN}{key}").into() } else { Arc::clone(key) };
        Swap {
            key: store_key,
            expected: *expected,
            record: Record { tenant: Some(tenant_of(key).into()), ..step.record.clone() },
            not_after: self.term.not_after(),
            keep_for: *keep_for,
        }
    }
}

/// Which attempts count of this key.
fn span(shared: &Shared, key: &str, record: &Record, now: Timestamp) -> Span {
    record.sampled_over(&shared.policy_of(key), now)
}

/// What this leader swapped in is known here too, and observers hear.
fn won(shared: &Arc<Shared>, key: &str, before: Option<Record>, proposal: &Proposal) {
    let Ok(circuit) = Breakerbox::of(shared).circuit(key) else { return };
    let change = if circuit.is_controlled() {
        shared.converse(&circuit.cell, None, |member, at| {
            if !member.is_known() {
                // What it was before is no news.
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

/// What was read is known here too. So whatever others changed, and nobody lived to tell, the leader's observers hear.
fn heard(shared: &Arc<Shared>, key: &str, record: &Record) {
    let Ok(circuit) = Breakerbox::of(shared).circuit(key) else { return };
    if !circuit.is_controlled() {
        return;
    }
    let learnt = shared.converse(&circuit.cell, None, |member, at| {
        // Something newer may have been heard since this was read.
        let is_news = !member.is_known() || member.circuit().epoch() < record.epoch;
        is_news.then(|| member.learn(Some(record.clone()), at))
    });
    if let Some(learnt) = learnt {
        shared.took(&circuit.cell, learnt);
        shared.waiters.wake_one(&circuit.cell);
    }
}
