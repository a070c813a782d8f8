//! Operations on API keys. Only hashes of keys are stored. The [`Directory`](crate::Directory) checks whether a key
//! is valid.

use async_trait::async_trait;
use breakerbox_core::Timestamp;
use breakerbox_model::objects::{ApiKey, ApiKeyId, KeyHash, Scopes, TenantId};

use super::{Page, PageOf, RecordsError};

/// The input for creating an API key.
#[derive(Clone, PartialEq, Debug)]
pub struct NewApiKey {
    /// The hash that a key sent by a client is compared with.
    pub hash: KeyHash,
    /// A human-readable description.
    pub name: String,
    /// The operations that the key allows.
    pub scopes: Scopes,
    /// The tenant that the key is bound to. `None`: the key may act for all tenants.
    pub tenant: Option<TenantId>,
    /// When the key expires. `None`: it never expires.
    pub expires_at: Option<Timestamp>,
}

/// Operations on API keys.
#[async_trait]
pub trait ApiKeys: Send + Sync + 'static {
    /// Creates an API key, which is valid at once.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the tenant does not exist, [`Exists`](RecordsError::Exists) if
    /// a key with the same hash is stored, or a database error.
    async fn create_api_key(&self, new: NewApiKey) -> Result<ApiKey, RecordsError>;

    /// Returns the API key with this id.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn api_key(&self, id: ApiKeyId) -> Result<ApiKey, RecordsError>;

    /// Lists API keys, newest first, including revoked and expired ones: those bound to one tenant, or all.
    ///
    /// # Errors
    /// Returns an error if the cursor is invalid or the database fails.
    async fn api_keys(&self, tenant: Option<&TenantId>, page: &PageOf) -> Result<Page<ApiKey>, RecordsError>;

    /// Revokes an API key. When this returns, the key is no longer accepted. A key that is already revoked is not
    /// changed.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn revoke_api_key(&self, id: ApiKeyId) -> Result<ApiKey, RecordsError>;
}
