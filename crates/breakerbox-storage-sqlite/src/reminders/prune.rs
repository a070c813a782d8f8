//! Deletes reminders that have ended, a bounded number per job.

use breakerbox_core::Timestamp;
use breakerbox_model::reminder::StopReason;
use breakerbox_storage::QueueError;
use rusqlite::params;

use super::stored::{STOPPED, reason};
use super::totals;
use crate::columns::{micros, number, whole};
use crate::error::JobError;
use crate::job::Command;
use crate::transaction::WriteTransaction;

pub(crate) struct Prune {
    pub(crate) before: Timestamp,
    pub(crate) limit: usize,
}

impl Command for Prune {
    type Output = u64;

    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<u64, JobError<QueueError>> {
        let connection = transaction.connection;
        let ended = connection
            .prepare_cached(
                "SELECT id, tenant, size, state = ?3 AND reason <> ?4 FROM reminders INDEXED BY ended_reminders
                 WHERE ended_at < ?1 ORDER BY ended_at LIMIT ?2",
            )?
            .query_map(
                params![
                    micros(self.before),
                    number(self.limit as u64),
                    STOPPED,
                    reason(StopReason::Unreadable)
                ],
                |row| {
                    Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, whole(row.get(2)?), row.get::<_, bool>(3)?))
                },
            )?
            .collect::<Result<Vec<_>, _>>()?;
        for (reminder, tenant, size, is_counted) in &ended {
            connection.prepare_cached("DELETE FROM reminders WHERE id = ?1")?.execute([reminder])?;
            connection
                .prepare_cached("DELETE FROM reminder_payloads WHERE reminder = ?1")?
                .execute([reminder])?;
            if *is_counted {
                totals::remove(connection, *tenant, *size)?;
            }
        }
        Ok(ended.len() as u64)
    }
}
