//! Deletes finished work whose retention has ended. It sweeps over the events, starting with the oldest, a bounded number at a
//! time, and checks each row again when it deletes it, because it may have been resent.
//!
//! Rows that are too recent when the sweep passes (still waiting, finished late, dead letters) are found by the next sweep from
//! the oldest event, which runs periodically.

use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::Id;
use breakerbox_storage::stored::codes::micros;
use breakerbox_storage::{BatchResult, QueueError, Retention};

use super::database::Database;
use super::error::get;
use super::idempotency::remembered_since;
use super::maintenance::bound;
use super::tombstones;

/// How many times more events are scanned at a time than rows may be deleted.
const LOOKS_FOR_EACH: usize = 8;
/// The interval between sweeps that begin with the oldest event.
const FROM_THE_START_EVERY: Duration = Duration::from_secs(3_600);
/// The time after which an unused lane for a dynamic URL is deleted, if nothing waits in it.
const UNUSED: Duration = Duration::from_secs(2 * 3_600);
/// The maximum number of lanes whose counters are deleted at a time.
const FOLDED: i64 = 10_000;
/// How long it is kept which tenants, endpoints and API keys changed. A process that was away for longer reads all of them.
const CHANGES_KEPT: Duration = Duration::from_secs(86_400);

/// The position of the scan for old rows, which continues with each call to prune.
#[derive(Default)]
pub(crate) struct Sweep {
    /// The id of the last event scanned.
    position: i64,
    /// When the next sweep from the oldest event begins.
    restart_at: Timestamp,
    keep: Option<Retention>,
}

impl Sweep {
    pub(crate) async fn run(
        &mut self,
        database: &Database,
        keep: Retention,
        limit: usize,
    ) -> Result<BatchResult, QueueError> {
        let now = database.now();
        let begins = now >= self.restart_at || self.keep != Some(keep);
        if begins {
            self.position = -1;
            self.restart_at = now + FROM_THE_START_EVERY;
            self.keep = Some(keep);
        }
        let (finished, failed) = (micros(now.before(keep.finished)), micros(now.before(keep.failed)));
        // A more recent event can't have finished long enough ago.
        let end = Id::first_at(now.before(keep.finished.min(keep.failed))).number();
        let looks = limit.saturating_mul(LOOKS_FOR_EACH);
        let rows = database
            .read(
                include_str!("sql/old_events.sql"),
                &[&self.position, &end, &bound(looks), &finished, &failed],
            )
            .await?;
        let mut position = self.position;
        let (mut events, mut deliveries, mut deletes) = (Vec::new(), Vec::new(), 0);
        let mut is_all = rows.len() < looks;
        for row in &rows {
            let (event, is_young): (i64, bool) = (get(row, 0)?, get(row, 1)?);
            let old: Vec<i64> = get(row, 2)?;
            // An event with a large fan-out may take several batches.
            let room = limit.saturating_sub(deliveries.len());
            let is_cut = old.len() > room;
            if !is_young || !old.is_empty() {
                deletes += old.len() + 1;
                deliveries.extend(old.into_iter().take(room));
                events.push(event);
            }
            if is_cut {
                is_all = false;
                break;
            }
            position = event;
            if deletes >= limit {
                is_all = false;
                break;
            }
        }
        let done = database.within(delete(database, &events, &deliveries, finished, failed)).await?;
        self.position = position;
        let mut batch = BatchResult { done, woken: Vec::new(), more: !is_all };
        batch.more |= database.within(tidy(database, limit, is_all, begins)).await?;
        Ok(batch)
    }
}

/// Deletes the rows that the scan found, except those that have changed since. Returns the number of deliveries deleted.
async fn delete(
    database: &Database,
    events: &Vec<i64>,
    deliveries: &Vec<i64>,
    finished: i64,
    failed: i64,
) -> Result<u64, QueueError> {
    if events.is_empty() {
        return Ok(0);
    }
    let transaction = database.begin().await?;
    let sql = include_str!("sql/delete_finished_if_old.sql");
    let done = transaction.query(sql, &[deliveries, &finished, &failed]).await?.len() as u64;
    transaction.execute(include_str!("sql/delete_events_if_done.sql"), &[events]).await?;
    transaction.commit().await?;
    Ok(done)
}

/// Deletes expired idempotency keys. If nothing else is left to prune, also deletes unused lanes, and the rows of deleted
/// tenants that nothing refers to. When a sweep begins, deletes counters that add up to nothing, which takes a scan of all
/// counters. Returns whether more may be left.
async fn tidy(database: &Database, limit: usize, is_last: bool, begins: bool) -> Result<bool, QueueError> {
    let (now, limit) = (database.now(), bound(limit));
    let transaction = database.begin().await?;
    let sql = include_str!("sql/forget_old_keys.sql");
    let keys = transaction.execute(sql, &[&remembered_since(now), &limit]).await?;
    let mut more = keys >= limit.unsigned_abs();
    if is_last && !more {
        let unused = micros(now.before(UNUSED));
        let sql = include_str!("sql/forget_unused_lanes.sql");
        let looked = transaction.query(sql, &[&unused, &limit, &micros(now)]).await?.len();
        more = looked as u64 >= limit.unsigned_abs();
        tombstones::forget(&transaction, limit).await?;
        let changes = micros(now.before(CHANGES_KEPT));
        transaction.execute("DELETE FROM directory_changes WHERE at < $1", &[&changes]).await?;
    }
    if begins {
        transaction.execute(include_str!("sql/forget_empty_backlogs.sql"), &[&FOLDED]).await?;
    }
    transaction.commit().await?;
    Ok(more)
}
