//! Lists events without their payloads. Runs of reminders are not listed: they are not submitted events.

use breakerbox_model::objects::{EventFilter, EventId, EventSummary, Id};
use breakerbox_storage::RecordsError;
use breakerbox_storage::records::cursors::{CursorPosition, position};
use breakerbox_storage::records::{Cursor, Page, PageOf};
use breakerbox_storage::stored::Unreadable;
use breakerbox_storage::stored::codes::{content_type_of, id, number, priority, whole};
use tokio_postgres::Row;

use super::PostgresRecords;
use super::scan::first_at_or_after;
use crate::columns::{column, listed, parsed_column, small};
use crate::error::get;

/// The maximum number of rows that are read for one page, so that a page takes at most a few milliseconds.
const LOOKS: u64 = 20_000;

impl PostgresRecords {
    /// Lists the events that match a filter, newest first.
    pub(super) async fn list_events(
        &self,
        filter: &EventFilter,
        of: &PageOf,
    ) -> Result<Page<EventSummary>, RecordsError> {
        let after = position::<Id>(of)?.map_or(i64::MAX, Id::number);
        let from = filter.from.map_or(0, first_at_or_after);
        let until = filter.until.map_or(i64::MAX, first_at_or_after).min(after);
        let transaction = self.database.begin_read().await?;
        let tenant: Option<i64> = match &filter.tenant {
            None => None,
            Some(tenant) => {
                let sql = include_str!("../sql/records/tenant_by_name.sql");
                let Some(row) = transaction.query_opt(sql, &[&tenant.as_str()]).await? else {
                    return Ok(Page { items: Vec::new(), next: None });
                };
                Some(get(&row, 0)?)
            }
        };
        let kind = filter.kind.as_ref().map(ToString::to_string);
        let (looks, limit) = (number(LOOKS), number(of.size() as u64));
        let sql = include_str!("../sql/records/list_events.sql");
        let rows = transaction.query(sql, &[&from, &until, &tenant, &kind, &looks, &limit]).await?;
        let ids = rows.iter().map(|row| get::<i64>(row, 0)).collect::<Result<Vec<_>, _>>()?;
        let next = if ids.len() == of.size() {
            ids.last().copied()
        } else {
            let sql = include_str!("../sql/records/end_of_events.sql");
            let end = transaction.query_opt(sql, &[&from, &until, &looks]).await?;
            end.map_or(Ok(None), |row| get(&row, 0))?
        };
        transaction.commit().await?;
        let items = rows.iter().zip(&ids);
        let items = items.filter_map(|(row, number)| listed(summary(row), "event", EventId(id(*number))));
        Ok(Page { items: items.collect(), next: next.map(|at| Cursor(id(at).write())) })
    }
}

fn summary(row: &Row) -> Result<EventSummary, Unreadable> {
    let event = EventId(id(column(row, "id")?));
    Ok(EventSummary {
        id: event,
        tenant: parsed_column(row, "tenant")?,
        kind: parsed_column(row, "kind")?,
        content_type: content_type_of(column(row, "content_type")?),
        payload_bytes: whole(column(row, "size")?),
        priority: priority(column(row, "priority")?),
        url: column::<Option<String>>(row, "url")?.map(Into::into),
        accepted_at: event.0.made_at(),
        deliveries: small(row, "fan_out")?,
    })
}
