//! Operations on API keys. The key itself is never stored. The [`Directory`](crate::Directory) checks whether a key is
//! valid.

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{ApiKey, ApiKeyId, KeyHash, Scopes, TenantId};

use super::{Page, PageOf, RecordsError};

/// An API key to create.
#[derive(Clone, PartialEq, Debug)]
pub struct NewApiKey {
    /// The hash by which a presented key is recognized.
    pub hash: KeyHash,
    /// A description for people.
    pub name: String,
    /// The operations that the key allows.
    pub scopes: Scopes,
    /// The tenant that the key is bound to. `None`: the key is for all tenants.
    pub tenant: Option<TenantId>,
    /// When the key expires. `None`: it never expires.
    pub expires_at: Option<Timestamp>,
}

/// Operations on API keys.
#[async_trait]
pub trait ApiKeys: Send + Sync + 'static {
    /// Creates a key. It is valid from now on.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing) tenant, [`Exists`](RecordsError::Exists), or the database fails.
    async fn create_api_key(&self, new: NewApiKey) -> Result<ApiKey, RecordsError>;

    /// Returns a key.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn api_key(&self, id: ApiKeyId) -> Result<ApiKey, RecordsError>;

    /// Lists keys, the newest first, including revoked and expired ones: all, or those bound to one tenant.
    ///
    /// # Errors
    /// If the cursor is invalid, or the database fails.
    async fn api_keys(&self, tenant: Option<&TenantId>, page: &PageOf) -> Result<Page<ApiKey>, RecordsError>;

    /// Revokes a key. When this returns, no request is accepted with it any more. A key that was revoked before is not
    /// changed.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn revoke_api_key(&self, id: ApiKeyId) -> Result<ApiKey, RecordsError>;
}
