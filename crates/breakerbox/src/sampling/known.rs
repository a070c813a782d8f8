//! The leader's copy of the store's records, so that it need not read all of them at every tick.
//!
//! A leader reads all records when it is elected, and again whenever it missed changes. In between it listens for
//! changes, and at every tick reads the circuits that are not closed. A wrong copy does no harm: a decision is
//! swapped in only if the store's record still has the copy's version; otherwise the swap fails, and the leader
//! learns the current record.

use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use breakerbox_core::{CircuitStatus, Record};

use super::leader::Leader;
use super::tick::TickError;
use crate::breakerbox::Breakerbox;
use crate::clock::Clock;
use crate::fleet::Shared;
use crate::store::{Answer, Changes, ListQuery, StoreEvent};

/// The number of records to read before yielding to other tasks.
const YIELD_EVERY: usize = 1_000;

pub(super) struct Known {
    /// The records by key. They are sorted, so that simulations with a seed are reproducible.
    records: BTreeMap<Arc<str>, Record>,
    changes: Changes,
    /// Whether this copy is complete, because every record in the store has been read or received.
    is_whole: bool,
}

impl Known {
    /// Creates an empty copy of the store's records, which receives all changes from now on.
    pub(super) fn new(leader: &Leader<'_>) -> Self {
        Self { records: BTreeMap::new(), changes: leader.fleet.store.changes(), is_whole: false }
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn get(&self, key: &str) -> Option<&Record> {
        self.records.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Record)> {
        self.records.iter()
    }

    /// Stores a key's current record; `None` if the store has no record.
    pub(super) fn put(&mut self, key: &Arc<str>, record: Option<Record>) {
        match record {
            Some(record) => self.records.insert(Arc::clone(key), record),
            None => self.records.remove(key),
        };
    }

    /// Applies the published changes. Must be called at least once per thousand changes, because the store queues no
    /// more.
    pub(super) fn apply_events(&mut self, shared: &Shared) {
        loop {
            let event = pin!(self.changes.next()).poll(&mut Context::from_waker(Waker::noop()));
            match event {
                Poll::Ready(Some(StoreEvent::Changed { key, record })) => {
                    let Some(key) = shared.key_of(&key).map(Arc::from) else { continue };
                    if self.records.get(&key).is_none_or(|known| known.epoch <= record.epoch) {
                        self.records.insert(key, (*record).clone());
                    }
                }
                // Outcomes of sampled circuits are not counted here, so there is nothing to report.
                Poll::Ready(Some(StoreEvent::ReportsWanted { .. })) => {}
                Poll::Ready(Some(_)) => self.is_whole = false,
                Poll::Ready(None) => {
                    self.is_whole = false;
                    return;
                }
                Poll::Pending => return,
            }
        }
    }

    /// Updates this copy of the store's records at the beginning of a tick.
    pub(super) async fn refresh(&mut self, leader: &Leader<'_>) -> Result<(), TickError> {
        self.apply_events(leader.shared);
        if !self.is_whole {
            self.records.clear();
            self.is_whole = true;
            return self.list(leader, None).await.map(drop);
        }
        let mut there = self.list(leader, Some(CircuitStatus::Open)).await?;
        there.extend(self.list(leader, Some(CircuitStatus::HalfOpen)).await?);
        // A circuit that was open or half-open, and is no longer listed as such, has changed without a message.
        let gone = |(key, record): (&Arc<str>, &Record)| {
            let was_there = matches!(record.status(), CircuitStatus::Open | CircuitStatus::HalfOpen);
            (was_there && !there.contains(key)).then(|| Arc::clone(key))
        };
        let gone: Vec<_> = self.records.iter().filter_map(gone).collect();
        for keys in gone.chunks(YIELD_EVERY) {
            self.read(leader, keys).await?;
        }
        self.forget(leader);
        Ok(())
    }

    /// Drops closed circuits without history, because the store drops their records too. If the store still has such a
    /// record, the leader learns of it when a swap fails.
    fn forget(&mut self, leader: &Leader<'_>) {
        let now = leader.shared.times.to_store_time(leader.shared.times.now());
        self.records.retain(|key, record| {
            record.status() != CircuitStatus::Closed
                || !record.is_forgettable(&leader.shared.policy_of(key), now)
        });
    }

    /// Reads all records with this state into this copy, and applies those that are not closed to this process's
    /// circuits. Returns the keys of these records. If `status` is `None`, reads all records, and returns no keys.
    async fn list(
        &mut self,
        leader: &Leader<'_>,
        status: Option<CircuitStatus>,
    ) -> Result<HashSet<Arc<str>>, TickError> {
        let (shared, fleet) = (leader.shared, leader.fleet);
        let prefix = shared.name_prefix().to_owned();
        let mut query = ListQuery { prefix, status, limit: YIELD_EVERY, ..ListQuery::default() };
        let mut keys = HashSet::new();
        loop {
            // A page does not contain the store's time; the local estimate is good enough.
            let page = async {
                let now = shared.times.to_store_time(shared.times.now());
                fleet.store.list(&query).await.map(|value| Answer { now, value })
            };
            let page = shared.read_store(fleet, page).await.map_err(|_| TickError::Interrupted)?.value;
            for (store_key, record) in page.circuits {
                let Some(key) = shared.key_of(&store_key).map(Arc::from) else { continue };
                if record.status() != CircuitStatus::Closed {
                    apply_to_process(shared, &key, &record);
                }
                if status.is_some() {
                    keys.insert(Arc::clone(&key));
                }
                self.records.insert(key, record);
            }
            query.after = page.next;
            if query.after.is_none() {
                return Ok(keys);
            }
            // Changes that arrive meanwhile must not overflow the store's queue.
            self.apply_events(shared);
            tokio::task::yield_now().await;
        }
    }

    async fn read(&mut self, leader: &Leader<'_>, keys: &[Arc<str>]) -> Result<(), TickError> {
        let (shared, fleet) = (leader.shared, leader.fleet);
        let store_keys: Vec<_> = keys.iter().map(|key| shared.name_of(key)).collect();
        let answer = shared.read_store(fleet, fleet.store.read(&store_keys)).await;
        for (key, record) in keys.iter().zip(answer.map_err(|_| TickError::Interrupted)?.value) {
            // A record that cannot be read is treated as missing: a swap cannot replace it by mistake.
            self.put(key, record.unwrap_or_default());
        }
        Ok(())
    }
}

/// Applies a record to this process's circuit, so that the leader's observers also receive changes whose writer died
/// before publishing them.
fn apply_to_process(shared: &Arc<Shared>, key: &str, record: &Record) {
    let Ok(circuit) = Breakerbox::of(shared).circuit(key) else { return };
    if !circuit.is_controlled() {
        return;
    }
    let learnt = shared.step_member(&circuit.cell, None, |member, at| {
        // A newer record may have been received since this one was read.
        let is_news = !member.is_known() || member.circuit().epoch() < record.epoch;
        is_news.then(|| member.learn(Some(record.clone()), at))
    });
    if let Some(learnt) = learnt {
        shared.apply_learnt(&circuit.cell, learnt);
        shared.waiters.wake_one(&circuit.cell);
    }
}
