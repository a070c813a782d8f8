//! Deletes the rows of deleted tenants once nothing refers to them. Until then they are kept, because finished deliveries and
//! notifications refer to their tenant. Finished jobs are deleted together with the tenant.
//!
//! Deliveries have no index by tenant, which would slow down each delivery. But nothing is created for a tenant after its
//! deletion, and ids sort by time: if no event from before the deletion is left, no event of that tenant is left.

use std::time::Duration;

use breakerbox_model::objects::Id;
use breakerbox_storage::QueueError;
use breakerbox_storage::stored::codes::time;

use super::database::Transaction;
use super::error::get;

/// How long after a deletion an event of the tenant may still have been accepted: by a process that had not heard of it yet, or
/// with an id that is ahead of the clock.
const LATER: Duration = Duration::from_secs(86_400);

/// Deletes the rows of deleted tenants that nothing refers to any more. Checks at most `limit` tenants.
pub(crate) async fn forget(transaction: &Transaction, limit: i64) -> Result<(), QueueError> {
    let sql = "SELECT row, deleted_at FROM tenants WHERE deleted_at IS NOT NULL ORDER BY deleted_at LIMIT $1";
    for row in transaction.query(sql, &[&limit]).await? {
        let (tenant, deleted_at): (i64, i64) = (get(&row, 0)?, get(&row, 1)?);
        let later = Id::first_at(time(deleted_at) + LATER).number();
        if transaction.query_opt("SELECT FROM events WHERE id < $1 LIMIT 1", &[&later]).await?.is_some()
            || transaction.now() < time(deleted_at) + LATER
        {
            // Tenants that were deleted later can't be deleted yet, either.
            break;
        }
        transaction.execute(include_str!("sql/forget_tenant_if_unnamed.sql"), &[&tenant]).await?;
    }
    Ok(())
}
