//! Inserts rows: an event, its payload, and its deliveries.

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{Priority, RunId};
use rusqlite::{Connection, params};

use super::columns::{content_type, level, micros, number};

pub(super) struct NewEventRow<'e> {
    pub(super) id: i64,
    pub(super) tenant: i64,
    pub(super) kind: &'e str,
    pub(super) content_type: &'e str,
    pub(super) priority: Priority,
    pub(super) fan_out: u32,
    pub(super) payload: &'e [u8],
    pub(super) not_before: Option<Timestamp>,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) url: Option<&'e str>,
    pub(super) run: Option<NewRun>,
}

/// The reminder run that an event is for.
#[derive(Clone, Copy)]
pub(super) struct NewRun {
    pub(super) id: RunId,
    pub(super) scheduled_at: Timestamp,
    pub(super) skipped: u32,
    /// Whether the run serves the occurrence that is the latest when the run is sent, rather than when it is
    /// fired.
    pub(super) latest: bool,
}

/// Inserts an event and its payload.
pub(super) fn event(connection: &Connection, row: &NewEventRow<'_>) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO events (id, tenant, kind, content_type, priority, fan_out, size, not_before, expires_at, url,
                 reminder, run, scheduled_at, skipped, latest)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        )?
        .execute(params![
            row.id,
            row.tenant,
            row.kind,
            content_type(row.content_type),
            level(row.priority),
            row.fan_out,
            number(row.payload.len() as u64),
            row.not_before.map(micros),
            row.expires_at.map(micros),
            row.url,
            row.run.map(|run| run.id.reminder.number()),
            row.run.map(|run| run.id.number),
            row.run.map(|run| micros(run.scheduled_at)),
            row.run.map(|run| run.skipped),
            row.run.map(|run| run.latest),
        ])?;
    connection
        .prepare_cached("INSERT INTO payloads (event, payload) VALUES (?1, ?2)")?
        .execute(params![row.id, row.payload])?;
    Ok(())
}

#[derive(Clone, Copy)]
pub(super) struct NewDeliveryRow {
    pub(super) id: i64,
    pub(super) event: i64,
    pub(super) tenant: i64,
    pub(super) lane: i64,
    /// The value for the column `state`.
    pub(super) state: i64,
    pub(super) priority: Priority,
    pub(super) due_at: Timestamp,
    pub(super) expires_at: Option<Timestamp>,
    /// When the delivery ended, if it ended before it was written.
    pub(super) finished_at: Option<Timestamp>,
}

pub(super) fn delivery(connection: &Connection, row: NewDeliveryRow) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO deliveries
                 (id, event, tenant, lane, state, priority, attempts, requests, due_at, failed_probe, expires_at, finished_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, ?7, 0, ?8, ?9)",
        )?
        .execute(params![
            row.id,
            row.event,
            row.tenant,
            row.lane,
            row.state,
            level(row.priority),
            micros(row.due_at),
            row.expires_at.map(micros),
            row.finished_at.map(micros),
        ])?;
    Ok(())
}
