//! Deletes the rows of deleted tenants once nothing refers to them. Until then they are kept, because finished
//! deliveries and notifications refer to their tenant. Finished jobs are deleted together with the tenant.
//!
//! Deliveries have no index by tenant, which would slow down each delivery. But nothing is created for a tenant after
//! its deletion, and ids sort by time: if no event from before the deletion is left, no event of that tenant is left.

use std::time::Duration;

use breakerbox_core::Timestamp;
use breakerbox_model::objects::Id;

use super::columns::{number, time};
use super::transaction::WriteTransaction;

/// The maximum time that ids may be ahead of the clock, because new ids continue from the last id when the clock is
/// set back.
const AHEAD: Duration = Duration::from_secs(2 * 86_400);

/// Selects deleted tenants, longest deleted first. The row with the highest number is never selected, so that
/// its number is not reused.
const DELETED: &str = "SELECT row, deleted_at FROM tenants INDEXED BY deleted_tenants
    WHERE deleted_at IS NOT NULL AND row < (SELECT max(row) FROM tenants) ORDER BY deleted_at LIMIT ?1";

/// Selects whether anything refers to a tenant. Events and deliveries are not checked here.
const NAMED: &str = "SELECT EXISTS (SELECT 1 FROM lanes WHERE tenant = ?1)
    OR EXISTS (SELECT 1 FROM idempotency_keys WHERE tenant = ?1)
    OR EXISTS (SELECT 1 FROM jobs WHERE tenant = ?1 AND finished_at IS NULL)
    OR EXISTS (SELECT 1 FROM endpoints WHERE tenant = ?1)
    OR EXISTS (SELECT 1 FROM api_keys WHERE tenant = ?1)
    OR EXISTS (SELECT 1 FROM reminders WHERE tenant = ?1)
    OR EXISTS (SELECT 1 FROM notifications WHERE tenant = ?1)
    OR EXISTS (SELECT 1 FROM notification_targets WHERE tenant = ?1)";

/// Deletes the rows of deleted tenants that nothing refers to any more. Checks at most `limit` tenants.
pub(super) fn forget(transaction: &WriteTransaction<'_>, limit: usize) -> rusqlite::Result<()> {
    let connection = transaction.connection;
    let deleted = connection
        .prepare_cached(DELETED)?
        .query_map([number(limit as u64)], |row| Ok((row.get(0)?, time(row.get(1)?))))?
        .collect::<Result<Vec<(i64, Timestamp)>, _>>()?;
    let mut is_old_there = connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM events WHERE id < ?1)")?;
    let mut is_named = connection.prepare_cached(NAMED)?;
    let mut jobs = connection.prepare_cached("DELETE FROM jobs WHERE tenant = ?1")?;
    let mut totals = connection.prepare_cached("DELETE FROM reminder_totals WHERE tenant = ?1")?;
    let mut tenant = connection.prepare_cached("DELETE FROM tenants WHERE row = ?1")?;
    for (row, deleted_at) in deleted {
        let later = Id::first_at(deleted_at + AHEAD).number();
        if is_old_there.query_row([later], |row| row.get(0))? {
            // Tenants that were deleted later can't be deleted yet, either.
            break;
        }
        let is_idle = transaction.writer_state.unfinished(row).count == 0;
        if !is_idle || is_named.query_row([row], |row| row.get::<_, bool>(0))? {
            continue;
        }
        jobs.execute([row])?;
        totals.execute([row])?;
        tenant.execute([row])?;
    }
    Ok(())
}
