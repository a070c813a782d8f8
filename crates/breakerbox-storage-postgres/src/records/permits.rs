//! Settled permits. The first claim of a permit wins, at whatever process.

use async_trait::async_trait;
use breakerbox_core::{OutcomeKind, Timestamp};
use breakerbox_model::objects::{PermitId, PermitSettled, PermitTerm, SettledAs};
use breakerbox_storage::QueueError;
use breakerbox_storage::records::{PermitClaim, SettledPermits};
use breakerbox_storage::stored::codes::{micros, number, outcome_number, permit_settled, settled_number};

use super::PostgresRecords;
use crate::error::get;

#[async_trait]
impl SettledPermits for PostgresRecords {
    async fn claim_permit(
        &self,
        permit: PermitTerm,
        outcome: OutcomeKind,
    ) -> Result<PermitClaim, QueueError> {
        let work = self.begin().await?;
        let sql = include_str!("../sql/records/claim_permit_unless_settled.sql");
        let (expires_at, id) = (micros(permit.expires_at), permit.id.0.to_vec());
        if permit.expires_at > work.now {
            let settled = settled_number(SettledAs::Counted);
            let written = work
                .transaction
                .execute(sql, &[&expires_at, &id, &settled, &outcome_number(outcome)])
                .await?;
            if written > 0 {
                work.commit(&self.directory).await?;
                return Ok(PermitClaim::Yours);
            }
        }
        let sql = include_str!("../sql/records/settled_permits.sql");
        let found = work.transaction.query_opt(sql, &[&vec![expires_at], &vec![id]]).await?;
        let settled = found.map(|row| Ok::<_, QueueError>(permit_settled(get(&row, 1)?, get(&row, 2)?)));
        work.commit(&self.directory).await?;
        Ok(settled.transpose()?.map_or(PermitClaim::Expired, PermitClaim::Settled))
    }

    async fn note_settlement(&self, permit: PermitTerm, settled: SettledAs) -> Result<(), QueueError> {
        let work = self.begin().await?;
        let sql = include_str!("../sql/records/note_settlement.sql");
        let (expires_at, id) = (micros(permit.expires_at), permit.id.0.to_vec());
        work.transaction.execute(sql, &[&expires_at, &id, &settled_number(settled)]).await?;
        work.commit(&self.directory).await
    }

    async fn settled_of(
        &self,
        expired: Vec<PermitTerm>,
    ) -> Result<Vec<(PermitId, PermitSettled)>, QueueError> {
        let times: Vec<i64> = expired.iter().map(|permit| micros(permit.expires_at)).collect();
        let ids: Vec<Vec<u8>> = expired.iter().map(|permit| permit.id.0.to_vec()).collect();
        let sql = include_str!("../sql/records/settled_permits.sql");
        let mut found = Vec::new();
        for row in self.database.read(sql, &[&times, &ids]).await? {
            let id: &[u8] = get(&row, 0)?;
            let Ok(id) = id.try_into() else { continue };
            found.push((PermitId(id), permit_settled(get(&row, 1)?, get(&row, 2)?)));
        }
        Ok(found)
    }

    async fn prune_permits(&self, before: Timestamp, limit: usize) -> Result<u64, QueueError> {
        let work = self.begin().await?;
        let sql = include_str!("../sql/records/prune_permits.sql");
        let deleted = work.transaction.execute(sql, &[&micros(before), &number(limit as u64)]).await?;
        work.commit(&self.directory).await?;
        Ok(deleted)
    }
}
