//! Lists reminders and their runs.

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{Reminder, ReminderId, Run, RunId};
use breakerbox_storage::QueueError;
use breakerbox_storage::records::cursors::{CursorPosition, page};
use breakerbox_storage::records::{Cursor, Page, ReminderFilter};
use breakerbox_storage::stored::Unreadable;
use breakerbox_storage::stored::codes::{id, number};
use breakerbox_storage::stored::reminder::state_number;
use tokio_postgres::Row;

use super::super::deliveries::show_all;
use super::{REMINDER, reminder};
use crate::columns::{at, column, listed, maybe_at, small, unreadable};
use crate::database::Transaction;
use crate::error::get;

/// The maximum number of rows that are read for one page.
const LOOKS: usize = 20_000;

/// Returns a page of the reminders that match a filter, newest first. Reads at most [`LOOKS`] rows.
pub(super) async fn list(
    transaction: &Transaction,
    filter: &ReminderFilter,
    before: i64,
    size: usize,
) -> Result<Page<Reminder>, QueueError> {
    let tenant: Option<i64> = match &filter.tenant {
        None => None,
        Some(tenant) => {
            let sql = include_str!("../../sql/records/tenant_by_name.sql");
            let Some(row) = transaction.query_opt(sql, &[&tenant.as_str()]).await? else {
                return Ok(Page { items: Vec::new(), next: None });
            };
            Some(get(&row, 0)?)
        }
    };
    // Few of a tenant's reminders have the same reference, even if it has many reminders.
    let condition = match (tenant, &filter.reference) {
        (Some(_), Some(_)) => "tenant = $2 AND reference = $4",
        (Some(_), None) => "tenant = $2",
        (None, _) => "true",
    };
    let state = filter.state.map(state_number);
    let (looks, limit) = (number(LOOKS as u64), number(size as u64 + 1));
    let sql = include_str!("../../sql/records/list_reminders.sql").replace("{condition}", condition);
    let rows =
        transaction.query(&sql, &[&before, &tenant, &state, &filter.reference, &looks, &limit]).await?;
    let ids = rows.iter().map(|row| get::<i64>(row, 0)).collect::<Result<Vec<_>, _>>()?;
    let next = if ids.len() > size {
        ids.get(size - 1).copied()
    } else {
        let sql = include_str!("../../sql/records/end_of_reminders.sql").replace("{condition}", condition);
        let end = transaction.query_opt(&sql, &[&before, &tenant, &looks, &filter.reference]).await?;
        end.map_or(Ok(None), |row| get(&row, 0))?
    };
    let shown = rows.iter().zip(&ids).take(size);
    let items = shown.filter_map(|(row, number)| listed(reminder(row), REMINDER, ReminderId(id(*number))));
    Ok(Page { items: items.collect(), next: next.map(|last| Cursor(id(last).write())) })
}

/// Returns a page of a reminder's runs, newest first.
pub(super) async fn runs(
    transaction: &Transaction,
    wanted: ReminderId,
    before: i64,
    size: usize,
) -> Result<Page<Run>, QueueError> {
    let sql = include_str!("../../sql/records/list_runs.sql");
    let rows = transaction.query(sql, &[&wanted.number(), &before, &number(size as u64 + 1)]).await?;
    let rows = rows.iter().map(|row| run(row).map_err(unreadable)).collect::<Result<Vec<_>, _>>()?;
    let rows = page(rows, size, |row: &RunRow| id(row.event));
    // The id of a run's delivery is the one after its event's id.
    let deliveries: Vec<i64> = rows.items.iter().map(|row| row.event + 1).collect();
    let shown = show_all(transaction, &deliveries).await?;
    let runs = rows.items.into_iter().zip(shown).filter_map(|(row, delivery)| {
        Some(Run {
            id: RunId { reminder: wanted, number: row.run },
            scheduled_at: row.scheduled_at,
            skipped: row.skipped,
            sent_at: row.sent_at,
            delivery: delivery?,
        })
    });
    Ok(Page { items: runs.collect(), next: rows.next })
}

struct RunRow {
    event: i64,
    run: u32,
    scheduled_at: Timestamp,
    skipped: u32,
    sent_at: Option<Timestamp>,
}

fn run(row: &Row) -> Result<RunRow, Unreadable> {
    Ok(RunRow {
        event: column(row, "id")?,
        run: small(row, "run")?,
        scheduled_at: at(row, "scheduled_at")?,
        skipped: small(row, "skipped")?,
        sent_at: maybe_at(row, "sent_at")?,
    })
}
