//! Tenants: read from the directory, changed in a transaction that locks the directory.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{
    Backlog, Revision, Secret, SigningSecrets, Tenant, TenantId, TenantSettings,
};
use breakerbox_storage::records::cursors::{CursorPosition, page, position};
use breakerbox_storage::records::{Cursor, Edit, NewTenant, Page, PageOf, TenantBacklog, Tenants};
use breakerbox_storage::stored::codes::{micros, whole};
use breakerbox_storage::stored::settings::{self, TENANT};
use breakerbox_storage::{QueueError, RecordsError, TenantEntry};

use super::work::Work;
use super::{PostgresRecords, unchanged};
use crate::error::get;

/// The maximum number of tenants that are read for one page, to find those with a backlog.
const LOOKS: usize = 10_000;
/// The number of tenants whose backlogs are read at once.
const PIECE: usize = 1_000;

impl PostgresRecords {
    /// Returns a tenant from the directory, which a transaction has locked.
    pub(super) fn known_tenant(&self, id: &TenantId) -> Result<Arc<TenantEntry>, RecordsError> {
        self.directory.tenant(id).ok_or_else(|| RecordsError::missing(TENANT, id))
    }

    /// Returns a tenant, which another process may have just created.
    pub(super) async fn find_tenant(&self, id: &TenantId) -> Result<Arc<TenantEntry>, RecordsError> {
        let found = self.look_up(|directory| directory.tenant(id)).await?;
        found.ok_or_else(|| RecordsError::missing(TENANT, id))
    }

    /// Inserts a tenant, and adds it to the directory after the commit.
    pub(super) async fn insert_tenant(
        &self,
        work: &mut Work,
        new: NewTenant,
    ) -> Result<Tenant, RecordsError> {
        if self.directory.tenant(&new.id).is_some() {
            return Err(RecordsError::Exists { what: TENANT, name: new.id.to_string() });
        }
        let tenant = Tenant {
            id: new.id,
            settings: new.settings,
            secrets: SigningSecrets::new(new.secret.unwrap_or_else(Secret::random), work.now),
            created_at: work.now,
            changed_at: work.now,
            revision: Revision::FIRST,
        };
        let columns = settings::tenant(&tenant, &self.keyring);
        let inserted = work
            .transaction
            .query_opt(
                include_str!("../sql/records/insert_tenant.sql"),
                &[
                    &tenant.id.as_str(),
                    &columns.settings,
                    &columns.sealed.0,
                    &tenant.revision.0,
                    &micros(work.now),
                ],
            )
            .await?;
        let row = inserted.map_or(Err(QueueError::Closed), |row| get(&row, 0))?;
        let entry = self.directory.resolve_tenant(tenant.clone(), row)?;
        let tenant_endpoints = self.directory.resolve_tenant_endpoints(entry)?;
        work.after_commit(move |directory| directory.put_tenant_endpoints(tenant_endpoints));
        Ok(tenant)
    }

    /// Changes a tenant's row, and after the commit its entry in the directory.
    pub(super) async fn update_tenant(
        &self,
        work: &mut Work,
        id: &TenantId,
        alter: impl FnOnce(&mut Tenant, Timestamp) -> Result<(), RecordsError> + Send,
    ) -> Result<Tenant, RecordsError> {
        let known = self.known_tenant(id)?;
        let mut tenant = known.source.clone();
        alter(&mut tenant, work.now)?;
        if tenant == known.source {
            return Ok(tenant);
        }
        tenant.revision = tenant.revision.next();
        tenant.changed_at = work.now;
        let entry = self.directory.resolve_tenant(tenant.clone(), known.row)?;
        let tenant_endpoints = self.directory.resolve_tenant_endpoints(entry)?;
        let columns = settings::tenant(&tenant, &self.keyring);
        work.transaction
            .execute(
                include_str!("../sql/records/update_tenant.sql"),
                &[
                    &known.row,
                    &columns.settings,
                    &columns.sealed.0,
                    &tenant.revision.0,
                    &micros(tenant.changed_at),
                ],
            )
            .await?;
        work.after_commit(move |directory| directory.put_tenant_endpoints(tenant_endpoints));
        Ok(tenant)
    }

    async fn alter_tenant(
        &self,
        id: &TenantId,
        alter: impl FnOnce(&mut Tenant, Timestamp) -> Result<(), RecordsError> + Send,
    ) -> Result<Tenant, RecordsError> {
        let mut work = self.begin_change().await?;
        let tenant = self.update_tenant(&mut work, id, alter).await?;
        work.commit(&self.directory).await?;
        Ok(tenant)
    }

    /// Returns a tenant's unfinished deliveries, including those that a fan-out has not written yet.
    pub(super) async fn unfinished(&self, work: &Work, tenant: i64) -> Result<Backlog, QueueError> {
        let sql = include_str!("../sql/records/backlogs_of_tenants.sql");
        let found = work.transaction.query_opt(sql, &[&vec![tenant]]).await?;
        found.map_or(Ok(Backlog { count: 0, bytes: 0 }), |row| {
            Ok(Backlog { count: whole(get(&row, 1)?), bytes: whole(get(&row, 2)?) })
        })
    }
}

#[async_trait]
impl Tenants for PostgresRecords {
    async fn create_tenant(&self, new: NewTenant) -> Result<Tenant, RecordsError> {
        let mut work = self.begin_change().await?;
        let tenant = self.insert_tenant(&mut work, new).await?;
        work.commit(&self.directory).await?;
        Ok(tenant)
    }

    async fn tenant(&self, id: &TenantId) -> Result<Tenant, RecordsError> {
        Ok(self.find_tenant(id).await?.source.clone())
    }

    async fn tenants(&self, of: &PageOf) -> Result<Page<Tenant>, RecordsError> {
        let after = position(of)?;
        let found = self.directory.tenants_after(after.as_ref(), of.size() + 1);
        let found = found.iter().map(|entry| entry.source.clone()).collect();
        Ok(page(found, of.size(), |tenant: &Tenant| tenant.id.clone()))
    }

    async fn edit_tenant(
        &self,
        id: &TenantId,
        edit: Edit<Tenant, TenantSettings>,
        seen: Option<Revision>,
    ) -> Result<Tenant, RecordsError> {
        self.alter_tenant(id, move |tenant, _| {
            unchanged(tenant.revision, seen, TENANT, &tenant.id)?;
            tenant.settings = edit(tenant)?;
            Ok(())
        })
        .await
    }

    async fn delete_tenant(&self, id: &TenantId, seen: Option<Revision>) -> Result<(), RecordsError> {
        let mut work = self.begin_change().await?;
        let known = self.known_tenant(id)?;
        unchanged(known.source.revision, seen, TENANT, id)?;
        let has_endpoints = !self.directory.endpoints_before(Some(id), None, 1).is_empty();
        let reminders = self.reminder_totals(&work, known.row).await?.count;
        if has_endpoints || reminders > 0 || self.unfinished(&work, known.row).await?.count > 0 {
            return Err(RecordsError::InUse(id.clone()));
        }
        for sql in [
            include_str!("../sql/records/delete_api_keys_of_tenant.sql"),
            include_str!("../sql/records/cancel_jobs_of_tenant.sql"),
            include_str!("../sql/records/delete_tenant.sql"),
        ] {
            work.transaction.execute(sql, &[&known.row, &micros(work.now)]).await?;
        }
        let gone = id.clone();
        work.after_commit(move |directory| directory.remove_tenant(&gone));
        Ok(work.commit(&self.directory).await?)
    }

    async fn rotate_tenant_secret(
        &self,
        id: &TenantId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<Tenant, RecordsError> {
        self.alter_tenant(id, move |tenant, now| {
            tenant.secrets = tenant.secrets.rotated(secret, overlap, now);
            Ok(())
        })
        .await
    }

    async fn end_tenant_rotation(&self, id: &TenantId) -> Result<Tenant, RecordsError> {
        self.alter_tenant(id, |tenant, _| {
            tenant.secrets = tenant.secrets.newest_only();
            Ok(())
        })
        .await
    }

    async fn backlogs(&self, of: &PageOf) -> Result<Page<TenantBacklog>, RecordsError> {
        let after: Option<TenantId> = position(of)?;
        let size = of.size();
        let tenants = self.directory.tenants_after(after.as_ref(), LOOKS + 1);
        let mut items = Vec::new();
        let mut next = None;
        for (piece_number, piece) in tenants.chunks(PIECE).enumerate() {
            let numbers: Vec<i64> = piece.iter().map(|tenant| tenant.row).collect();
            let sql = include_str!("../sql/records/backlogs_of_tenants.sql");
            let mut waiting = HashMap::new();
            for row in self.database.read(sql, &[&numbers]).await? {
                let backlog = Backlog { count: whole(get(&row, 1)?), bytes: whole(get(&row, 2)?) };
                waiting.insert(get::<i64>(&row, 0)?, backlog);
            }
            for (looked, tenant) in (piece_number * PIECE..).zip(piece) {
                if items.len() == size || looked == LOOKS {
                    return Ok(Page { items, next });
                }
                next = Some(Cursor(tenant.id.write()));
                if let Some(waiting) = waiting.remove(&tenant.row).filter(|waiting| waiting.count > 0) {
                    items.push(TenantBacklog { tenant: tenant.id.clone(), waiting });
                }
            }
        }
        Ok(Page { items, next: None })
    }

    async fn backlog(&self, id: &TenantId) -> Result<Backlog, RecordsError> {
        let tenant = self.find_tenant(id).await?.row;
        let sql = include_str!("../sql/records/backlogs_of_tenants.sql");
        let rows = self.database.read(sql, &[&vec![tenant]]).await?;
        let Some(row) = rows.first() else { return Ok(Backlog { count: 0, bytes: 0 }) };
        Ok(Backlog { count: whole(get(row, 1)?), bytes: whole(get(row, 2)?) })
    }
}
