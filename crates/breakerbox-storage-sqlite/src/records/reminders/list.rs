//! Lists reminders and their runs.

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{DeliveryId, Reminder, ReminderId, Run, RunId};
use breakerbox_storage::records::{Cursor, Page, ReminderFilter};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};

use super::super::{deliveries, listed};
use super::REMINDER;
use crate::columns::{id, number, time};
use crate::reminders::stored::{COLUMNS, reminder, state_number};
use breakerbox_storage::records::cursors::{CursorPosition, page};

/// The maximum number of rows that are read for one page.
const LOOKS: usize = 20_000;

/// Returns a page of the reminders that match a filter, newest first. Reads at most [`LOOKS`] rows.
pub(super) fn list(
    connection: &Connection,
    filter: &ReminderFilter,
    before: i64,
    size: usize,
) -> rusqlite::Result<Page<Reminder>> {
    // Few of a tenant's reminders have the same reference, even if it has many reminders.
    let is_named = filter.reference.is_some() && filter.tenant.is_some();
    let index = if is_named { "INDEXED BY reminders_by_reference" } else { "" };
    let mut sql = format!(
        "SELECT {COLUMNS} FROM reminders r {index} JOIN tenants t ON t.row = r.tenant WHERE r.id < ? AND t.deleted_at IS NULL"
    );
    let mut values = vec![Value::from(before)];
    if let Some(tenant) = &filter.tenant {
        let row: Option<i64> = connection
            .prepare_cached("SELECT row FROM tenants WHERE id = ?1 AND deleted_at IS NULL")?
            .query_row([tenant.as_str()], |row| row.get(0))
            .optional()?;
        let Some(row) = row else { return Ok(Page { items: Vec::new(), next: None }) };
        sql.push_str(" AND r.tenant = ?");
        values.push(row.into());
    }
    if let Some(reference) = filter.reference.as_ref().filter(|_| is_named) {
        sql.push_str(" AND r.reference = ?");
        values.push(reference.clone().into());
    }
    sql.push_str(" ORDER BY r.id DESC LIMIT ?");
    let is_searched = filter.state.is_some() || filter.reference.is_some();
    let looks = if is_searched { LOOKS } else { size + 1 };
    values.push(number(looks as u64).into());
    let state = filter.state.map(state_number);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let (mut items, mut looked, mut last) = (Vec::new(), 0, None);
    while let Some(row) = rows.next()? {
        if items.len() == size {
            return Ok(Page { items, next: last.map(|last: i64| Cursor(id(last).write())) });
        }
        looked += 1;
        last = Some(row.get(0)?);
        let is_in_state = || state.is_none_or(|state| row.get::<_, i64>(5).is_ok_and(|found| found == state));
        let has_name = || {
            let wanted = filter.reference.as_deref();
            wanted.is_none_or(|wanted| row.get_ref(3).is_ok_and(|found| found.as_str() == Ok(wanted)))
        };
        if is_in_state() && has_name() {
            items.extend(listed(reminder(row), REMINDER, ReminderId(id(row.get(0)?)))?);
        }
    }
    let next = last.filter(|_| looked == looks).map(|last| Cursor(id(last).write()));
    Ok(Page { items, next })
}

pub(super) fn runs(
    connection: &Connection,
    wanted: ReminderId,
    before: i64,
    size: usize,
) -> rusqlite::Result<Page<Run>> {
    // The id of a run's delivery is the one after its event's id.
    let mut statement = connection.prepare_cached(
        "SELECT id, run, scheduled_at, skipped, (SELECT started_at FROM attempts WHERE delivery = e.id + 1 AND number = 1)
         FROM events e INDEXED BY runs WHERE reminder = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3",
    )?;
    let rows = statement.query_map(params![wanted.number(), before, number(size as u64 + 1)], |row| {
        Ok(RunRow {
            event: row.get(0)?,
            run: row.get(1)?,
            scheduled_at: time(row.get(2)?),
            skipped: row.get(3)?,
            sent_at: row.get::<_, Option<i64>>(4)?.map(time),
        })
    })?;
    let rows = page(rows.collect::<Result<Vec<_>, _>>()?, size, |row: &RunRow| id(row.event));
    let mut items = Vec::with_capacity(rows.items.len());
    for row in rows.items {
        let run = DeliveryId(id(row.event + 1));
        let shown = deliveries::show(connection, run.number()).transpose();
        let shown = shown.map(|shown| listed(shown, deliveries::DELIVERY, run)).transpose()?;
        let Some(delivery) = shown.flatten() else { continue };
        items.push(Run {
            id: RunId { reminder: wanted, number: row.run },
            scheduled_at: row.scheduled_at,
            skipped: row.skipped,
            sent_at: row.sent_at,
            delivery,
        });
    }
    Ok(Page { items, next: rows.next })
}

struct RunRow {
    event: i64,
    run: u32,
    scheduled_at: Timestamp,
    skipped: u32,
    sent_at: Option<Timestamp>,
}
