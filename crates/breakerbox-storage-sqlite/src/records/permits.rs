//! Settled permits. All operations run on the writer, even those that only read, so that they see claims in flight.

use async_trait::async_trait;
use breakerbox_core::{OutcomeKind, Timestamp};
use breakerbox_model::objects::{PermitId, PermitSettled, PermitTerm, SettledAs};
use breakerbox_storage::QueueError;
use breakerbox_storage::records::{PermitClaim, SettledPermits};
use rusqlite::{OptionalExtension, params};

use super::SqliteRecords;
use crate::WriteTransaction;
use crate::columns::{micros, number, outcome_number, permit_settled, settled_number};

#[async_trait]
impl SettledPermits for SqliteRecords {
    async fn claim_permit(
        &self,
        permit: PermitTerm,
        outcome: OutcomeKind,
    ) -> Result<PermitClaim, QueueError> {
        self.database
            .write(move |transaction| {
                if let Some(settled) = find(transaction, permit)? {
                    return Ok(PermitClaim::Settled(settled));
                }
                if permit.expires_at <= transaction.now() {
                    return Ok(PermitClaim::Expired);
                }
                let mut insert = transaction.connection().prepare_cached(
                    "INSERT INTO settled_permits (expires_at, id, settled, outcome) VALUES (?1, ?2, ?3, ?4)",
                )?;
                let settled = settled_number(SettledAs::Counted);
                let outcome = outcome_number(outcome);
                insert.execute(params![micros(permit.expires_at), permit.id.0, settled, outcome])?;
                Ok(PermitClaim::Yours)
            })
            .await
    }

    async fn note_settlement(&self, permit: PermitTerm, settled: SettledAs) -> Result<(), QueueError> {
        self.database
            .write(move |transaction| {
                let mut update = transaction.connection().prepare_cached(
                    "UPDATE settled_permits SET settled = ?3 WHERE expires_at = ?1 AND id = ?2",
                )?;
                let settled = settled_number(settled);
                update.execute(params![micros(permit.expires_at), permit.id.0, settled])?;
                Ok(())
            })
            .await
    }

    async fn settled_of(
        &self,
        expired: Vec<PermitTerm>,
    ) -> Result<Vec<(PermitId, PermitSettled)>, QueueError> {
        self.database
            .write(move |transaction| {
                let mut found = Vec::new();
                for permit in expired {
                    found.extend(find(transaction, permit)?.map(|settled| (permit.id, settled)));
                }
                Ok(found)
            })
            .await
    }

    async fn prune_permits(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError> {
        self.database
            .write(move |transaction| {
                let mut delete = transaction.connection().prepare_cached(
                    "DELETE FROM settled_permits WHERE (expires_at, id) IN
                     (SELECT expires_at, id FROM settled_permits WHERE expires_at < ?1 ORDER BY expires_at LIMIT ?2)",
                )?;
                Ok(delete.execute(params![micros(before), number(limit as u64)])? as u64)
            })
            .await
    }
}

fn find(transaction: &WriteTransaction<'_>, permit: PermitTerm) -> rusqlite::Result<Option<PermitSettled>> {
    let mut select = transaction
        .connection()
        .prepare_cached("SELECT settled, outcome FROM settled_permits WHERE expires_at = ?1 AND id = ?2")?;
    let found = select.query_row(params![micros(permit.expires_at), permit.id.0], |row| {
        Ok(permit_settled(row.get(0)?, row.get(1)?))
    });
    found.optional()
}
