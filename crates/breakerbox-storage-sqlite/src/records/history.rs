//! The history of circuits. Each change is stored once, identified by key and epoch.

use std::sync::Arc;

use async_trait::async_trait;
use breakerbox_core::{Epoch, Timestamp};
use breakerbox_model::objects::{CircuitOwner, PastChange};
use breakerbox_storage::records::{ChangeFilter, Cursor, History, ObservedChange, Page, PageOf};
use breakerbox_storage::stored::change as stored;
use breakerbox_storage::{Directory, QueueError, RecordsError};
use rusqlite::{Connection, Row, params};

use super::{SqliteRecords, listed};
use crate::columns::{micros, number, time, unreadable, whole};
use breakerbox_storage::records::cursors::{CursorPosition, page, position};

/// The maximum number of changes that are read for one page.
const LOOKS: usize = 2_000;

fn past_change(row: &Row<'_>) -> rusqlite::Result<PastChange> {
    let change = stored::read(row.get_ref(3)?.as_str()?, time(row.get(2)?), Epoch(whole(row.get(1)?)));
    Ok(PastChange { key: row.get(0)?, change: change.map_err(unreadable(3))? })
}

/// Scans one index, reads a bounded number of rows, and returns the matches and the position at which the scan
/// stopped.
fn scan(
    connection: &Connection,
    filter: &ChangeFilter,
    owner: Option<i64>,
    before: Option<(u64, u64, String)>,
    size: usize,
) -> rusqlite::Result<Page<PastChange>> {
    let (at, epoch, key) = before.unwrap_or((u64::MAX, u64::MAX, String::new()));
    let (at, epoch) = (number(at), number(epoch));
    let (from, until) = (filter.from.map_or(0, micros), filter.until.map_or(i64::MAX, micros));
    let mut statement = connection.prepare_cached(question(filter))?;
    let mut rows = match (&filter.circuit, owner) {
        (Some(circuit), _) => statement.query(params![from, until, epoch, circuit])?,
        (None, Some(owner)) => statement.query(params![from, until, at, key, epoch, owner])?,
        (None, None) => statement.query(params![from, until, at, key, epoch])?,
    };
    let mut page = Page { items: Vec::new(), next: None };
    let mut last = None;
    for looked in 0.. {
        let Some(row) = rows.next()? else { break };
        if page.items.len() == size || looked == LOOKS {
            page.next = last;
            break;
        }
        let (key, epoch, at) = (row.get::<_, String>(0)?, whole(row.get(1)?), time(row.get(2)?));
        last = Some(Cursor((at.as_micros(), epoch, key.clone()).write()));
        let Some(past) = listed(past_change(row), "change of the circuit", key)? else { continue };
        // The index finds a circuit by its key alone, which may belong, or have belonged, to another tenant.
        let is_theirs = owner.is_none() || row.get::<_, Option<i64>>(4)? == owner;
        if is_theirs && filter.to.is_none_or(|to| past.change.to == to) {
            page.items.push(past);
        }
    }
    Ok(page)
}

/// Returns the SQL query for a filter. Changes are ordered by epoch if the filter names a circuit, otherwise by time.
const fn question(filter: &ChangeFilter) -> &'static str {
    match (&filter.circuit, &filter.tenant) {
        (Some(_), _) => {
            "SELECT key, epoch, at, change, owner FROM circuit_changes
             WHERE key = ?4 AND epoch < ?3 AND at >= ?1 AND at < ?2 ORDER BY epoch DESC"
        }
        (None, Some(_)) => {
            "SELECT key, epoch, at, change, owner FROM circuit_changes INDEXED BY changes_of_owner
             WHERE owner = ?6 AND at >= ?1 AND at < ?2 AND (at, key, epoch) < (?3, ?4, ?5)
             ORDER BY at DESC, key DESC, epoch DESC"
        }
        (None, None) => {
            "SELECT key, epoch, at, change, owner FROM circuit_changes INDEXED BY changes_by_time
             WHERE at >= ?1 AND at < ?2 AND (at, key, epoch) < (?3, ?4, ?5)
             ORDER BY at DESC, key DESC, epoch DESC"
        }
    }
}

/// Returns the number of the tenant that this circuit belongs to now, if any.
fn owner(directory: &Directory, key: &str) -> Option<i64> {
    directory.tenant(&CircuitOwner::of_key(key)?.tenant).map(|entry| entry.row)
}

#[async_trait]
impl History for SqliteRecords {
    async fn append_history(&self, changes: Vec<ObservedChange>) -> Result<u64, QueueError> {
        let directory = Arc::clone(&self.directory);
        self.database
            .write(move |transaction| {
                let mut new = 0;
                for ObservedChange { change: PastChange { key, change }, notifications, outage } in changes {
                    let stored =
                        stored::write(&change).map_err(|error| QueueError::Database(Arc::new(error)))?;
                    let written = transaction
                        .connection()
                        .prepare_cached(
                            "INSERT OR IGNORE INTO circuit_changes (key, epoch, at, change, owner) VALUES (?1, ?2, ?3, ?4, ?5)",
                        )?
                        .execute(params![key, number(change.epoch.0), micros(change.at), stored, owner(&directory, &key)])?;
                    if written == 0 {
                        continue;
                    }
                    new += 1;
                    for notification in &notifications {
                        transaction.notify(notification, &*directory)?;
                    }
                    transaction.step_outage(&key, change.epoch, change.at, &outage, &*directory)?;
                }
                Ok(new)
            })
            .await
    }

    async fn circuit_history(&self, key: &str, of: &PageOf) -> Result<Page<PastChange>, RecordsError> {
        let before = position::<u64>(of)?;
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

    async fn history(&self, filter: &ChangeFilter, of: &PageOf) -> Result<Page<PastChange>, RecordsError> {
        let before: Option<(u64, u64, String)> = position(of)?;
        let (filter, size) = (filter.clone(), of.size());
        let owner = match &filter.tenant {
            None => None,
            Some(tenant) => match self.directory.tenant(tenant) {
                Some(entry) => Some(entry.row),
                None => return Ok(Page { items: Vec::new(), next: None }),
            },
        };
        self.database.read(move |connection| Ok(scan(connection, &filter, owner, before, size)?)).await
    }

    async fn prune_history(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError> {
        self.database
            .write(move |transaction| {
                let mut statement = transaction.connection().prepare_cached(
                    "DELETE FROM circuit_changes WHERE (key, epoch) IN
                     (SELECT key, epoch FROM circuit_changes INDEXED BY changes_by_time WHERE at < ?1 ORDER BY at LIMIT ?2)",
                )?;
                Ok(statement.execute(params![micros(before), number(limit as u64)])? as u64)
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_goes_along_one_index_and_sorts_nothing() {
        let connection = crate::migrations::in_memory();
        let tenant = Some("acme".parse().unwrap());
        for (filter, expected) in [
            (ChangeFilter::default(), "USING INDEX changes_by_time (at>? AND at<?)"),
            (
                ChangeFilter { tenant, ..ChangeFilter::default() },
                "USING INDEX changes_of_owner (owner=? AND at>? AND at<?)",
            ),
            (
                ChangeFilter { circuit: Some("acme".into()), ..ChangeFilter::default() },
                "USING PRIMARY KEY (key=? AND epoch<?)",
            ),
        ] {
            let mut statement =
                connection.prepare(&format!("EXPLAIN QUERY PLAN {}", question(&filter))).unwrap();
            let mut rows = statement.raw_query();
            let mut plan = Vec::new();
            while let Some(row) = rows.next().unwrap() {
                plan.push(row.get::<_, String>(3).unwrap());
            }
            assert!(plan.len() == 1 && plan[0].ends_with(expected), "{plan:?}");
        }
    }
}
