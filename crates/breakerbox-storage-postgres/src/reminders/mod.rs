//! Reminders, as the scheduler sees them.
//!
//! | part | task |
//! | --- | --- |
//! | `due` | finds the reminders that have to be checked |
//! | `apply` | applies decisions about them |
//! | `unreadable` | stops reminders whose row can't be read |
//!
//! What a finished run means for its reminder is written by the statement that settles the run.

pub(crate) mod apply;
pub(crate) mod due;
pub(crate) mod unreadable;

use breakerbox_storage::QueueError;

use super::database::Transaction;

/// Removes a reminder from its tenant's counts.
async fn remove_from_totals(transaction: &Transaction, tenant: i64, size: i64) -> Result<(), QueueError> {
    let sql = include_str!("../sql/records/add_reminder_totals.sql");
    transaction.execute(sql, &[&tenant, &-1_i64, &-size]).await.map(drop)
}
