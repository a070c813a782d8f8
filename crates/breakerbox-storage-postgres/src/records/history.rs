//! The history of circuits. Each change is stored once, identified by key and epoch.

use std::sync::Arc;

use async_trait::async_trait;
use breakerbox_core::{Epoch, Timestamp};
use breakerbox_model::objects::{CircuitOwner, PastChange};
use breakerbox_storage::records::cursors::{CursorPosition, page, position};
use breakerbox_storage::records::{ChangeFilter, Cursor, History, ObservedChange, Page, PageOf};
use breakerbox_storage::stored::codes::{micros, number, whole};
use breakerbox_storage::stored::{Unreadable, change as stored};
use breakerbox_storage::{Directory, QueueError, RecordsError};
use tokio_postgres::Row;

use super::PostgresRecords;
use crate::columns::{at, column, listed, unreadable};
use crate::notifications::{lock, notify};
use crate::outages::step_outage;

/// The maximum number of changes that are read for one page.
const LOOKS: usize = 2_000;

fn past_change(row: &Row) -> Result<PastChange, Unreadable> {
    let epoch = Epoch(whole(column(row, "epoch")?));
    let change = stored::read(column(row, "change")?, at(row, "at")?, epoch)?;
    Ok(PastChange { key: column::<String>(row, "key")?.into(), change })
}

/// Returns the number of the tenant that this circuit belongs to now, if any.
fn owner(directory: &Directory, key: &str) -> Option<i64> {
    directory.tenant(&CircuitOwner::of_key(key)?.tenant).map(|entry| entry.row)
}

#[async_trait]
impl History for PostgresRecords {
    async fn append_history(&self, changes: Vec<ObservedChange>) -> Result<u64, QueueError> {
        let work = self.begin().await?;
        // Several processes may observe the same changes, in another order.
        lock(&work.transaction).await?;
        let mut new = 0;
        for ObservedChange { change: PastChange { key, change }, notifications, outage } in changes {
            let text = stored::write(&change).map_err(|error| QueueError::Database(Arc::new(error)))?;
            let sql = include_str!("../sql/records/insert_change_unless_known.sql");
            let owner = owner(&self.directory, &key);
            let written = work
                .transaction
                .execute(sql, &[&&*key, &number(change.epoch.0), &micros(change.at), &text, &owner])
                .await?;
            if written == 0 {
                continue;
            }
            new += 1;
            for notification in &notifications {
                notify(&work.transaction, notification, &*self.directory).await?;
            }
            let directory = &*self.directory;
            step_outage(&work.transaction, &key, change.epoch, change.at, &outage, directory).await?;
        }
        work.commit(&self.directory).await?;
        Ok(new)
    }

    async fn circuit_history(&self, key: &str, of: &PageOf) -> Result<Page<PastChange>, RecordsError> {
        let before = position::<u64>(of)?.map_or(i64::MAX, number);
        let size = of.size();
        let sql = include_str!("../sql/records/changes_of_circuit.sql");
        let rows = self.database.read(sql, &[&key, &before, &number(size as u64 + 1)]).await?;
        let found = rows.iter().map(|row| past_change(row).map_err(unreadable)).collect::<Result<_, _>>()?;
        Ok(page(found, size, |past: &PastChange| past.change.epoch.0))
    }

    async fn history(&self, filter: &ChangeFilter, of: &PageOf) -> Result<Page<PastChange>, RecordsError> {
        let before: Option<(u64, u64, String)> = position(of)?;
        let (time, epoch, key) = before.unwrap_or((u64::MAX, u64::MAX, String::new()));
        let (time, epoch) = (number(time), number(epoch));
        let owner = match &filter.tenant {
            None => None,
            Some(tenant) => match self.look_up(|directory| directory.tenant(tenant)).await? {
                Some(entry) => Some(entry.row),
                None => return Ok(Page { items: Vec::new(), next: None }),
            },
        };
        let (from, until) = (filter.from.map_or(0, micros), filter.until.map_or(i64::MAX, micros));
        let size = of.size();
        let is_searched = filter.to.is_some() || (filter.circuit.is_some() && owner.is_some());
        let looks = if is_searched { LOOKS } else { size };
        let limit = number(looks as u64 + 1);
        let rows = match (&filter.circuit, owner) {
            (Some(circuit), _) => {
                let sql = include_str!("../sql/records/changes_of_circuit_between.sql");
                self.database.read(sql, &[&from, &until, &epoch, &&**circuit, &limit]).await?
            }
            (None, Some(owner)) => {
                let sql = include_str!("../sql/records/changes_of_owner.sql");
                self.database.read(sql, &[&from, &until, &time, &key, &epoch, &limit, &owner]).await?
            }
            (None, None) => {
                let sql = include_str!("../sql/records/changes_by_time.sql");
                self.database.read(sql, &[&from, &until, &time, &key, &epoch, &limit]).await?
            }
        };
        let mut page = Page { items: Vec::new(), next: None };
        let mut last = None;
        for (looked, row) in rows.iter().enumerate() {
            if page.items.len() == size || looked == looks {
                page.next = last;
                break;
            }
            let read = || {
                let place = (at(row, "at")?.as_micros(), whole(column(row, "epoch")?), column(row, "key")?);
                Ok::<(u64, u64, String), Unreadable>(place)
            };
            let place = read().map_err(unreadable)?;
            last = Some(Cursor(place.write()));
            let Some(past) = listed(past_change(row), "change of the circuit", &place.2) else { continue };
            // The index finds a circuit by its key alone, which may belong, or have belonged, to another tenant.
            let owned_by: Option<i64> = column(row, "owner").map_err(unreadable)?;
            if (owner.is_none() || owned_by == owner) && filter.to.is_none_or(|to| past.change.to == to) {
                page.items.push(past);
            }
        }
        Ok(page)
    }

    async fn prune_history(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError> {
        let work = self.begin().await?;
        let sql = include_str!("../sql/records/prune_changes.sql");
        let deleted = work.transaction.execute(sql, &[&micros(before), &number(limit as u64)]).await?;
        work.commit(&self.directory).await?;
        Ok(deleted)
    }
}
