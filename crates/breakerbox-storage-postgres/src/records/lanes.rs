//! The unfinished deliveries of lanes. Every transaction that adds or ends deliveries updates the counts.

use std::collections::HashMap;

use async_trait::async_trait;
use breakerbox_model::objects::{Backlog, Id, LaneId, TenantId};
use breakerbox_storage::RecordsError;
use breakerbox_storage::records::cursors::{CursorPosition, position};
use breakerbox_storage::records::{Cursor, LaneBacklog, LaneBacklogs, NextDelivery, Page, PageOf};
use breakerbox_storage::stored::Unreadable;
use breakerbox_storage::stored::codes::{id, number, time, whole};
use tokio_postgres::Row;

use super::PostgresRecords;
use crate::columns::{column, listed, parsed_column, small};
use crate::error::get;

/// The maximum number of lanes that are read for one page.
const LOOKS: usize = 20_000;

fn backlog(row: &Row) -> Result<LaneBacklog, Unreadable> {
    let next = match column::<Option<i64>>(row, "due_at")? {
        Some(due_at) => Some(NextDelivery { due_at: time(due_at), attempts: small(row, "attempts")? }),
        None => None,
    };
    Ok(LaneBacklog {
        lane: LaneId(id(column(row, "lane")?)),
        tenant: parsed_column(row, "tenant")?,
        dynamic: column::<Option<String>>(row, "key")?.map(Into::into),
        unfinished: Backlog { count: whole(column(row, "count")?), bytes: whole(column(row, "bytes")?) },
        next,
    })
}

#[async_trait]
impl LaneBacklogs for PostgresRecords {
    async fn lane_backlogs(
        &self,
        tenant: Option<&TenantId>,
        of: &PageOf,
    ) -> Result<Page<LaneBacklog>, RecordsError> {
        let before = position::<Id>(of)?.map_or(i64::MAX, Id::number);
        let owner = match tenant {
            None => None,
            Some(tenant) => match self.look_up(|directory| directory.tenant(tenant)).await? {
                Some(entry) => Some(entry.row),
                None => return Ok(Page { items: Vec::new(), next: None }),
            },
        };
        let size = of.size();
        let transaction = self.database.begin_read().await?;
        let sql = include_str!("../sql/records/list_lanes.sql");
        let rows = transaction
            .query(sql, &[&before, &owner, &number(LOOKS as u64), &number(size as u64 + 1)])
            .await?;
        let lanes = rows.iter().map(|row| get::<i64>(row, 0)).collect::<Result<Vec<_>, _>>()?;
        let next = if lanes.len() > size {
            lanes.get(size - 1).copied()
        } else {
            let sql = include_str!("../sql/records/end_of_lanes.sql");
            let end = transaction.query_opt(sql, &[&before, &owner, &number(LOOKS as u64)]).await?;
            end.map_or(Ok(None), |row| get(&row, 0))?
        };
        transaction.commit().await?;
        let shown = rows.iter().zip(&lanes).take(size);
        let items = shown.filter_map(|(row, lane)| listed(backlog(row), "lane", LaneId(id(*lane)))).collect();
        Ok(Page { items, next: next.map(|lane| Cursor(id(lane).write())) })
    }

    async fn backlogs_of(&self, lanes: &[LaneId]) -> Result<Vec<Option<LaneBacklog>>, RecordsError> {
        let numbers: Vec<i64> = lanes.iter().map(|lane| lane.number()).collect();
        let sql = include_str!("../sql/records/lanes_by_id.sql");
        let mut found = HashMap::new();
        for row in self.database.read(sql, &[&numbers]).await? {
            let lane: i64 = get(&row, 0)?;
            found.insert(lane, listed(backlog(&row), "lane", LaneId(id(lane))));
        }
        Ok(numbers.iter().map(|lane| found.get(lane).cloned().flatten()).collect())
    }
}
