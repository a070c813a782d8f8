//! The runs of failures in the database file: which of them changed, and how they are written and read back.
//!
//! A run changes with each failure of a failing circuit, so runs are written in batches. The cost depends on the number
//! of circuits whose run changed; a healthy circuit costs nothing. What is written is the run in memory at the time of
//! the write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use breakerbox::store::{Delta, MemoryStore, RunDelta};
use breakerbox_core::{Epoch, FailureRun};
use breakerbox_storage::QueueError;
use rusqlite::params;

use super::super::columns::{micros, number, time, whole};
use super::super::{Database, WriteTransaction};
use super::CLEARED_AT_ONCE;
use crate::error::JobError;

/// The keys whose run may differ from the one in the file, each with the number of its latest change.
#[derive(Default)]
pub(super) struct UnwrittenRuns {
    changes: u64,
    keys: BTreeMap<Arc<str>, u64>,
}

impl UnwrittenRuns {
    pub(super) fn changed(&mut self, key: &Arc<str>) {
        self.changes += 1;
        self.keys.insert(Arc::clone(key), self.changes);
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns up to `limit` keys, each with the number of its latest change.
    pub(super) fn first(&self, limit: usize) -> Vec<(Arc<str>, u64)> {
        self.keys.iter().take(limit).map(|(key, change)| (Arc::clone(key), *change)).collect()
    }

    /// Removes keys that were written, except those that changed again since.
    pub(super) fn were_written(&mut self, written: Vec<(Arc<str>, u64)>) {
        for (key, change) in written {
            if self.keys.get(&key) == Some(&change) {
                self.keys.remove(&key);
            }
        }
    }
}

/// Writes the current runs of these keys, and deletes some that are due to be forgotten.
pub(super) fn write(
    transaction: &WriteTransaction<'_>,
    memory: &MemoryStore,
    keys: &[(Arc<str>, u64)],
) -> Result<(), JobError<QueueError>> {
    if keys.is_empty() {
        return Ok(());
    }
    let connection = transaction.connection();
    let mut upsert = connection.prepare_cached(
        "INSERT INTO circuit_runs (key, epoch, count, began, last) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (key) DO UPDATE SET epoch = excluded.epoch, count = excluded.count, began = excluded.began, last = excluded.last",
    )?;
    let mut delete = connection.prepare_cached("DELETE FROM circuit_runs WHERE key = ?1")?;
    // The record of the run's epoch is kept as long as the run.
    let mut keep =
        connection.prepare_cached("UPDATE circuits SET forget_at = ?2 WHERE key = ?1 AND forget_at < ?2")?;
    for (key, _) in keys {
        match memory.run(key) {
            Some((Epoch(epoch), run)) => {
                let count = number(run.count);
                upsert.execute(params![
                    key,
                    epoch.cast_signed(),
                    count,
                    micros(run.began),
                    micros(run.last)
                ])?;
                keep.execute(params![key, run.forgotten_at().map(micros)])?;
            }
            None => _ = delete.execute(params![key])?,
        }
    }
    connection
        .prepare_cached(
            "DELETE FROM circuit_runs WHERE key IN (SELECT key FROM circuit_runs INDEXED BY circuit_runs_by_age WHERE last <= ?1 ORDER BY last LIMIT ?2)",
        )?
        .execute(params![micros(transaction.now().before(FailureRun::KEPT_FOR)), CLEARED_AT_ONCE])?;
    Ok(())
}

/// Reads the runs from the file, except those that are forgotten, as reports to the memory store.
pub(super) async fn load(database: &Database) -> Result<Vec<Delta>, QueueError> {
    let now = database.now();
    database
        .read(move |connection| {
            let mut statement = connection
                .prepare("SELECT key, epoch, count, began, last FROM circuit_runs WHERE last > ?1")?;
            let mut rows = statement.query([micros(now.before(FailureRun::KEPT_FOR))])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let age = |at: i64| now.since(time(at));
                let count = whole(row.get(2)?);
                found.push(Delta {
                    key: row.get(0)?,
                    epoch: Epoch(row.get::<_, i64>(1)?.cast_unsigned()),
                    window: Duration::from_secs(60),
                    buckets: Vec::new(),
                    last_success: None,
                    run: Some(RunDelta { count, began: age(row.get(3)?), last: age(row.get(4)?) }),
                    keep_for: Duration::ZERO,
                });
            }
            Ok(found)
        })
        .await
}
