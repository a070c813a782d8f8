//! Lists events without their payloads. Runs of reminders are not listed: they are not submitted events.

use breakerbox_model::objects::{EventFilter, EventId, EventSummary, Id};
use breakerbox_storage::RecordsError;
use breakerbox_storage::records::cursors::{CursorPosition, position};
use breakerbox_storage::records::{Cursor, Page, PageOf};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::scan::first_at_or_after;
use super::{SqliteRecords, listed};
use crate::columns::{content_type_of, id, parsed, priority, whole};

/// The maximum number of rows that are read for one page, so that a page takes at most a few milliseconds.
const LOOKS: usize = 20_000;

impl SqliteRecords {
    /// Lists the events that match a filter, newest first.
    pub(super) async fn list_events(
        &self,
        filter: &EventFilter,
        of: &PageOf,
    ) -> Result<Page<EventSummary>, RecordsError> {
        let after = position::<Id>(of)?.map(Id::number);
        let (filter, size) = (filter.clone(), of.size());
        self.database.read(move |connection| Ok(list(connection, &filter, after, size)?)).await
    }
}

fn list(
    connection: &Connection,
    filter: &EventFilter,
    after: Option<i64>,
    size: usize,
) -> rusqlite::Result<Page<EventSummary>> {
    let mut tenant: Option<i64> = None;
    if let Some(name) = &filter.tenant {
        tenant = connection
            .prepare_cached("SELECT row FROM tenants WHERE id = ?1 AND deleted_at IS NULL")?
            .query_row([name.as_str()], |row| row.get(0))
            .optional()?;
        if tenant.is_none() {
            return Ok(Page { items: Vec::new(), next: None });
        }
    }
    let from = filter.from.map_or(0, first_at_or_after);
    let until = filter.until.map_or(i64::MAX, first_at_or_after).min(after.unwrap_or(i64::MAX));
    let mut statement = connection.prepare_cached(
        "SELECT e.id, t.id, e.kind, e.content_type, e.size, e.priority, e.url, e.fan_out, e.tenant, e.reminder IS NOT NULL
         FROM events e NOT INDEXED JOIN tenants t ON t.row = e.tenant WHERE e.id >= ?1 AND e.id < ?2 ORDER BY e.id DESC",
    )?;
    let mut rows = statement.query(params![from, until])?;
    let mut items = Vec::new();
    let mut last = None;
    for _ in 0..LOOKS {
        if items.len() == size {
            break;
        }
        let Some(row) = rows.next()? else { return Ok(Page { items, next: None }) };
        let event: i64 = row.get(0)?;
        last = Some(event);
        if row.get(9)? || tenant.is_some_and(|tenant| row.get(8) != Ok(tenant)) {
            continue;
        }
        if let Some(wanted) = &filter.kind
            && row.get_ref(2)?.as_str()? != wanted.as_str()
        {
            continue;
        }
        items.extend(listed(summary(row), "event", EventId(id(event)))?);
    }
    Ok(Page { items, next: last.map(|at| Cursor(id(at).write())) })
}

fn summary(row: &Row<'_>) -> rusqlite::Result<EventSummary> {
    let event = EventId(id(row.get(0)?));
    Ok(EventSummary {
        id: event,
        tenant: parsed(1, row.get_ref(1)?.as_str()?)?,
        kind: parsed(2, row.get_ref(2)?.as_str()?)?,
        content_type: content_type_of(row.get(3)?),
        payload_bytes: whole(row.get(4)?),
        priority: priority(row.get(5)?),
        url: row.get(6)?,
        accepted_at: event.0.made_at(),
        deliveries: row.get(7)?,
    })
}
