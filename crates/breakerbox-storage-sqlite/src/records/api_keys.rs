//! API keys: read from the directory, changed through the writer.

use std::sync::Arc;

use async_trait::async_trait;
use breakerbox_model::objects::{ApiKey, ApiKeyId, Id, TenantId};
use breakerbox_storage::RecordsError;
use breakerbox_storage::records::{ApiKeys, Cursor, NewApiKey, Page, PageOf};
use rusqlite::params;

use super::SqliteRecords;
use crate::WriteTransaction;
use crate::columns::micros;
use crate::error::JobError;
use breakerbox_storage::records::cursors::{CursorPosition, position};

const API_KEY: &str = "API key";

/// The maximum number of keys that are read for one page, to find those bound to a tenant.
const LOOKS: usize = 10_000;

impl SqliteRecords {
    fn known_api_key(&self, id: ApiKeyId) -> Result<Arc<ApiKey>, RecordsError> {
        self.directory.api_key_named(id).ok_or_else(|| RecordsError::missing(API_KEY, id))
    }

    /// Inserts an API key, and adds it to the directory after the commit.
    pub(super) fn insert_api_key(
        &self,
        transaction: &mut WriteTransaction<'_>,
        new: NewApiKey,
    ) -> Result<ApiKey, JobError<RecordsError>> {
        let tenant = match &new.tenant {
            Some(id) => {
                let tenant = self.directory.tenant(id);
                Some(tenant.ok_or_else(|| RecordsError::missing("tenant", id))?.row)
            }
            None => None,
        };
        let key = ApiKey {
            id: ApiKeyId(transaction.next_id()),
            hash: new.hash,
            name: new.name,
            scopes: new.scopes,
            tenant: new.tenant,
            created_at: transaction.wall(),
            expires_at: new.expires_at,
            revoked_at: None,
        };
        let written = transaction
            .connection()
            .prepare_cached(
                "INSERT INTO api_keys (id, hash, name, scopes, tenant, created_at, expires_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (hash) DO NOTHING",
            )?
            .execute(params![
                key.id.number(),
                key.hash.0,
                key.name,
                key.scopes.bits(),
                tenant,
                micros(key.created_at),
                key.expires_at.map(micros)
            ])?;
        if written == 0 {
            return Err(RecordsError::Exists { what: API_KEY, name: key.name }.into());
        }
        let (directory, stored) = (Arc::clone(&self.directory), key.clone());
        transaction.after_commit(move || directory.put_api_key(stored));
        Ok(key)
    }
}

#[async_trait]
impl ApiKeys for SqliteRecords {
    async fn create_api_key(&self, new: NewApiKey) -> Result<ApiKey, RecordsError> {
        let records = self.clone();
        self.database.write(move |transaction| records.insert_api_key(transaction, new)).await
    }

    async fn api_key(&self, id: ApiKeyId) -> Result<ApiKey, RecordsError> {
        Ok((*self.known_api_key(id)?).clone())
    }

    async fn api_keys(&self, tenant: Option<&TenantId>, of: &PageOf) -> Result<Page<ApiKey>, RecordsError> {
        let before = position::<Id>(of)?.map(ApiKeyId);
        let (found, last) = self.directory.api_keys_before(tenant, before, of.size(), LOOKS);
        let items = found.iter().map(|key| (**key).clone()).collect();
        Ok(Page { items, next: last.map(|last| Cursor(last.0.write())) })
    }

    async fn revoke_api_key(&self, id: ApiKeyId) -> Result<ApiKey, RecordsError> {
        let records = self.clone();
        self.database
            .write(move |transaction| {
                let mut key = (*records.known_api_key(id)?).clone();
                if key.revoked_at.is_some() {
                    return Ok(key);
                }
                key.revoked_at = Some(transaction.wall());
                transaction.connection().execute(
                    "UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1",
                    params![id.number(), micros(transaction.wall())],
                )?;
                let (directory, stored) = (Arc::clone(&records.directory), key.clone());
                transaction.after_commit(move || directory.put_api_key(stored));
                Ok(key)
            })
            .await
    }
}
