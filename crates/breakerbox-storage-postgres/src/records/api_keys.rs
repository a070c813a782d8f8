//! API keys: read from the directory, changed in a transaction that locks the directory.

use async_trait::async_trait;
use breakerbox_model::objects::{ApiKey, ApiKeyId, Id, TenantId};
use breakerbox_storage::RecordsError;
use breakerbox_storage::records::cursors::{CursorPosition, position};
use breakerbox_storage::records::{ApiKeys, Cursor, NewApiKey, Page, PageOf};
use breakerbox_storage::stored::codes::micros;

use super::PostgresRecords;
use super::work::Work;

const API_KEY: &str = "API key";

/// The maximum number of keys that are read for one page, to find those bound to a tenant.
const LOOKS: usize = 10_000;

impl PostgresRecords {
    /// Inserts an API key, and adds it to the directory after the commit.
    pub(super) async fn insert_api_key(
        &self,
        work: &mut Work,
        new: NewApiKey,
    ) -> Result<ApiKey, RecordsError> {
        let tenant = new.tenant.as_ref().map(|id| self.known_tenant(id)).transpose()?.map(|entry| entry.row);
        let key = ApiKey {
            id: ApiKeyId(work.transaction.next_id()),
            hash: new.hash,
            name: new.name,
            scopes: new.scopes,
            tenant: new.tenant,
            created_at: work.now,
            expires_at: new.expires_at,
            revoked_at: None,
        };
        let written = work
            .transaction
            .execute(
                include_str!("../sql/records/insert_api_key_unless_known.sql"),
                &[
                    &key.id.number(),
                    &&key.hash.0[..],
                    &key.name,
                    &i64::from(key.scopes.bits()),
                    &tenant,
                    &micros(key.created_at),
                    &key.expires_at.map(micros),
                ],
            )
            .await?;
        if written == 0 {
            return Err(RecordsError::Exists { what: API_KEY, name: key.name });
        }
        let stored = key.clone();
        work.after_commit(move |directory| directory.put_api_key(stored));
        Ok(key)
    }
}

#[async_trait]
impl ApiKeys for PostgresRecords {
    async fn create_api_key(&self, new: NewApiKey) -> Result<ApiKey, RecordsError> {
        let mut work = self.begin_change().await?;
        let key = self.insert_api_key(&mut work, new).await?;
        work.commit(&self.directory).await?;
        Ok(key)
    }

    async fn api_key(&self, id: ApiKeyId) -> Result<ApiKey, RecordsError> {
        let found = self.look_up(|directory| directory.api_key_named(id)).await?;
        found.map(|key| (*key).clone()).ok_or_else(|| RecordsError::missing(API_KEY, id))
    }

    async fn api_keys(&self, tenant: Option<&TenantId>, of: &PageOf) -> Result<Page<ApiKey>, RecordsError> {
        let before = position::<Id>(of)?.map(ApiKeyId);
        let (found, last) = self.directory.api_keys_before(tenant, before, of.size(), LOOKS);
        let items = found.iter().map(|key| (**key).clone()).collect();
        Ok(Page { items, next: last.map(|last| Cursor(last.0.write())) })
    }

    async fn revoke_api_key(&self, id: ApiKeyId) -> Result<ApiKey, RecordsError> {
        let mut work = self.begin_change().await?;
        let known = self.directory.api_key_named(id);
        let mut key = (*known.ok_or_else(|| RecordsError::missing(API_KEY, id))?).clone();
        if key.revoked_at.is_some() {
            return Ok(key);
        }
        key.revoked_at = Some(work.now);
        let sql = include_str!("../sql/records/revoke_api_key.sql");
        work.transaction.execute(sql, &[&id.number(), &micros(work.now)]).await?;
        let stored = key.clone();
        work.after_commit(move |directory| directory.put_api_key(stored));
        work.commit(&self.directory).await?;
        Ok(key)
    }
}
