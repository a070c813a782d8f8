//! The simulated store: a real memory store that checks every operation as it is applied, and can be sabotaged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use breakerbox::store::{
    Answer, Delta, ListQuery, MemorySnapshot, MemoryStore, Merged, Page, RampReply, RampRequest, Store,
    StoreError, Swap, Swapped, Term,
};
use breakerbox::{Mode, Nonce, OutcomeKind, Record, State};

use super::history::WorkerLife;
use super::sabotage::Sabotage;
use super::verify::{Meaning, Seen};
use super::world::{StoreClock, World};

pub(super) struct CheckedStore {
    world: Arc<World>,
    store: MemoryStore,
    sabotage: Sabotage,
    merges: AtomicU64,
    /// The records that the store returns to readers instead of the current ones if the deliberate fault is
    /// `ReadsThePast`. `None` until they are saved.
    past: Mutex<Option<Vec<Option<Record>>>>,
}

/// The time at which the deliberate fault `ReadsThePast` starts to make the store return old records.
const PAST: Duration = Duration::from_secs(5);

impl CheckedStore {
    pub(super) fn new(world: &Arc<World>, sabotage: Sabotage) -> Self {
        let store = MemoryStore::with_clock(StoreClock(Arc::clone(world)));
        let world = Arc::clone(world);
        Self { world, store, sabotage, merges: AtomicU64::new(0), past: Mutex::new(None) }
    }

    /// Adds counts that a worker sent at `sent_at` to the store, and checks them.
    pub(super) async fn merge(
        &self,
        who: WorkerLife,
        deltas: &[Delta],
        sent_at: Duration,
    ) -> Result<Answer<Vec<Merged>>, StoreError> {
        let mut value = Vec::new();
        for delta in deltas.iter().map(|delta| self.spoilt(delta)) {
            let delta = &delta;
            let key = index(&delta.key);
            let was = self.record(&delta.key).await;
            let merged = self.merge_one(delta, was.as_ref()).await?;
            let (now, at) = (self.world.store_time(), self.world.at());
            self.world.note(|| {
                let sum = |of: fn(&breakerbox::store::BucketDelta) -> u64| {
                    delta.buckets.iter().map(of).sum::<u64>()
                };
                let (good, bad) = (sum(|bucket| bucket.successes), sum(|bucket| bucket.failures));
                format!("store  e{key} +{good} -{bad} by {who:?} late={} {:?}", merged.late, merged.totals)
            });
            self.world.write(|history| {
                history.received(who, key, was.as_ref(), now, at);
                history.merged(who, key, was.as_ref(), (delta, &merged), at);
                history.check_report(&self.world.scenario, (who, key), (delta, &merged), (sent_at, at));
            });
            value.push(Merged { record: self.seen_by_readers(key, merged.record.clone()), ..merged });
        }
        Ok(Answer { now: self.world.store_time(), value })
    }

    async fn merge_one(&self, delta: &Delta, was: Option<&Record>) -> Result<Merged, StoreError> {
        let mut delta = delta.clone();
        match self.sabotage {
            Sabotage::IgnoresEpochs => delta.epoch = was.map_or_else(Default::default, |was| was.epoch),
            Sabotage::MergesTwice => drop(self.store.merge(std::slice::from_ref(&delta)).await?),
            _ => {}
        }
        let mut merged = self.store.merge(&[delta]).await?.all()?.value;
        Ok(merged.pop().expect("one answer for one delta"))
    }

    /// Returns the delta that the store actually adds, which differs from the sent delta under some
    /// deliberate faults.
    fn spoilt(&self, delta: &Delta) -> Delta {
        let tenth = self.merges.fetch_add(1, Ordering::Relaxed) % 10 == 9;
        let mut delta = delta.clone();
        match self.sabotage {
            Sabotage::DropsMerges if tenth => delta.buckets.clear(),
            Sabotage::DropsSuccesses => {
                delta.buckets.iter_mut().for_each(|bucket| bucket.successes = 0);
                delta.last_success = None;
            }
            _ => {}
        }
        delta
    }

    pub(super) async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        self.store.check_write().await
    }

    pub(super) async fn read(
        &self,
        who: WorkerLife,
        keys: &[Arc<str>],
    ) -> Result<Answer<Vec<Option<Record>>>, StoreError> {
        let mut answer = self.store.read(keys).await?.all()?;
        let at = self.world.at();
        for (key, record) in keys.iter().zip(&mut answer.value) {
            let key = index(key);
            self.world.write(|history| history.received(who, key, record.as_ref(), answer.now, at));
            *record = self.seen_by_readers(key, record.take());
        }
        Ok(answer)
    }

    /// Returns the record that readers receive. This is the stored record, unless a deliberate fault changes
    /// it.
    fn seen_by_readers(&self, key: usize, record: Option<Record>) -> Option<Record> {
        let mut record = record;
        match (self.sabotage, &mut record) {
            (Sabotage::HidesLeases, Some(record)) => record.lease = None,
            (Sabotage::LeasesNeverEnd, Some(record)) => {
                if let Some(lease) = &mut record.lease {
                    lease.expires_at = lease.expires_at + Duration::from_secs(1_000_000);
                }
            }
            (Sabotage::ForgetsOverrides, Some(record)) if record.mode != Mode::Automatic => {
                record.mode = Mode::Automatic;
                record.state = State::Closed;
            }
            (Sabotage::ReadsThePast, record) if self.world.at() > PAST => {
                let past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(past) = &*past {
                    record.clone_from(&past[key]);
                }
            }
            _ => {}
        }
        record
    }

    /// Swaps in a record. Returns whether the other workers must be notified. `by_leader` states whether a
    /// leader made the swap in a tick.
    pub(super) async fn swap_if(
        &self,
        who: WorkerLife,
        swap: &Swap,
        by_leader: bool,
    ) -> Result<(Answer<Swapped>, bool), StoreError> {
        let key = index(&swap.key);
        let was = self.record(&swap.key).await;
        let mut tried = swap.clone();
        match self.sabotage {
            Sabotage::IgnoresDeadlines => tried.not_after = breakerbox::Timestamp::from_micros(u64::MAX),
            Sabotage::IgnoresTerms if by_leader => {
                tried.not_after = breakerbox::Timestamp::from_micros(u64::MAX);
            }
            Sabotage::IgnoresVersions => tried.expected = was.as_ref().map(|was| was.version),
            Sabotage::RevivesResults if was.is_some() && is_result(swap) => {
                tried.expected = was.as_ref().map(|was| was.version);
                tried.not_after = breakerbox::Timestamp::from_micros(u64::MAX);
            }
            _ => {}
        }
        let mut answer = self.store.swap_if(&tried).await?;
        let (now, at) = (self.world.store_time(), self.world.at());
        let won = answer.value == Swapped::Won;
        if won {
            let judged = if self.sabotage == Sabotage::RevivesResults { &tried } else { swap };
            let seen = Seen { who, key, was: was.as_ref(), swap: judged, now, at, by_leader };
            let meaning = self.world.write(|history| history.swapped(&seen));
            self.world.note(|| format!("store  e{key} {meaning:?} by {who:?}: {}", brief(&swap.record)));
            if meaning == Meaning::Result(OutcomeKind::Ignored) {
                self.world.note(|| format!("store  e{key} lease given back by {who:?}"));
            }
            if self.sabotage == Sabotage::KeepsWindows {
                self.keep_window(swap, was.as_ref()).await?;
            }
        } else {
            self.world.write(|history| {
                history.received(who, key, was.as_ref(), now, at);
                history.tally.lost_swaps += 1;
                let is_fenced = by_leader && matches!(answer.value, Swapped::TooLate(_));
                history.tally.fenced_writes += u64::from(is_fenced);
            });
            self.world.note(|| {
                let why = if matches!(answer.value, Swapped::TooLate(_)) { "too late" } else { "lost" };
                format!("store  e{key} swap by {who:?} {why}: {}", brief(&swap.record))
            });
        }
        if let Swapped::Lost(record) | Swapped::TooLate(record) = &mut answer.value {
            *record = self.seen_by_readers(key, record.take());
        }
        Ok((answer, won && self.sabotage != Sabotage::ReadsThePast))
    }

    /// Returns a page of records, and writes to the history which worker received them.
    pub(super) async fn list(&self, who: WorkerLife, query: &ListQuery) -> Result<Page, StoreError> {
        let mut page = self.store.list(query).await?;
        let (now, at) = (self.world.store_time(), self.world.at());
        for (key, record) in &mut page.circuits {
            let key = index(key);
            self.world.write(|history| history.received(who, key, Some(record), now, at));
            if let Some(seen) = self.seen_by_readers(key, Some(record.clone())) {
                *record = seen;
            }
        }
        Ok(page)
    }

    /// Starts, renews or releases a leader's term.
    pub(super) async fn lead(
        &self,
        who: WorkerLife,
        (name, candidate): (&str, Nonce),
        ttl: Duration,
    ) -> Result<Answer<Term>, StoreError> {
        let answer = self.store.lead(name, candidate, ttl).await?;
        let at = self.world.at();
        let is_elected = self.world.write(|history| history.campaigned(who, &answer, at));
        if is_elected {
            self.world.note(|| format!("store  {who:?} LEADS until {}", answer.value.ends_at.as_micros()));
        }
        Ok(answer)
    }

    /// Acquires and releases ramp slots. Violations of the ramp's limit are not detected here, but by
    /// counting the calls in flight.
    pub(super) async fn ramp(
        &self,
        who: WorkerLife,
        request: &RampRequest,
    ) -> Result<Answer<RampReply>, StoreError> {
        let mut answer = self.store.ramp(request).await?;
        if let (Sabotage::EndsRamps, RampReply::Done(view)) = (self.sabotage, &mut answer.value) {
            view.state.limit = None;
        }
        let key = index(&request.key);
        self.world.note(|| {
            let (given, wanted) = (request.give.len(), request.take.len());
            format!("store  e{key} ramp +{wanted} -{given} by {who:?}: {:?}", answer.value)
        });
        Ok(answer)
    }

    /// Applies the deliberate fault `KeepsWindows`. If a swap starts a new epoch, adds three successes to its
    /// window, as if they were left from the previous epoch.
    async fn keep_window(&self, swap: &Swap, was: Option<&Record>) -> Result<(), StoreError> {
        if was.is_none_or(|was| was.epoch != swap.record.epoch) {
            let bucket = breakerbox::store::BucketDelta { successes: 3, ..Default::default() };
            let delta = Delta {
                key: Arc::clone(&swap.key),
                epoch: swap.record.epoch,
                window: self.world.scenario.policy.window(),
                buckets: vec![bucket],
                last_success: None,
                run: None,
                keep_for: Duration::ZERO,
            };
            self.store.merge(&[delta]).await?;
        }
        Ok(())
    }

    pub(super) fn snapshot(&self) -> MemorySnapshot {
        self.store.snapshot()
    }

    /// Restores the snapshot `left`, so that the store loses all later writes.
    pub(super) async fn lose(&self, left: MemorySnapshot) {
        self.store.restore(left);
        let records = self.records().await;
        let at = self.world.at();
        self.world.note(|| "store  LOSES WRITES".to_owned());
        self.world.write(|history| history.lost(at, &records));
    }

    /// Returns the record of each endpoint, or `None` for endpoints without a record.
    pub(super) async fn records(&self) -> Vec<Option<Record>> {
        let keys: Vec<_> = (0..self.world.scenario.endpoints.len()).map(name).collect();
        let read = self.store.read(&keys).await;
        read.ok().and_then(|answer| answer.all().ok()).map(|answer| answer.value).unwrap_or_default()
    }

    /// Saves the current records if the deliberate fault is `ReadsThePast`, which returns them later.
    pub(super) async fn remember(&self) {
        if self.sabotage == Sabotage::ReadsThePast {
            let records = self.records().await;
            *self.past.lock().unwrap_or_else(PoisonError::into_inner) = Some(records);
        }
    }

    async fn record(&self, key: &Arc<str>) -> Option<Record> {
        let read = self.store.read(std::slice::from_ref(key)).await;
        read.ok().and_then(|answer| answer.all().ok()?.value.pop()?)
    }

    pub(super) fn sabotage(&self) -> Sabotage {
        self.sabotage
    }
}

fn is_result(swap: &Swap) -> bool {
    use breakerbox::Cause::{ProbeFailed, ProbesSucceeded};
    matches!(swap.record.cause, Some(ProbeFailed | ProbesSucceeded))
}

/// Returns the key of an endpoint.
pub(super) fn name(endpoint: usize) -> Arc<str> {
    format!("e{endpoint}").into()
}

/// Returns the index of the endpoint that a key names.
pub(super) fn index(key: &str) -> usize {
    key[1..].parse().expect("all keys are named by us")
}

fn brief(record: &Record) -> String {
    let Record { state, epoch, version, trips, probe_successes, mode, cause, .. } = record;
    let lease = record.lease.map(|lease| lease.expires_at.as_micros());
    let version = version.0 >> 96;
    format!(
        "{state:?} epoch {} version {version:08x} trips {trips} successes {probe_successes} retry {:?} lease {lease:?} {mode:?} {cause:?}",
        epoch.0,
        record.retry_at.map(breakerbox::Timestamp::as_micros),
    )
}
