//! Tenants: read from the directory, changed through the writer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::objects::{
    Backlog, Revision, Secret, SigningSecrets, Tenant, TenantId, TenantSettings,
};
use breakerbox_storage::records::{Cursor, Edit, NewTenant, Page, PageOf, TenantBacklog, Tenants};
use breakerbox_storage::{RecordsError, TenantEntry};
use rusqlite::params;

use super::{SqliteRecords, unchanged};
use crate::WriteTransaction;
use crate::columns::micros;
use crate::error::JobError;
use crate::reminders::totals;
use breakerbox_storage::records::cursors::{CursorPosition, page, position};
use breakerbox_storage::stored::settings::{self as stored, TENANT};

/// The maximum number of tenants that are read for one page, to find those with a backlog.
const LOOKS: usize = 10_000;

impl SqliteRecords {
    fn known_tenant(&self, id: &TenantId) -> Result<Arc<TenantEntry>, RecordsError> {
        self.directory.tenant(id).ok_or_else(|| RecordsError::missing(TENANT, id))
    }

    /// Inserts a tenant, and adds it to the directory after the commit.
    pub(super) fn insert_tenant(
        &self,
        transaction: &mut WriteTransaction<'_>,
        new: NewTenant,
    ) -> Result<Tenant, JobError<RecordsError>> {
        if self.directory.tenant(&new.id).is_some() {
            return Err(RecordsError::Exists { what: TENANT, name: new.id.to_string() }.into());
        }
        let now = transaction.wall();
        let tenant = Tenant {
            id: new.id,
            settings: new.settings,
            secrets: SigningSecrets::new(new.secret.unwrap_or_else(Secret::random), now),
            created_at: now,
            changed_at: now,
            revision: Revision::FIRST,
        };
        let columns = stored::tenant(&tenant, &self.keyring);
        transaction
            .connection()
            .prepare_cached(
                "INSERT INTO tenants (id, settings, sealed, revision, created_at, changed_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
            )?
            .execute(params![
                tenant.id.as_str(),
                columns.settings,
                columns.sealed.0,
                tenant.revision.0,
                micros(now)
            ])?;
        let row = transaction.connection().last_insert_rowid();
        let entry = self.directory.resolve_tenant(tenant.clone(), row)?;
        let tenant_endpoints = self.directory.resolve_tenant_endpoints(entry)?;
        let directory = Arc::clone(&self.directory);
        transaction.after_commit(move || directory.put_tenant_endpoints(tenant_endpoints));
        Ok(tenant)
    }

    /// Changes a tenant's row, and after the commit its entry in the directory.
    pub(super) fn update_tenant(
        &self,
        transaction: &mut WriteTransaction<'_>,
        id: &TenantId,
        alter: impl FnOnce(&mut Tenant, &WriteTransaction<'_>) -> Result<(), JobError<RecordsError>>,
    ) -> Result<Tenant, JobError<RecordsError>> {
        let known = self.known_tenant(id)?;
        let mut tenant = known.source.clone();
        alter(&mut tenant, transaction)?;
        if tenant == known.source {
            return Ok(tenant);
        }
        tenant.revision = tenant.revision.next();
        tenant.changed_at = transaction.wall();
        let entry = self.directory.resolve_tenant(tenant.clone(), known.row)?;
        let tenant_endpoints = self.directory.resolve_tenant_endpoints(entry)?;
        let columns = stored::tenant(&tenant, &self.keyring);
        transaction
            .connection()
            .prepare_cached(
                "UPDATE tenants SET settings = ?2, sealed = ?3, revision = ?4, changed_at = ?5 WHERE row = ?1",
            )?
            .execute(params![
                known.row,
                columns.settings,
                columns.sealed.0,
                tenant.revision.0,
                micros(tenant.changed_at)
            ])?;
        let directory = Arc::clone(&self.directory);
        transaction.after_commit(move || directory.put_tenant_endpoints(tenant_endpoints));
        Ok(tenant)
    }

    async fn alter_tenant(
        &self,
        id: &TenantId,
        alter: impl FnOnce(&mut Tenant, &WriteTransaction<'_>) -> Result<(), JobError<RecordsError>>
        + Send
        + 'static,
    ) -> Result<Tenant, RecordsError> {
        let (records, id) = (self.clone(), id.clone());
        self.database.write(move |transaction| records.update_tenant(transaction, &id, alter)).await
    }
}

#[async_trait]
impl Tenants for SqliteRecords {
    async fn create_tenant(&self, new: NewTenant) -> Result<Tenant, RecordsError> {
        let records = self.clone();
        self.database.write(move |transaction| records.insert_tenant(transaction, new)).await
    }

    async fn tenant(&self, id: &TenantId) -> Result<Tenant, RecordsError> {
        Ok(self.known_tenant(id)?.source.clone())
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
        let (records, id) = (self.clone(), id.clone());
        self.database
            .write(move |transaction| {
                let known = records.known_tenant(&id)?;
                unchanged(known.source.revision, seen, TENANT, &id)?;
                let has_endpoints = !records.directory.endpoints_before(Some(&id), None, 1).is_empty();
                let reminders = totals::of(transaction.connection(), known.row)?.count;
                if has_endpoints || reminders > 0 || transaction.unfinished(known.row).count > 0 {
                    return Err(RecordsError::InUse(id).into());
                }
                let connection = transaction.connection();
                connection.execute("DELETE FROM api_keys WHERE tenant = ?1", [known.row])?;
                connection.execute(
                    "UPDATE jobs SET finished_at = ?2, cancelled = 1 WHERE tenant = ?1 AND finished_at IS NULL",
                    params![known.row, micros(transaction.wall())],
                )?;
                connection.execute(
                    "UPDATE tenants SET deleted_at = ?2, sealed = x'' WHERE row = ?1",
                    params![known.row, micros(transaction.wall())],
                )?;
                let directory = Arc::clone(&records.directory);
                transaction.after_commit(move || directory.remove_tenant(&id));
                Ok(())
            })
            .await
    }

    async fn rotate_tenant_secret(
        &self,
        id: &TenantId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<Tenant, RecordsError> {
        self.alter_tenant(id, move |tenant, transaction| {
            tenant.secrets = tenant.secrets.rotated(secret, overlap, transaction.wall());
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
        // The writer has these counts in memory; a transaction that writes nothing is very cheap.
        self.database
            .write(move |transaction| {
                let mut items = Vec::new();
                let mut next = None;
                for (looked, tenant) in tenants.iter().enumerate() {
                    if items.len() == size || looked == LOOKS {
                        return Ok(Page { items, next });
                    }
                    next = Some(Cursor(tenant.id.write()));
                    let waiting = transaction.unfinished(tenant.row);
                    if waiting.count > 0 {
                        items.push(TenantBacklog { tenant: tenant.id.clone(), waiting });
                    }
                }
                Ok(Page { items, next: None })
            })
            .await
    }

    async fn backlog(&self, id: &TenantId) -> Result<Backlog, RecordsError> {
        let row = self.known_tenant(id)?.row;
        self.database.write(move |transaction| Ok(transaction.unfinished(row))).await
    }
}
