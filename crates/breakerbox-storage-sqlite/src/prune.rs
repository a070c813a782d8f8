//! Deletes finished work whose retention has ended. It sweeps over the events, starting with the oldest.
//!
//! A reader scans a bounded number of events at a time. The writer only deletes the rows that were found, in small
//! jobs between which other jobs run, and checks each row again, because it may have been resent. This needs no
//! index, whose upkeep would slow down each delivery. Rows that are too recent when the sweep passes (still waiting,
//! finished late, dead letters) are found by the next sweep from the oldest event, which runs periodically.

use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::Id;
use breakerbox_storage::{BatchResult, QueueError, Retention};
use rusqlite::{Connection, params};

use super::columns::{CANCELLED, DELIVERED, FAILED, micros, number};
use super::database::Database;
use super::idempotency::{REMEMBERED, remembered_since};
use super::ids::IdsAhead;
use super::job::Command;
use super::lanes;
use super::tombstones;
use super::transaction::WriteTransaction;
use super::write_queue::Urgency;
use crate::error::JobError;

/// The maximum number of rows deleted by one job.
const ROWS_IN_A_JOB: usize = 200;
/// How many times more events are scanned at a time than rows may be deleted.
const LOOKS_FOR_EACH: usize = 8;
/// The interval between sweeps that begin with the oldest event.
const FROM_THE_START_EVERY: Duration = Duration::from_secs(3_600);

/// The position of the scan for old rows, which continues with each call to prune.
#[derive(Default)]
pub(super) struct Sweep {
    /// The id of the last event scanned.
    position: i64,
    /// The id of the last event scanned among those whose ids are ahead of the clock.
    ahead: i64,
    /// When the next sweep from the oldest event begins.
    restart_at: Timestamp,
    keep: Option<Retention>,
}

/// The cutoff times, in microseconds since 1970: deliveries that finished or failed before them are deleted.
#[derive(Clone, Copy)]
struct Until {
    finished: i64,
    failed: i64,
}

impl Until {
    fn of(keep: &Retention, now: Timestamp) -> Self {
        Self { finished: micros(now.before(keep.finished)), failed: micros(now.before(keep.failed)) }
    }

    fn is_over(self, state: i64, finished_at: Option<i64>) -> bool {
        let until = match state {
            DELIVERED | CANCELLED => self.finished,
            FAILED => self.failed,
            _ => return false,
        };
        finished_at.is_some_and(|at| at <= until)
    }
}

impl Sweep {
    pub(super) async fn run(
        &mut self,
        database: &Database,
        keep: Retention,
        limit: usize,
    ) -> Result<BatchResult, QueueError> {
        let now = database.now();
        if now >= self.restart_at || self.keep != Some(keep) {
            (self.position, self.ahead) = (-1, -1);
            self.restart_at = now + FROM_THE_START_EVERY;
            self.keep = Some(keep);
        }
        let wall = database.wall();
        let until = Until::of(&keep, wall);
        // A more recent event can't have finished long enough ago.
        let end = Id::first_at(wall.before(keep.finished.min(keep.failed))).number();
        let (after, after_ahead) = (self.position, self.ahead);
        let found = database.read(move |connection| {
            let mut found = find_old(connection, after, end, until, limit)?;
            let mut position = after_ahead;
            if let Some(ahead) = IdsAhead::load(connection)?.filter(|_| found.is_all) {
                let after = after_ahead.max(ahead.first - 1);
                let more = find_old(connection, after, ahead.last.saturating_add(1), until, limit)?;
                found.rows.extend(more.rows);
                (found.is_all, position) = (more.is_all, more.position);
            }
            Ok::<_, JobError<QueueError>>((found, position))
        });
        let (found, position_ahead) = found.await?;
        let mut batch = BatchResult { more: !found.is_all, ..BatchResult::default() };
        let mut rows = found.rows;
        while !rows.is_empty() {
            let job: Vec<Old> = rows.drain(..rows.len().min(ROWS_IN_A_JOB)).collect();
            batch.done += database.request(Delete { rows: job, until }, Urgency::Urgent).await?;
        }
        (self.position, self.ahead) = (found.position, position_ahead);
        let tidy = Tidy { limit, is_last: !batch.more };
        let (keys, lanes) = database.request(tidy, Urgency::Urgent).await?;
        batch.more |= keys == limit || lanes == limit;
        Ok(batch)
    }
}

/// An event, with the ids of its deliveries that are old enough to be deleted.
struct Old {
    event: i64,
    fan_out: i64,
    deliveries: Vec<i64>,
}

struct Found {
    rows: Vec<Old>,
    position: i64,
    is_all: bool,
}

fn find_old(
    connection: &Connection,
    after: i64,
    end: i64,
    until: Until,
    limit: usize,
) -> rusqlite::Result<Found> {
    let mut events = connection
        .prepare_cached("SELECT id, fan_out FROM events WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3")?;
    let mut deliveries = connection
        .prepare_cached("SELECT id, state, finished_at FROM deliveries WHERE id > ?1 AND id <= ?1 + ?2")?;
    let looks = limit.saturating_mul(LOOKS_FOR_EACH);
    let mut found = Found { rows: Vec::new(), position: after, is_all: true };
    let (mut looked, mut deletes) = (0, 0);
    let mut rows = events.query(params![after, end, number(looks as u64)])?;
    while let Some(row) = rows.next()? {
        let (event, fan_out): (i64, i64) = (row.get(0)?, row.get(1)?);
        looked += 1;
        let mut old = Vec::new();
        let mut young = false;
        let mut of_event = deliveries.query(params![event, fan_out])?;
        while let Some(row) = of_event.next()? {
            if until.is_over(row.get(1)?, row.get(2)?) {
                old.push(row.get(0)?);
            } else {
                young = true;
            }
        }
        if !young || !old.is_empty() {
            deletes += old.len() + 1;
            found.rows.push(Old { event, fan_out, deliveries: old });
        }
        found.position = event;
        if deletes >= limit {
            found.is_all = false;
            return Ok(found);
        }
    }
    found.is_all = looked < looks;
    Ok(found)
}

/// Deletes the rows that the scan found, except those that have changed since, such as resent deliveries.
struct Delete {
    rows: Vec<Old>,
    until: Until,
}

impl Command for Delete {
    /// The number of deliveries deleted.
    type Output = u64;

    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<u64, JobError<QueueError>> {
        let connection = transaction.connection;
        let mut delivery = connection.prepare_cached(
            "DELETE FROM deliveries WHERE id = ?1
             AND (state IN (2, 4) AND finished_at <= ?2 OR state = 3 AND finished_at <= ?3)",
        )?;
        let mut attempts = connection.prepare_cached("DELETE FROM attempts WHERE delivery = ?1")?;
        let mut event = connection.prepare_cached(
            "DELETE FROM events WHERE id = ?1
             AND NOT EXISTS (SELECT 1 FROM deliveries WHERE id > ?1 AND id <= ?1 + ?2)
             AND NOT EXISTS (SELECT 1 FROM fan_outs WHERE event = ?1)",
        )?;
        let mut payload = connection.prepare_cached("DELETE FROM payloads WHERE event = ?1")?;
        let mut deleted = 0;
        for old in &self.rows {
            for id in &old.deliveries {
                if delivery.execute(params![id, self.until.finished, self.until.failed])? > 0 {
                    attempts.execute([id])?;
                    deleted += 1;
                }
            }
            if event.execute(params![old.event, old.fan_out])? > 0 {
                payload.execute([old.event])?;
            }
        }
        Ok(deleted)
    }
}

/// Deletes expired idempotency keys. If nothing else is left to prune, also deletes unused lanes, and the
/// rows of deleted tenants that nothing refers to.
struct Tidy {
    limit: usize,
    is_last: bool,
}

impl Command for Tidy {
    /// The numbers of keys deleted and of lanes checked.
    type Output = (usize, usize);

    fn run(
        &mut self,
        transaction: &mut WriteTransaction<'_>,
    ) -> Result<(usize, usize), JobError<QueueError>> {
        let keys = transaction
            .connection
            .prepare_cached(
                "DELETE FROM idempotency_keys WHERE id IN
                 (SELECT id FROM idempotency_keys WHERE id < ?1 ORDER BY id LIMIT ?2)",
            )?
            .execute(params![remembered_since(transaction.wall), number(self.limit as u64)])?;
        let keys = keys + forget_keys_ahead(transaction, self.limit - keys.min(self.limit))?;
        let mut lanes = 0;
        if self.is_last && keys < self.limit {
            lanes = lanes::forget_unused(
                transaction.connection,
                transaction.writer_state,
                transaction.wall,
                self.limit,
            )?;
            tombstones::forget(transaction, self.limit)?;
        }
        Ok((keys, lanes))
    }
}

/// Deletes idempotency keys whose ids are ahead of the clock, 24 hours after that was detected. Returns the
/// number deleted.
fn forget_keys_ahead(transaction: &WriteTransaction<'_>, limit: usize) -> rusqlite::Result<usize> {
    let Some(ahead) = transaction.writer_state.ids.ahead() else { return Ok(0) };
    if transaction.wall.since(ahead.seen_at) < REMEMBERED {
        return Ok(0);
    }
    transaction
        .connection
        .prepare_cached(
            "DELETE FROM idempotency_keys WHERE id IN
             (SELECT id FROM idempotency_keys WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3)",
        )?
        .execute(params![ahead.first, ahead.last, number(limit as u64)])
}
