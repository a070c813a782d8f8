//! The unfinished deliveries of lanes. The writer updates the counts with every commit.

use async_trait::async_trait;
use breakerbox_model::objects::{Backlog, Id, LaneId, TenantId};
use breakerbox_storage::RecordsError;
use breakerbox_storage::records::{Cursor, LaneBacklog, LaneBacklogs, NextDelivery, Page, PageOf};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{SqliteRecords, listed};
use crate::columns::{id, parsed, time, whole};
use breakerbox_storage::records::cursors::{CursorPosition, position};

/// The maximum number of lanes that are read for one page.
const LOOKS: usize = 20_000;

/// Selects the delivery of one priority that is due first.
const FIRST_DUE: &str = "SELECT due_at, attempts FROM deliveries INDEXED BY waiting
    WHERE state = 0 AND lane = ?1 AND priority = ?2 ORDER BY due_at LIMIT 1";

const COLUMNS: &str =
    "b.lane, t.id, l.key, b.count, b.bytes, b.tenant FROM backlogs b JOIN tenants t ON t.row = b.tenant
    LEFT JOIN lanes l ON l.id = b.lane";

/// Reads a lane without its next delivery.
fn backlog(row: &Row<'_>) -> rusqlite::Result<LaneBacklog> {
    Ok(LaneBacklog {
        lane: LaneId(id(row.get(0)?)),
        tenant: parsed(1, row.get_ref(1)?.as_str()?)?,
        dynamic: row.get(2)?,
        unfinished: Backlog { count: whole(row.get(3)?), bytes: whole(row.get(4)?) },
        next: None,
    })
}

/// Returns the waiting delivery of a lane that is due first.
fn next(connection: &Connection, lane: LaneId) -> rusqlite::Result<Option<NextDelivery>> {
    let mut statement = connection.prepare_cached(FIRST_DUE)?;
    let mut first: Option<NextDelivery> = None;
    for level in 0..4 {
        let found = statement
            .query_row(params![lane.number(), level], |row| {
                Ok(NextDelivery { due_at: time(row.get(0)?), attempts: row.get(1)? })
            })
            .optional()?;
        first = first.into_iter().chain(found).min_by_key(|next| next.due_at);
    }
    Ok(first)
}

fn is_closed(connection: &Connection, lane: LaneId) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM closed_lanes WHERE lane = ?1")?.exists([lane.number()])
}

fn list(
    connection: &Connection,
    owner: Option<i64>,
    before: i64,
    size: usize,
) -> rusqlite::Result<Page<LaneBacklog>> {
    let mut statement =
        connection.prepare_cached(&format!("SELECT {COLUMNS} WHERE b.lane < ?1 ORDER BY b.lane DESC"))?;
    let mut rows = statement.query([before])?;
    let mut page = Page { items: Vec::new(), next: None };
    let mut last = None;
    for looked in 0.. {
        let Some(row) = rows.next()? else { break };
        if page.items.len() == size || looked == LOOKS {
            page.next = last;
            break;
        }
        let lane = id(row.get(0)?);
        last = Some(Cursor(lane.write()));
        if owner.is_some_and(|owner| row.get(5) != Ok(owner)) || is_closed(connection, LaneId(lane))? {
            continue;
        }
        if let Some(found) = listed(backlog(row), "lane", LaneId(lane))? {
            page.items.push(LaneBacklog { next: next(connection, found.lane)?, ..found });
        }
    }
    Ok(page)
}

#[async_trait]
impl LaneBacklogs for SqliteRecords {
    async fn lane_backlogs(
        &self,
        tenant: Option<&TenantId>,
        of: &PageOf,
    ) -> Result<Page<LaneBacklog>, RecordsError> {
        let before = position::<Id>(of)?.map_or(i64::MAX, Id::number);
        let size = of.size();
        let owner = match tenant.map(|tenant| self.directory.tenant(tenant)) {
            None => None,
            Some(Some(entry)) => Some(entry.row),
            Some(None) => return Ok(Page { items: Vec::new(), next: None }),
        };
        self.database.read(move |connection| Ok(list(connection, owner, before, size)?)).await
    }

    async fn backlogs_of(&self, lanes: &[LaneId]) -> Result<Vec<Option<LaneBacklog>>, RecordsError> {
        let lanes = lanes.to_vec();
        self.database
            .read(move |connection| {
                let mut statement =
                    connection.prepare_cached(&format!("SELECT {COLUMNS} WHERE b.lane = ?1"))?;
                let mut found = Vec::with_capacity(lanes.len());
                for lane in lanes {
                    let stored = statement.query_row([lane.number()], backlog).optional();
                    let stored = listed(stored, "lane", lane)?.flatten();
                    let stored = if is_closed(connection, lane)? { None } else { stored };
                    let with_next = |found: LaneBacklog| {
                        Ok::<_, rusqlite::Error>(LaneBacklog { next: next(connection, lane)?, ..found })
                    };
                    found.push(stored.map(with_next).transpose()?);
                }
                Ok(found)
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_and_its_lanes_are_found_without_a_scan() {
        let connection = crate::migrations::in_memory();
        for (sql, values) in [
            (format!("SELECT {COLUMNS} WHERE b.lane < ?1 ORDER BY b.lane DESC"), vec![i64::MAX]),
            (format!("SELECT {COLUMNS} WHERE b.lane = ?1"), vec![7]),
            (FIRST_DUE.to_owned(), vec![7, 0]),
        ] {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let plan: Vec<String> = statement
                .query_map(rusqlite::params_from_iter(values), |row| row.get("detail"))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            assert!(plan.iter().all(|detail| detail.starts_with("SEARCH")), "{sql}\n{plan:?}");
        }
    }
}
