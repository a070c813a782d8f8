//! The memory store: circuits shared within this process, for tests and simulations, and as the reference
//! implementation of a store.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_core::fleet::{SharedRamp, SharedWindow};
use breakerbox_core::{Epoch, FailureRun, LatestOutcomes, Nonce, Record, Timestamp, Totals};

use super::changes::{Announcer, Changes, StoreEvent};
use super::{
    Answer, Cursor, Delta, ListQuery, Merged, Page, RampReply, RampRequest, Readable, Store, StoreError,
    Swap, Swapped, Term,
};
use crate::clock::{Clock, SystemClock};
use crate::clock::{TokioClock, is_paused};

/// The maximum number of expired circuits that one operation removes, so that no operation takes long.
const CLEAR_BATCH: usize = 16;

/// The index key for records in any state.
const ANY: &str = "";

/// A store in this process's memory. A clone is another handle to the same store.
///
/// ```
/// use breakerbox::store::{MemoryStore, Store};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let store = MemoryStore::new();
/// let answer = store.read(&["acme https://hooks.acme.example/in".into()]).await?;
/// assert_eq!(answer.value, [Ok(None)]);
/// # Ok::<(), breakerbox::store::StoreError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct MemoryStore(Arc<Inner>);

struct Inner {
    clock: Box<dyn Clock>,
    circuits: Mutex<Circuits>,
    announcer: Announcer,
}

/// A memory store's contents at one moment.
#[derive(Clone, Default)]
pub struct MemorySnapshot(Circuits);

#[derive(Clone, Default)]
struct Circuits {
    entries: HashMap<Arc<str>, Entry>,
    /// The keys that have a record, by state and under [`ANY`].
    index: BTreeSet<(&'static str, Arc<str>)>,
    /// The times at which entries expire, with their keys.
    expiries: BTreeSet<(Timestamp, Arc<str>)>,
    terms: HashMap<String, (Nonce, Timestamp)>,
}

#[derive(Clone, Default)]
struct Entry {
    record: Option<Record>,
    window: SharedWindow,
    /// The circuit's ramp; `None` until the first slot is taken.
    ramp: Option<Box<SharedRamp>>,
    /// The time at which the entry may be dropped, if it has no run of failures; `None` means never.
    expires_at: Option<Timestamp>,
    /// The time of the entry in the index of expiries: `expires_at`, or when the run is forgotten, if that is later.
    indexed_at: Option<Timestamp>,
}

impl Entry {
    /// Returns the time at which the entry may be dropped; `None` means never.
    fn dropped_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.expires_at
            .map(|at| self.window.run(now).forgotten_at().map_or(at, |forgotten| at.max(forgotten)))
    }

    fn epoch(&self) -> Epoch {
        self.record.as_ref().map_or(Epoch::default(), |record| record.epoch)
    }
}

impl MemoryStore {
    /// Creates an empty store with the machine's clock, or with [tokio's clock](crate::TokioClock) if that is paused,
    /// as in a test with paused time.
    #[must_use]
    pub fn new() -> Self {
        if is_paused() { Self::with_clock(TokioClock::new()) } else { Self::with_clock(SystemClock) }
    }

    /// Creates an empty store with another clock.
    #[must_use]
    pub fn with_clock(clock: impl Clock) -> Self {
        let (clock, circuits, announcer) = (Box::new(clock), Mutex::default(), Announcer::new());
        Self(Arc::new(Inner { clock, circuits, announcer }))
    }

    /// Returns the number of circuits that have counts or a record.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().0.entries.len()
    }

    /// Returns whether no circuit has counts or a record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a circuit's run of failures, and the epoch to which it belongs; `None` if the circuit has no run.
    #[must_use]
    pub fn run(&self, key: &str) -> Option<(Epoch, FailureRun)> {
        let (circuits, now) = self.lock();
        let entry = circuits.entries.get(key)?;
        let run = entry.window.run(now);
        (!run.is_empty()).then(|| (entry.epoch(), run))
    }

    /// Returns a copy of the current contents.
    #[must_use]
    pub fn snapshot(&self) -> MemorySnapshot {
        MemorySnapshot(self.lock().0.clone())
    }

    /// Restores this snapshot, so that all later writes are lost, as when a store fails over to a lagging replica. An
    /// empty snapshot removes all data. No changes are published.
    pub fn restore(&self, snapshot: MemorySnapshot) {
        *self.lock().0 = snapshot.0;
    }

    /// Swaps in a record. The caller holds the lock, so that changes are published in the order in which they
    /// happened.
    fn swap(&self, circuits: &mut Circuits, swap: &Swap, now: Timestamp) -> Swapped {
        let swapped = circuits.swap_if(swap, now);
        if swapped == Swapped::Won {
            let (key, record) = (Arc::clone(&swap.key), Arc::new(swap.record.clone()));
            self.0.announcer.announce(StoreEvent::Changed { key, record });
        }
        swapped
    }

    /// Locks all circuits, and returns the current time.
    fn lock(&self) -> (MutexGuard<'_, Circuits>, Timestamp) {
        let mut circuits = self.0.circuits.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.0.clock.now();
        circuits.clear_expired(now);
        (circuits, now)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Circuits {
    fn clear_expired(&mut self, now: Timestamp) {
        for _ in 0..CLEAR_BATCH {
            if self.expiries.first().is_none_or(|(at, _)| *at > now) {
                break;
            }
            let Some((_, key)) = self.expiries.pop_first() else { break };
            let gone = self.entries.remove(&key);
            self.reindex(&key, gone.and_then(|entry| entry.record).as_ref(), None);
        }
    }

    /// Returns the circuit's entry, creating it if necessary, and sets when it expires.
    fn touch(&mut self, key: &Arc<str>, expires_at: Option<Timestamp>) -> &mut Entry {
        let entry = self.entries.entry(Arc::clone(key)).or_default();
        entry.expires_at = expires_at;
        entry
    }

    /// Updates the index of expiries after an entry's expiry time or run of failures changed.
    fn reschedule(&mut self, key: &Arc<str>, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let dropped_at = entry.dropped_at(now);
        if entry.indexed_at != dropped_at {
            if let Some(before) = std::mem::replace(&mut entry.indexed_at, dropped_at) {
                self.expiries.remove(&(before, Arc::clone(key)));
            }
            if let Some(dropped_at) = dropped_at {
                self.expiries.insert((dropped_at, Arc::clone(key)));
            }
        }
    }

    fn merge(&mut self, delta: &Delta, now: Timestamp) -> Merged {
        let known = self.entries.get(&delta.key);
        let late = known.map_or(Epoch::default(), Entry::epoch) != delta.epoch;
        if late && known.is_none() {
            return Merged::new(late, Totals::default(), LatestOutcomes::default(), None);
        }
        let keep_until = now + delta.keep_for;
        let expires_at =
            known.map_or(Some(keep_until), |entry| entry.expires_at.map(|at| at.max(keep_until)));
        let entry = self.touch(&delta.key, expires_at);
        if !late {
            entry.window.add(delta, now);
        }
        let totals = entry.window.totals(delta.window, now);
        let merged = Merged::new(late, totals, entry.window.latest_outcomes(now), entry.record.clone());
        self.reschedule(&delta.key, now);
        merged
    }

    fn swap_if(&mut self, swap: &Swap, now: Timestamp) -> Swapped {
        let current = self.entries.get(&swap.key).and_then(|entry| entry.record.clone());
        if current.as_ref().map(|record| record.version) != swap.expected {
            return Swapped::Lost(current);
        }
        if now > swap.not_after {
            return Swapped::TooLate(current);
        }
        self.reindex(&swap.key, current.as_ref(), Some(&swap.record));
        let entry = self.touch(&swap.key, swap.keep_for.map(|keep_for| now + keep_for));
        if entry.epoch() != swap.record.epoch {
            entry.window = SharedWindow::default();
            entry.ramp = None;
        }
        entry.record = Some(swap.record.clone());
        self.reschedule(&swap.key, now);
        Swapped::Won
    }

    fn ramp(&mut self, request: &RampRequest, now: Timestamp) -> RampReply {
        let entry = self.entries.get_mut(&request.key);
        let Some(entry) = entry.filter(|entry| entry.record.is_some() && entry.epoch() == request.epoch)
        else {
            return RampReply::Late;
        };
        let mut known = entry.ramp.take().map(|ramp| *ramp);
        let view = SharedRamp::apply(&mut known, request, now);
        entry.ramp = known.map(Box::new);
        RampReply::Done(view)
    }

    fn reindex(&mut self, key: &Arc<str>, before: Option<&Record>, after: Option<&Record>) {
        if let Some(record) = before {
            self.index.remove(&(ANY, Arc::clone(key)));
            self.index.remove(&(record.status().name(), Arc::clone(key)));
        }
        if let Some(record) = after {
            self.index.insert((ANY, Arc::clone(key)));
            self.index.insert((record.status().name(), Arc::clone(key)));
        }
    }

    fn list(&self, query: &ListQuery) -> Page {
        let status = query.status.map_or(ANY, |status| status.name());
        let from = match &query.after {
            Some(Cursor(after)) => Bound::Excluded((status, Arc::from(after.as_str()))),
            None => Bound::Included((status, Arc::from(query.prefix.as_str()))),
        };
        let mut keys = self
            .index
            .range((from, Bound::Unbounded))
            .take_while(|(of, key)| *of == status && key.starts_with(&query.prefix))
            .map(|(_, key)| key);
        let record = |key: &Arc<str>| self.entries.get(key).and_then(|entry| entry.record.clone());
        let limit = query.limit.max(1);
        let circuits: Vec<_> =
            keys.by_ref().take(limit).filter_map(|key| Some((Arc::clone(key), record(key)?))).collect();
        let next = keys.next().and(circuits.last()).map(|(key, _)| Cursor(key.to_string()));
        Page { circuits, next, unreadable: Vec::new() }
    }

    fn lead(&mut self, name: &str, candidate: Nonce, ttl: Duration, now: Timestamp) -> Term {
        let (holder, ends_at) = self.terms.get(name).copied().unwrap_or((candidate, Timestamp::ZERO));
        if holder != candidate && now < ends_at {
            return Term { leads: false, ends_at };
        }
        self.terms.retain(|_, (_, ends_at)| now < *ends_at);
        let ends_at = now + ttl;
        self.terms.insert(name.to_owned(), (candidate, ends_at));
        Term { leads: !ttl.is_zero(), ends_at }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        let (mut circuits, now) = self.lock();
        let value = deltas.iter().map(|delta| Ok(circuits.merge(delta, now))).collect();
        Ok(Answer { now, value })
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        let (circuits, now) = self.lock();
        let record = |key: &Arc<str>| circuits.entries.get(key).and_then(|entry| entry.record.clone());
        Ok(Answer { now, value: keys.iter().map(record).map(Ok).collect() })
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        let (mut circuits, now) = self.lock();
        Ok(Answer { now, value: self.swap(&mut circuits, swap, now) })
    }

    async fn swap_all(&self, swaps: &[Swap]) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
        let (mut circuits, now) = self.lock();
        Ok(Answer { now, value: swaps.iter().map(|swap| Ok(self.swap(&mut circuits, swap, now))).collect() })
    }

    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        if !keys.is_empty() {
            self.0.announcer.announce(StoreEvent::ReportsWanted { keys: keys.into() });
        }
        Ok(())
    }

    fn changes(&self) -> Changes {
        self.0.announcer.listen()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        Ok(self.lock().0.list(query))
    }

    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        let (mut circuits, now) = self.lock();
        Ok(Answer { now, value: circuits.ramp(request, now) })
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        let (mut circuits, now) = self.lock();
        Ok(Answer { now, value: circuits.lead(name, candidate, ttl, now) })
    }

    /// Always succeeds, because memory always accepts writes.
    async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        Ok(Answer { now: self.lock().1, value: () })
    }
}
