//! API keys, as they are kept: never the key itself. Whether one is good is asked of the [`Directory`](crate::Directory).

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{ApiKey, ApiKeyId, KeyHash, Scopes, TenantId};

use super::{Page, PageOf, RecordsError};

/// An API key that is created.
#[derive(Clone, PartialEq, Debug)]
pub struct NewApiKey {
    /// How it is known again.
    pub hash: KeyHash,
    /// For people.
    pub name: String,
    /// What it may do.
    pub scopes: Scopes,
    /// For whom; none: for all tenants.
    pub tenant: Option<TenantId>,
    /// Until when it is good.
    pub expires_at: Option<Timestamp>,
}

/// API keys, as they are kept.
#[async_trait]
pub trait ApiKeys: Send + Sync + 'static {
    /// Creates a key. It is good from now on.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing) tenant, [`Exists`](RecordsError::Exists), or the database fails.
    async fn create_api_key(&self, new: NewApiKey) -> Result<ApiKey, RecordsError>;

    /// A key.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn api_key(&self, id: ApiKeyId) -> Result<ApiKey, RecordsError>;

    /// Keys, the newest first, revoked and expired ones too: all, or those for one tenant alone.
    ///
    /// # Errors
    /// If the cursor is none, or the database fails.
    async fn api_keys(&self, tenant: Option<&TenantId>, page: &PageOf) -> Result<Page<ApiKey>, RecordsError>;

    /// Revokes a key. When this returns, nobody gets in with it any more. One that was revoked before stays as it was.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn revoke_api_key(&self, id: ApiKeyId) -> Result<ApiKey, RecordsError>;
}
