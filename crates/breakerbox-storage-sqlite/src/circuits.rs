//! Circuits in the queue's database file. This implements the library's [`Store`], so that circuits survive a
//! restart.
//!
//! All circuits are in memory, in the library's [`MemoryStore`]: only one process has the file open, so no other can
//! change a record. Counts are kept in memory only. A record that is swapped in is also written to the file before
//! the swap returns, in a group commit with other jobs. At startup, the records are read back: open circuits stay
//! open until their cool-off ends, and overrides, disabled circuits and trips are kept. A probe's lease is kept as
//! well, because its holder may be a client of the decision API that does not know of the restart. When the lease
//! expires, the next call probes.
//!
//! **Runs of failures** are kept too, in the module `runs`. They are written in batches, with the next swap or the next
//! [`write_rest`](SqliteCircuits::write_rest), not with each failure. A crash loses the failures since then.
//!
//! **When the disk is slow or full** circuits continue in memory. A swap waits for the disk for a limited time, and
//! records that could not be written are written with the next swap. After a crash in between, the file contains the
//! previous record.
//!
//! **Time** is the database's: the wall clock at startup plus the monotonic time since startup.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use breakerbox::Clock;
use breakerbox::store::{
    Answer, Changes, Delta, ListQuery, MemoryStore, Merged, Page, RampReply, RampRequest, Readable, Store,
    StoreError, Swap, Swapped, Term,
};
use breakerbox_core::{Nonce, RandomBits, Record, Timestamp, Version};
use breakerbox_model::objects::ShownKey;
use breakerbox_storage::QueueError;
use rusqlite::params;

use self::runs::UnwrittenRuns;
use super::columns::{micros, time};
use super::{Database, WriteTransaction};
use crate::error::JobError;

mod runs;

/// The maximum time that a swap waits until its record is written to the disk.
const SWAP_WRITE_TIMEOUT: Duration = Duration::from_millis(100);
/// The maximum number of records, and of runs, written by one job.
const PIECE: usize = 512;
/// The minimum time by which a record must be ahead of the clock to be corrected. Clock adjustments cause
/// smaller differences.
const STEP: Duration = Duration::from_secs(1);
/// The maximum number of records, and of runs, that one job deletes because their time to be forgotten has come.
const CLEARED_AT_ONCE: u32 = 16;

/// A circuit store in the queue's database file. A clone refers to the same store.
#[derive(Clone)]
pub struct SqliteCircuits(Arc<Inner>);

struct Inner {
    memory: MemoryStore,
    database: Database,
    /// Changes in memory that may not be in the file yet. Each swap and each merge holds this lock.
    unwritten: Mutex<Unwritten>,
}

/// Changes that may not be in the file yet.
#[derive(Default)]
struct Unwritten {
    /// The latest record of each key that was swapped.
    records: BTreeMap<Arc<str>, StoredCircuit>,
    runs: UnwrittenRuns,
}

/// A circuit's record, and the time at which it is forgotten unless it is swapped again.
#[derive(Clone)]
struct StoredCircuit {
    record: Record,
    forget_at: Option<Timestamp>,
}

impl StoredCircuit {
    /// If the record was changed in the future, because the clock was ahead, returns a corrected record that
    /// was changed now. Its cool-off and leases keep their durations. `None`: the record needs no correction.
    fn rebased(&self, now: Timestamp) -> Option<Self> {
        let ahead = self.record.changed_at.since(now);
        if ahead < STEP {
            return None;
        }
        let record = self.record.rebased(RandomBits(rand::random()), now)?;
        Some(Self { record, forget_at: self.forget_at.map(|at| at.before(ahead)) })
    }
}

/// The database's clock, for use by the memory store.
struct DatabaseClock(Database);

impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

impl SqliteCircuits {
    /// Opens the circuits stored in an open database.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn open(database: Database) -> Result<Self, QueueError> {
        let memory = MemoryStore::with_clock(DatabaseClock(database.clone()));
        let mut unwritten = Unwritten::default();
        for (key, stored) in load(&database).await? {
            let now = database.now();
            let stored = match stored.rebased(now) {
                Some(rebased) => {
                    unwritten.records.insert(Arc::clone(&key), rebased.clone());
                    rebased
                }
                None => stored,
            };
            let keep_for = stored.forget_at.map(|at| at.since(now));
            let not_after = Timestamp::from_micros(u64::MAX);
            let swap = Swap { key, expected: None, record: stored.record, not_after, keep_for };
            // The memory store is empty and never blocks, so each swap succeeds.
            let _ = at_once(memory.swap_if(&swap));
        }
        for delta in runs::load(&database).await? {
            // A run of another epoch than the record's is late, so it is ignored.
            let _ = at_once(memory.merge(&[delta]));
        }
        let circuits = Self(Arc::new(Inner { memory, database, unwritten: Mutex::new(unwritten) }));
        // Records that can't be written now stay in memory until they can.
        while let Ok(1..) = circuits.write_rest().await {}
        Ok(circuits)
    }

    /// Writes the runs of failures that are not in the file yet, and a batch of the records that are not, for example
    /// because the disk was full when they were swapped. Returns the number of records that are still not in the file.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn write_rest(&self) -> Result<usize, QueueError> {
        let jobs = {
            let unwritten = self.unwritten();
            let has_records = !unwritten.records.is_empty();
            unwritten.runs.len().div_ceil(PIECE).max(usize::from(has_records))
        };
        for _ in 0..jobs {
            self.write_piece().await?;
        }
        Ok(self.unwritten().records.len())
    }

    async fn write_piece(&self) -> Result<(), QueueError> {
        let inner = Arc::clone(&self.0);
        self.0.database.write(move |transaction| inner.write_some(transaction)).await
    }

    fn unwritten(&self) -> MutexGuard<'_, Unwritten> {
        self.0.unwritten()
    }

    /// Swaps records in memory, and marks them as unwritten.
    fn swap(&self, swaps: &[Swap]) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
        let mut unwritten = self.unwritten();
        let had_run: Vec<bool> = swaps.iter().map(|swap| self.0.memory.run(&swap.key).is_some()).collect();
        let answer = at_once(self.0.memory.swap_all(swaps))?;
        for ((swap, swapped), had_run) in swaps.iter().zip(&answer.value).zip(had_run) {
            if *swapped == Ok(Swapped::Won) {
                let forget_at = swap.keep_for.map(|keep_for| answer.now + keep_for);
                let stored = StoredCircuit { record: swap.record.clone(), forget_at };
                unwritten.records.insert(Arc::clone(&swap.key), stored);
                if had_run {
                    unwritten.runs.changed(&swap.key);
                }
            }
        }
        Ok(answer)
    }

    /// Merges counts in memory, and marks the runs of failures that changed as unwritten.
    fn merge_in_memory(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        let mut unwritten = self.unwritten();
        let run = |delta: &Delta| self.0.memory.run(&delta.key);
        let before: Vec<_> = deltas.iter().map(run).collect();
        let answer = at_once(self.0.memory.merge(deltas))?;
        for (delta, before) in deltas.iter().zip(before) {
            if run(delta) != before {
                unwritten.runs.changed(&delta.key);
            }
        }
        Ok(answer)
    }

    /// Waits until these records are in the file, for at most [`SWAP_WRITE_TIMEOUT`].
    async fn written(&self, swaps: &[Swap], answers: &[Readable<Swapped>]) {
        let won = swaps.iter().zip(answers).filter(|(_, answer)| **answer == Ok(Swapped::Won));
        let won: Vec<(&Arc<str>, Version)> = won.map(|(swap, _)| (&swap.key, swap.record.version)).collect();
        let are_unwritten = || {
            let unwritten = self.unwritten();
            won.iter().any(|(key, version)| {
                unwritten.records.get(*key).is_some_and(|stored| stored.record.version == *version)
            })
        };
        let write = async {
            while are_unwritten() {
                if let Err(error) = self.write_piece().await {
                    tracing::warn!(%error, "can't write the record of a circuit; it is kept in memory");
                    return;
                }
            }
        };
        // A started job completes even if its caller no longer waits.
        let _ = tokio::time::timeout(SWAP_WRITE_TIMEOUT, write).await;
    }
}

impl Inner {
    fn unwritten(&self) -> MutexGuard<'_, Unwritten> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes up to [`PIECE`] unwritten records, and as many runs. If several jobs run concurrently, later ones write
    /// only what earlier ones left.
    fn write_some(
        self: Arc<Self>,
        transaction: &mut WriteTransaction<'_>,
    ) -> Result<(), JobError<QueueError>> {
        let (records, runs) = {
            let Unwritten { records, runs } = &*self.unwritten();
            let clone = |(key, stored): (&Arc<str>, &StoredCircuit)| (Arc::clone(key), stored.clone());
            (records.iter().take(PIECE).map(clone).collect::<Vec<_>>(), runs.first(PIECE))
        };
        if records.is_empty() && runs.is_empty() {
            return Ok(());
        }
        write_records(transaction, &records)?;
        runs::write(transaction, &self.memory, &runs)?;
        transaction.after_commit(move || {
            let mut unwritten = self.unwritten();
            for (key, written) in records {
                // A newer record may have been swapped in since.
                let is_current = |stored: &StoredCircuit| stored.record.version == written.record.version;
                if unwritten.records.get(&key).is_some_and(is_current) {
                    unwritten.records.remove(&key);
                }
            }
            unwritten.runs.were_written(runs);
        });
        Ok(())
    }
}

/// Writes these records, and deletes some that are due to be forgotten.
fn write_records(
    transaction: &WriteTransaction<'_>,
    records: &[(Arc<str>, StoredCircuit)],
) -> Result<(), JobError<QueueError>> {
    if records.is_empty() {
        return Ok(());
    }
    let mut upsert = transaction.connection().prepare_cached(
        "INSERT INTO circuits (key, record, forget_at) VALUES (?1, ?2, ?3)
         ON CONFLICT (key) DO UPDATE SET record = excluded.record, forget_at = excluded.forget_at",
    )?;
    for (key, stored) in records {
        let record =
            serde_json::to_string(&stored.record).map_err(|error| QueueError::Database(Arc::new(error)))?;
        upsert.execute(params![key, record, stored.forget_at.map(micros)])?;
    }
    // If counts were merged into the record since, it stays in memory. It is closed and has no trips, or it would
    // be kept, so nothing is lost.
    transaction
        .connection()
        .prepare_cached(
            "DELETE FROM circuits WHERE key IN (SELECT key FROM circuits INDEXED BY forgettable
                 WHERE forget_at IS NOT NULL AND forget_at <= ?1 ORDER BY forget_at LIMIT ?2)",
        )?
        .execute(params![micros(transaction.now()), CLEARED_AT_ONCE])?;
    Ok(())
}

/// Reads the records from the file, except those that are due to be forgotten.
async fn load(database: &Database) -> Result<Vec<(Arc<str>, StoredCircuit)>, QueueError> {
    let now = database.now();
    database
        .read(move |connection| {
            let mut statement = connection.prepare(
                "SELECT key, record, forget_at FROM circuits WHERE forget_at IS NULL OR forget_at > ?1",
            )?;
            let mut rows = statement.query([micros(now)])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let key: Arc<str> = row.get(0)?;
                let forget_at = row.get::<_, Option<i64>>(2)?.map(time);
                match serde_json::from_str(&row.get::<_, String>(1)?) {
                    Ok(record) => found.push((key, StoredCircuit { record, forget_at })),
                    Err(error) => {
                        tracing::warn!(circuit = %ShownKey(&key), %error, "can't read the record of a circuit; it starts closed");
                    }
                }
            }
            Ok(found)
        })
        .await
}

/// Returns the result of a memory-store operation, which is always ready at once.
fn at_once<T>(answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => Err(StoreError::TimedOut { limit: Duration::ZERO }),
    }
}

#[async_trait]
impl Store for SqliteCircuits {
    async fn merge(&self, deltas: &[Delta]) -> Result<Answer<Vec<Readable<Merged>>>, StoreError> {
        self.merge_in_memory(deltas)
    }

    async fn read(&self, keys: &[Arc<str>]) -> Result<Answer<Vec<Readable<Option<Record>>>>, StoreError> {
        self.0.memory.read(keys).await
    }

    async fn swap_if(&self, swap: &Swap) -> Result<Answer<Swapped>, StoreError> {
        let mut answer = self.swap_all(std::slice::from_ref(swap)).await?.all()?;
        let value = answer.value.pop().expect("one swap has one answer");
        Ok(Answer { now: answer.now, value })
    }

    async fn swap_all(&self, swaps: &[Swap]) -> Result<Answer<Vec<Readable<Swapped>>>, StoreError> {
        let answer = self.swap(swaps)?;
        self.written(swaps, &answer.value).await;
        Ok(answer)
    }

    async fn call_for_reports(&self, keys: &[Arc<str>]) -> Result<(), StoreError> {
        self.0.memory.call_for_reports(keys).await
    }

    fn changes(&self) -> Changes {
        self.0.memory.changes()
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, StoreError> {
        self.0.memory.list(query).await
    }

    async fn ramp(&self, request: &RampRequest) -> Result<Answer<RampReply>, StoreError> {
        self.0.memory.ramp(request).await
    }

    async fn lead(&self, name: &str, candidate: Nonce, ttl: Duration) -> Result<Answer<Term>, StoreError> {
        self.0.memory.lead(name, candidate, ttl).await
    }

    /// Always succeeds, because writes go to memory first and are never rejected there. Swaps succeed even if the
    /// disk is full.
    async fn check_write(&self) -> Result<Answer<()>, StoreError> {
        self.0.memory.check_write().await
    }
}
