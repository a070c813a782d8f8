//! Each tenant's number of unfinished reminders, and the total size of their payloads. The totals are maintained,
//! because each new reminder is checked against a limit.

use breakerbox_model::objects::Backlog;
use rusqlite::{Connection, OptionalExtension, params};

use crate::columns::{number, whole};

pub(crate) fn of(connection: &Connection, tenant: i64) -> rusqlite::Result<Backlog> {
    let found = connection
        .prepare_cached("SELECT count, bytes FROM reminder_totals WHERE tenant = ?1")?
        .query_row([tenant], |row| Ok(Backlog { count: whole(row.get(0)?), bytes: whole(row.get(1)?) }))
        .optional()?;
    Ok(found.unwrap_or(Backlog { count: 0, bytes: 0 }))
}

/// Adds a reminder to its tenant's counts.
pub(crate) fn add(connection: &Connection, tenant: i64, bytes: u64) -> rusqlite::Result<()> {
    change(connection, tenant, 1, number(bytes))
}

/// Removes a reminder from its tenant's counts.
pub(crate) fn remove(connection: &Connection, tenant: i64, bytes: u64) -> rusqlite::Result<()> {
    change(connection, tenant, -1, -number(bytes))
}

/// Updates a tenant's byte count when a reminder's payload changes its size.
pub(crate) fn resize(connection: &Connection, tenant: i64, was: u64, is: u64) -> rusqlite::Result<()> {
    change(connection, tenant, 0, number(is) - number(was))
}

fn change(connection: &Connection, tenant: i64, count: i64, bytes: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO reminder_totals (tenant, count, bytes) VALUES (?1, ?2, ?3)
             ON CONFLICT (tenant) DO UPDATE SET count = max(count + ?2, 0), bytes = max(bytes + ?3, 0)",
        )?
        .execute(params![tenant, count, bytes])?;
    Ok(())
}
