//! What happened to circuits. Each change once, by key and epoch.

use async_trait::async_trait;
use breakerbox_core::{Cause, Change, Epoch, Mode, Status, Timestamp};
use rusqlite::{Row, params};
use serde::{Deserialize, Serialize};

use super::SqliteRecords;
use super::cursors::{page, place};
use crate::objects::PastChange;
use crate::queue::records::{History, Page, PageOf};
use crate::queue::sqlite::columns::{micros, number, time, whole};
use crate::queue::{QueueError, RecordsError};

/// A change as it is kept, without what its columns say.
#[derive(Serialize, Deserialize)]
struct Kept {
    from: String,
    to: String,
    cause: Cause,
    retry_at: Option<Timestamp>,
    trips: u32,
    mode: Mode,
}

fn past_change(row: &Row<'_>) -> rusqlite::Result<PastChange> {
    let unreadable = |error: serde_json::Error| {
        rusqlite::Error::FromSqlConversionFailure(3, rusqlite::types::Type::Text, error.into())
    };
    let kept: Kept = serde_json::from_str(row.get_ref(3)?.as_str()?).map_err(unreadable)?;
    Ok(PastChange {
        key: row.get(0)?,
        change: Change {
            from: status(&kept.from),
            to: status(&kept.to),
            at: time(row.get(2)?),
            epoch: Epoch(whole(row.get(1)?)),
            cause: kept.cause,
            retry_at: kept.retry_at,
            trips: kept.trips,
            mode: kept.mode,
        },
    })
}

fn status(name: &str) -> Status {
    let known = [Status::Closed, Status::Open, Status::HalfOpen, Status::Disabled];
    known.into_iter().find(|status| status.name() == name).unwrap_or(Status::Closed)
}

#[async_trait]
impl History for SqliteRecords {
    async fn append_history(&self, changes: Vec<PastChange>) -> Result<u64, QueueError> {
        self.database
            .write(move |writing| {
                let mut statement = writing.connection().prepare_cached(
                    "INSERT OR IGNORE INTO circuit_changes (key, epoch, at, change) VALUES (?1, ?2, ?3, ?4)",
                )?;
                let mut new = 0;
                for PastChange { key, change } in changes {
                    let kept = Kept {
                        from: change.from.name().to_owned(),
                        to: change.to.name().to_owned(),
                        cause: change.cause,
                        retry_at: change.retry_at,
                        trips: change.trips,
                        mode: change.mode,
                    };
                    let kept = serde_json::to_string(&kept)
                        .map_err(|error| QueueError::Database(std::sync::Arc::new(error)))?;
                    new += statement.execute(params![key, number(change.epoch.0), micros(change.at), kept])?
                        as u64;
                }
                Ok(new)
            })
            .await
    }

    async fn circuit_history(&self, key: &str, of: &PageOf) -> Result<Page<PastChange>, RecordsError> {
        let before = place::<u64>(of)?;
        let (key, size) = (key.to_owned(), of.size());
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT key, epoch, at, change FROM circuit_changes
                     WHERE key = ?1 AND epoch < ?2 ORDER BY epoch DESC LIMIT ?3",
                )?;
                let before = before.map_or(i64::MAX, number);
                let rows = statement.query_map(params![key, before, number(size as u64 + 1)], past_change)?;
                Ok(page(rows.collect::<Result<_, _>>()?, size, |past: &PastChange| past.change.epoch.0))
            })
            .await
    }

    async fn history(
        &self,
        from: Option<Timestamp>,
        until: Option<Timestamp>,
        of: &PageOf,
    ) -> Result<Page<PastChange>, RecordsError> {
        let before: Option<(u64, u64, String)> = place(of)?;
        let size = of.size();
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT key, epoch, at, change FROM circuit_changes INDEXED BY changes_by_time
                     WHERE at >= ?1 AND at < ?2 AND (at, key, epoch) < (?3, ?4, ?5)
                     ORDER BY at DESC, key DESC, epoch DESC LIMIT ?6",
                )?;
                let (at, epoch, key) = before.unwrap_or((u64::MAX, 0, String::new()));
                let rows = statement.query_map(
                    params![
                        from.map_or(0, micros),
                        until.map_or(i64::MAX, micros),
                        number(at),
                        key,
                        number(epoch),
                        number(size as u64 + 1)
                    ],
                    past_change,
                )?;
                let place = |past: &PastChange| {
                    (past.change.at.as_micros(), past.change.epoch.0, past.key.to_string())
                };
                Ok(page(rows.collect::<Result<_, _>>()?, size, place))
            })
            .await
    }

    async fn prune_history(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError> {
        self.database
            .write(move |writing| {
                let mut statement = writing.connection().prepare_cached(
                    "DELETE FROM circuit_changes WHERE (key, epoch) IN
                     (SELECT key, epoch FROM circuit_changes INDEXED BY changes_by_time WHERE at < ?1 ORDER BY at LIMIT ?2)",
                )?;
                Ok(statement.execute(params![micros(before), number(limit as u64)])? as u64)
            })
            .await
    }
}
