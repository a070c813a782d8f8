//! What a leader knows of the store's records, so that it need not read all of them at every tick.
//!
//! All are read when a leader takes office, and again whenever changes were missed. In between it hears of changes, and at
//! every tick reads again what is not closed. If it is wrong about a record all the same, nothing comes of it: what it
//! decides is swapped in by the version that it knew, or not at all, and then it knows better.

use std::collections::{BTreeMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use breakerbox_core::{Record, Status};

use super::leader::Leader;
use super::tick::Undone;
use crate::breakerbox::{Breakerbox, Shared};
use crate::clock::Clock;
use crate::store::{Answer, Changes, Heard, ListQuery};

/// How many records are read before others have their turn.
const AT_ONCE: usize = 1_000;

pub(super) struct Known {
    /// In the order of their keys, so that the same happens again where draws are seeded.
    records: BTreeMap<Arc<str>, Record>,
    changes: Changes,
    /// Whether every record there is has been read or heard of.
    is_whole: bool,
}

impl Known {
    /// Nothing yet, but whatever happens from now on is heard.
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

    /// This is what the store has.
    pub(super) fn put(&mut self, key: &Arc<str>, record: Option<Record>) {
        match record {
            Some(record) => self.records.insert(Arc::clone(key), record),
            None => self.records.remove(key),
        };
    }

    /// Takes note of what was announced. Often enough, nothing is missed: the store keeps a thousand.
    pub(super) fn hear(&mut self, shared: &Shared) {
        loop {
            let heard = pin!(self.changes.next()).poll(&mut Context::from_waker(Waker::noop()));
            match heard {
                Poll::Ready(Some(Heard::Changed { key, record })) => {
                    let Some(key) = shared.key_of(&key).map(Arc::from) else { continue };
                    if self.records.get(&key).is_none_or(|known| known.epoch <= record.epoch) {
                        self.records.insert(key, (*record).clone());
                    }
                }
                // A sampled circuit's outcomes are counted elsewhere: there is nothing to report.
                Poll::Ready(Some(Heard::ReportsWanted { .. })) => {}
                Poll::Ready(Some(_)) => self.is_whole = false,
                Poll::Ready(None) => {
                    self.is_whole = false;
                    return;
                }
                Poll::Pending => return,
            }
        }
    }

    /// Brings it up to date, at the beginning of a tick.
    pub(super) async fn refresh(&mut self, leader: &Leader<'_>) -> Result<(), Undone> {
        self.hear(leader.shared);
        if !self.is_whole {
            self.records.clear();
            self.is_whole = true;
            return self.list(leader, None).await.map(drop);
        }
        let mut there = self.list(leader, Some(Status::Open)).await?;
        there.extend(self.list(leader, Some(Status::HalfOpen)).await?);
        // What was not closed and is not found so any more has changed, and nobody said so.
        let gone = |(key, record): (&Arc<str>, &Record)| {
            let was_there = matches!(record.status(), Status::Open | Status::HalfOpen);
            (was_there && !there.contains(key)).then(|| Arc::clone(key))
        };
        let gone: Vec<_> = self.records.iter().filter_map(gone).collect();
        for keys in gone.chunks(AT_ONCE) {
            self.read(leader, keys).await?;
        }
        self.forget(leader);
        Ok(())
    }

    /// Lets go of closed circuits without memory, which the store lets go of too. If it has not, it says so in time.
    fn forget(&mut self, leader: &Leader<'_>) {
        let now = leader.shared.times.there(leader.shared.times.now());
        self.records.retain(|key, record| {
            record.status() != Status::Closed || !record.is_forgettable(&leader.shared.policy_of(key), now)
        });
    }

    /// Reads every record in this state, and lets this process know what it had not heard. Returns whose they are.
    async fn list(
        &mut self,
        leader: &Leader<'_>,
        status: Option<Status>,
    ) -> Result<HashSet<Arc<str>>, Undone> {
        let (shared, fleet) = (leader.shared, leader.fleet);
        let prefix = shared.name_prefix().to_owned();
        let mut query = ListQuery { prefix, status, limit: AT_ONCE, ..ListQuery::default() };
        let mut keys = HashSet::new();
        loop {
            // A page tells no time; ours will do.
            let page = async {
                let now = shared.times.there(shared.times.now());
                fleet.store.list(&query).await.map(|value| Answer { now, value })
            };
            let page = shared.read_store(fleet, page).await.map_err(|_| Undone::Interrupted)?.value;
            for (store_key, record) in page.circuits {
                let Some(key) = shared.key_of(&store_key).map(Arc::from) else { continue };
                if record.status() != Status::Closed {
                    tell(shared, &key, &record);
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
            // What happens meanwhile must not be more than the store keeps.
            self.hear(shared);
            tokio::task::yield_now().await;
        }
    }

    async fn read(&mut self, leader: &Leader<'_>, keys: &[Arc<str>]) -> Result<(), Undone> {
        let (shared, fleet) = (leader.shared, leader.fleet);
        let store_keys: Vec<_> = keys.iter().map(|key| shared.name_of(key)).collect();
        let answer = shared.read_store(fleet, fleet.store.read(&store_keys)).await;
        for (key, record) in keys.iter().zip(answer.map_err(|_| Undone::Interrupted)?.value) {
            // What can't be read is as good as not there: nothing can be swapped in for it by mistake.
            self.put(key, record.unwrap_or_default());
        }
        Ok(())
    }
}

/// What was read is known in this process too. So whatever others changed, and nobody lived to tell, the leader's observers
/// hear.
fn tell(shared: &Arc<Shared>, key: &str, record: &Record) {
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
