//! Endpoints: read from the directory, changed in a transaction that locks the directory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::notifications::Notification;
use breakerbox_model::objects::{
    DisabledBecause, Endpoint, EndpointId, EndpointSettings, Id, Revision, Secret, SigningSecrets, TenantId,
};
use breakerbox_storage::records::cursors::{page, position};
use breakerbox_storage::records::{Deleted, Edit, Endpoints, NewEndpoint, Page, PageOf};
use breakerbox_storage::stored::codes::{micros, whole};
use breakerbox_storage::stored::settings::{self, ENDPOINT};
use breakerbox_storage::{BatchResult, EndpointEntry, QueueError, RecordsError};

use super::work::Work;
use super::{PostgresRecords, unchanged};
use crate::database::Transaction;
use crate::error::get;
use crate::notifications::notify;

/// The maximum number of a tenant's fan-outs that are searched for deliveries to a deleted endpoint.
const SEARCHED: i64 = 10_000;
/// The number of audiences that are read at once.
const AUDIENCES: usize = 16;
/// The number of bytes per endpoint in a stored audience, which begin with the lane.
const ENTRY: usize = 16;

impl PostgresRecords {
    /// Returns an endpoint from the directory, which a transaction has locked.
    fn known_endpoint(&self, id: EndpointId) -> Result<Arc<EndpointEntry>, RecordsError> {
        self.directory.endpoint(id.into()).ok_or_else(|| RecordsError::missing(ENDPOINT, id))
    }

    /// Returns an endpoint, which another process may have just created.
    pub(super) async fn find_endpoint(&self, id: EndpointId) -> Result<Arc<EndpointEntry>, RecordsError> {
        let found = self.look_up(|directory| directory.endpoint(id.into())).await?;
        found.ok_or_else(|| RecordsError::missing(ENDPOINT, id))
    }

    /// Inserts an endpoint, and adds it to the directory after the commit.
    pub(super) async fn insert_endpoint(
        &self,
        work: &mut Work,
        new: NewEndpoint,
    ) -> Result<Endpoint, RecordsError> {
        let limit = self.directory.defaults().endpoints;
        if self.directory.endpoint_count(&new.tenant) >= limit as usize {
            return Err(RecordsError::EndpointsFull { tenant: new.tenant, limit });
        }
        let endpoint = Endpoint {
            id: EndpointId(work.transaction.next_id()),
            tenant: new.tenant,
            settings: new.settings,
            disabled: new.disabled.then_some(DisabledBecause::Owner),
            secrets: SigningSecrets::new(new.secret.unwrap_or_else(Secret::random), work.now),
            created_at: work.now,
            changed_at: work.now,
            revision: Revision::FIRST,
        };
        let entry = self.directory.resolve_endpoint(endpoint.clone())?;
        let columns = settings::endpoint(&endpoint, &self.keyring);
        work.transaction
            .execute(
                include_str!("../sql/records/insert_endpoint.sql"),
                &[
                    &endpoint.id.number(),
                    &entry.tenant.row,
                    &columns.settings,
                    &columns.sealed.0,
                    &endpoint.disabled.map(settings::disabled_name),
                    &endpoint.revision.0,
                    &micros(work.now),
                ],
            )
            .await?;
        work.after_commit(move |directory| directory.put_endpoint(entry));
        Ok(endpoint)
    }

    /// Changes an endpoint's row, and after the commit its entry in the directory.
    pub(super) async fn update_endpoint(
        &self,
        work: &mut Work,
        id: EndpointId,
        alter: impl FnOnce(&mut Endpoint, Timestamp) -> Result<(), RecordsError> + Send,
    ) -> Result<Endpoint, RecordsError> {
        let known = self.known_endpoint(id)?;
        let before = &known.source;
        let mut endpoint = before.clone();
        alter(&mut endpoint, work.now)?;
        if endpoint == *before {
            return Ok(endpoint);
        }
        endpoint.revision = endpoint.revision.next();
        endpoint.changed_at = work.now;
        let entry = self.directory.resolve_endpoint(endpoint.clone())?;
        let columns = settings::endpoint(&endpoint, &self.keyring);
        work.transaction
            .execute(
                include_str!("../sql/records/update_endpoint.sql"),
                &[
                    &id.number(),
                    &columns.settings,
                    &columns.sealed.0,
                    &endpoint.disabled.map(settings::disabled_name),
                    &endpoint.revision.0,
                    &micros(endpoint.changed_at),
                ],
            )
            .await?;
        if endpoint.settings.url != before.settings.url {
            // The latest response was another destination's.
            let sql = include_str!("../sql/records/forget_last_attempt.sql");
            work.transaction.execute(sql, &[&id.number()]).await?;
        }
        if endpoint.disabled == Some(DisabledBecause::Gone) && endpoint.disabled != before.disabled {
            notify(&work.transaction, &gone(&endpoint), &*self.directory).await?;
        }
        work.after_commit(move |directory| directory.put_endpoint(entry));
        Ok(endpoint)
    }

    async fn alter_endpoint(
        &self,
        id: EndpointId,
        alter: impl FnOnce(&mut Endpoint, Timestamp) -> Result<(), RecordsError> + Send,
    ) -> Result<Endpoint, RecordsError> {
        let mut work = self.begin_change().await?;
        let endpoint = self.update_endpoint(&mut work, id, alter).await?;
        work.commit(&self.directory).await?;
        Ok(endpoint)
    }
}

/// Returns the notification that an endpoint responded with 410.
fn gone(endpoint: &Endpoint) -> Notification {
    let revision = endpoint.revision.0.unsigned_abs();
    Notification::endpoint_gone(
        endpoint.tenant.clone(),
        endpoint.id,
        &endpoint.settings.url,
        revision,
        endpoint.changed_at,
    )
}

/// Returns the number of deliveries to this endpoint that fan-outs have not written yet.
async fn pending(transaction: &Transaction, tenant: i64, lane: i64) -> Result<u64, QueueError> {
    let sql = include_str!("../sql/records/fan_outs_of_tenant.sql");
    let mut positions: BTreeMap<i64, Vec<i32>> = BTreeMap::new();
    for row in transaction.query(sql, &[&tenant, &SEARCHED]).await? {
        positions.entry(get(&row, 0)?).or_default().push(get(&row, 1)?);
    }
    let mut pending = 0;
    let audiences: Vec<i64> = positions.keys().copied().collect();
    // An audience may name ten thousand endpoints, so only a few are read at once.
    for audiences in audiences.chunks(AUDIENCES) {
        let sql = include_str!("../sql/records/audiences_by_id.sql");
        for row in transaction.query(sql, &[&audiences.to_vec()]).await? {
            let endpoints: &[u8] = get(&row, 1)?;
            let entries = endpoints.as_chunks::<ENTRY>().0.iter();
            let index = entries.map(|entry| entry[..8] == lane.to_le_bytes()).position(|is_it| is_it);
            let Some(index) = index.and_then(|index| i32::try_from(index).ok()) else { continue };
            let positions = positions.get(&get::<i64>(&row, 0)?).map_or(&[][..], Vec::as_slice);
            pending += positions.iter().filter(|position| **position <= index).count() as u64;
        }
    }
    Ok(pending)
}

#[async_trait]
impl Endpoints for PostgresRecords {
    async fn create_endpoint(&self, new: NewEndpoint) -> Result<Endpoint, RecordsError> {
        let mut work = self.begin_change().await?;
        let endpoint = self.insert_endpoint(&mut work, new).await?;
        work.commit(&self.directory).await?;
        Ok(endpoint)
    }

    async fn endpoint(&self, id: EndpointId) -> Result<Endpoint, RecordsError> {
        Ok(self.find_endpoint(id).await?.source.clone())
    }

    async fn endpoints(
        &self,
        tenant: Option<&TenantId>,
        of: &PageOf,
    ) -> Result<Page<Endpoint>, RecordsError> {
        let before = position::<Id>(of)?.map(EndpointId);
        let found = self.directory.endpoints_before(tenant, before, of.size() + 1);
        let found = found.iter().map(|entry| entry.source.clone()).collect();
        Ok(page(found, of.size(), |endpoint: &Endpoint| endpoint.id.0))
    }

    async fn edit_endpoint(
        &self,
        id: EndpointId,
        edit: Edit<Endpoint, EndpointSettings>,
        seen: Option<Revision>,
    ) -> Result<Endpoint, RecordsError> {
        self.alter_endpoint(id, move |endpoint, _| {
            unchanged(endpoint.revision, seen, ENDPOINT, &id)?;
            endpoint.settings = edit(endpoint)?;
            Ok(())
        })
        .await
    }

    async fn set_endpoint_disabled(
        &self,
        id: EndpointId,
        disabled: Option<DisabledBecause>,
    ) -> Result<Endpoint, RecordsError> {
        let disabled = disabled.map(|because| settings::disabled(settings::disabled_name(because)));
        self.alter_endpoint(id, move |endpoint, _| {
            endpoint.disabled = disabled;
            Ok(())
        })
        .await
    }

    async fn delete_endpoint(&self, id: EndpointId, seen: Option<Revision>) -> Result<Deleted, RecordsError> {
        let mut work = self.begin_change().await?;
        let known = self.known_endpoint(id)?;
        unchanged(known.source.revision, seen, ENDPOINT, &id)?;
        let sql = include_str!("../sql/records/count_waiting_in_lane.sql");
        let counted = work.transaction.query_opt(sql, &[&id.number(), &known.tenant.row]).await?;
        let waiting = counted.map_or(Ok(0), |row| get::<i64>(&row, 0)).map(whole)?;
        let cancelled = waiting + pending(&work.transaction, known.tenant.row, id.number()).await?;
        let sql = include_str!("../sql/records/delete_endpoint.sql");
        work.transaction.execute(sql, &[&id.number()]).await?;
        let sql = include_str!("../sql/records/close_lane.sql");
        work.transaction.execute(sql, &[&id.number(), &micros(work.now)]).await?;
        work.after_commit(move |directory| directory.remove_endpoint(id));
        work.commit(&self.directory).await?;
        Ok(Deleted { cancelled })
    }

    async fn rotate_endpoint_secret(
        &self,
        id: EndpointId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<Endpoint, RecordsError> {
        self.alter_endpoint(id, move |endpoint, now| {
            endpoint.secrets = endpoint.secrets.rotated(secret, overlap, now);
            Ok(())
        })
        .await
    }

    async fn end_endpoint_rotation(&self, id: EndpointId) -> Result<Endpoint, RecordsError> {
        self.alter_endpoint(id, |endpoint, _| {
            endpoint.secrets = endpoint.secrets.newest_only();
            Ok(())
        })
        .await
    }

    async fn cancel_orphans(&self, limit: usize) -> Result<BatchResult, QueueError> {
        self.database.cancel_closed(limit).await
    }
}
