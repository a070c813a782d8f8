//! Endpoints: read from the directory, changed through the writer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::notifications::Notification;
use breakerbox_model::objects::{
    DisabledBecause, Endpoint, EndpointId, EndpointSettings, Id, Revision, Secret, SigningSecrets, TenantId,
};
use breakerbox_storage::records::{Deleted, Edit, Endpoints, NewEndpoint, Page, PageOf};
use breakerbox_storage::{BatchResult, EndpointEntry, QueueError, RecordsError};
use rusqlite::params;

use super::{SqliteRecords, unchanged};
use crate::WriteTransaction;
use crate::columns::micros;
use crate::error::JobError;
use crate::fan_out;
use breakerbox_storage::records::cursors::{page, position};
use breakerbox_storage::stored::settings::{self as stored, ENDPOINT};

impl SqliteRecords {
    pub(super) fn known_endpoint(&self, id: EndpointId) -> Result<Arc<EndpointEntry>, RecordsError> {
        self.directory.endpoint(id.into()).ok_or_else(|| RecordsError::missing(ENDPOINT, id))
    }

    /// Inserts an endpoint, and adds it to the directory after the commit.
    pub(super) fn insert_endpoint(
        &self,
        transaction: &mut WriteTransaction<'_>,
        new: NewEndpoint,
    ) -> Result<Endpoint, JobError<RecordsError>> {
        let now = transaction.wall();
        let limit = self.directory.defaults().endpoints;
        if self.directory.endpoint_count(&new.tenant) >= limit as usize {
            return Err(RecordsError::EndpointsFull { tenant: new.tenant, limit }.into());
        }
        let endpoint = Endpoint {
            id: EndpointId(transaction.next_id()),
            tenant: new.tenant,
            settings: new.settings,
            disabled: new.disabled.then_some(DisabledBecause::Owner),
            secrets: SigningSecrets::new(new.secret.unwrap_or_else(Secret::random), now),
            created_at: now,
            changed_at: now,
            revision: Revision::FIRST,
        };
        let entry = self.directory.resolve_endpoint(endpoint.clone())?;
        let columns = stored::endpoint(&endpoint, &self.keyring);
        transaction
            .connection()
            .prepare_cached(
                "INSERT INTO endpoints (id, tenant, settings, sealed, disabled, revision, created_at, changed_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)",
            )?
            .execute(params![
                endpoint.id.number(),
                entry.tenant.row,
                columns.settings,
                columns.sealed.0,
                endpoint.disabled.map(stored::disabled_name),
                endpoint.revision.0,
                micros(now)
            ])?;
        let directory = Arc::clone(&self.directory);
        transaction.after_commit(move || directory.put_endpoint(entry));
        Ok(endpoint)
    }

    /// Changes an endpoint's row, and after the commit its entry in the directory.
    pub(super) fn update_endpoint(
        &self,
        transaction: &mut WriteTransaction<'_>,
        id: EndpointId,
        alter: impl FnOnce(&mut Endpoint, &WriteTransaction<'_>) -> Result<(), JobError<RecordsError>>,
    ) -> Result<Endpoint, JobError<RecordsError>> {
        let before = &self.known_endpoint(id)?.source;
        let mut endpoint = before.clone();
        alter(&mut endpoint, transaction)?;
        if endpoint == *before {
            return Ok(endpoint);
        }
        endpoint.revision = endpoint.revision.next();
        endpoint.changed_at = transaction.wall();
        let entry = self.directory.resolve_endpoint(endpoint.clone())?;
        let columns = stored::endpoint(&endpoint, &self.keyring);
        transaction
            .connection()
            .prepare_cached(
                "UPDATE endpoints SET settings = ?2, sealed = ?3, disabled = ?4, revision = ?5, changed_at = ?6
                 WHERE id = ?1",
            )?
            .execute(params![
                id.number(),
                columns.settings,
                columns.sealed.0,
                endpoint.disabled.map(stored::disabled_name),
                endpoint.revision.0,
                micros(endpoint.changed_at)
            ])?;
        if endpoint.settings.url != before.settings.url {
            transaction.writer_state.forget_attempt(transaction.connection, endpoint.lane())?;
        }
        if endpoint.disabled == Some(DisabledBecause::Gone) && endpoint.disabled != before.disabled {
            transaction.notify(&gone(&endpoint), &*self.directory)?;
        }
        let directory = Arc::clone(&self.directory);
        transaction.after_commit(move || directory.put_endpoint(entry));
        Ok(endpoint)
    }

    async fn alter_endpoint(
        &self,
        id: EndpointId,
        alter: impl FnOnce(&mut Endpoint, &WriteTransaction<'_>) -> Result<(), JobError<RecordsError>>
        + Send
        + 'static,
    ) -> Result<Endpoint, RecordsError> {
        let records = self.clone();
        self.database.write(move |transaction| records.update_endpoint(transaction, id, alter)).await
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

#[async_trait]
impl Endpoints for SqliteRecords {
    async fn create_endpoint(&self, new: NewEndpoint) -> Result<Endpoint, RecordsError> {
        let records = self.clone();
        self.database.write(move |transaction| records.insert_endpoint(transaction, new)).await
    }

    async fn endpoint(&self, id: EndpointId) -> Result<Endpoint, RecordsError> {
        Ok(self.known_endpoint(id)?.source.clone())
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
        let disabled = disabled.map(|because| stored::disabled(stored::disabled_name(because)));
        self.alter_endpoint(id, move |endpoint, _| {
            endpoint.disabled = disabled;
            Ok(())
        })
        .await
    }

    async fn delete_endpoint(&self, id: EndpointId, seen: Option<Revision>) -> Result<Deleted, RecordsError> {
        let records = self.clone();
        self.database
            .write(move |transaction| {
                let known = records.known_endpoint(id)?;
                unchanged(known.source.revision, seen, ENDPOINT, &id)?;
                let pending = fan_out::pending_in(transaction.connection(), known.tenant.row, id.number())?;
                let cancelled = transaction.writer_state.waiting_in(id.number()) + pending;
                transaction.connection().execute("DELETE FROM endpoints WHERE id = ?1", [id.number()])?;
                transaction.close_lane(id.into())?;
                let directory = Arc::clone(&records.directory);
                transaction.after_commit(move || directory.remove_endpoint(id));
                Ok(Deleted { cancelled })
            })
            .await
    }

    async fn rotate_endpoint_secret(
        &self,
        id: EndpointId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<Endpoint, RecordsError> {
        self.alter_endpoint(id, move |endpoint, transaction| {
            endpoint.secrets = endpoint.secrets.rotated(secret, overlap, transaction.wall());
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
