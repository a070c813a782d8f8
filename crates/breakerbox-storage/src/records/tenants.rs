//! Tenants, as they are kept.

use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::objects::{Backlog, Revision, Secret, Tenant, TenantId, TenantSettings};

use super::{Edit, Page, PageOf, RecordsError};

/// A tenant that is created.
#[derive(Clone, PartialEq, Debug)]
pub struct NewTenant {
    /// Its name.
    pub id: TenantId,
    /// The rest.
    pub settings: TenantSettings,
    /// With which deliveries to dynamic URLs are signed; none: a new one.
    pub secret: Option<Secret>,
}

/// How much of a tenant's work waits.
#[derive(Clone, PartialEq, Debug)]
pub struct TenantBacklog {
    /// Whose.
    pub tenant: TenantId,
    /// What waits or is in flight.
    pub waiting: Backlog,
}

/// Tenants, as they are kept.
#[async_trait]
pub trait Tenants: Send + Sync + 'static {
    /// Creates a tenant.
    ///
    /// # Errors
    /// [`Exists`](RecordsError::Exists), [`Policy`](RecordsError::Policy), or the database fails.
    async fn create_tenant(&self, new: NewTenant) -> Result<Tenant, RecordsError>;

    /// A tenant, with its secrets.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn tenant(&self, id: &TenantId) -> Result<Tenant, RecordsError>;

    /// Tenants by name.
    ///
    /// # Errors
    /// If the cursor is none, or the database fails.
    async fn tenants(&self, page: &PageOf) -> Result<Page<Tenant>, RecordsError>;

    /// Changes a tenant, if it is still as it was seen; without a revision, whatever it is.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`Changed`](RecordsError::Changed), [`Policy`](RecordsError::Policy) (also if an
    /// endpoint's policy does not fit the new one), or the database fails.
    async fn change_tenant(
        &self,
        id: &TenantId,
        settings: TenantSettings,
        seen: Option<Revision>,
    ) -> Result<Tenant, RecordsError> {
        self.edit_tenant(id, Box::new(|_| Ok(settings)), seen).await
    }

    /// The same with settings that are made from the stored ones.
    ///
    /// # Errors
    /// As [`change_tenant`](Self::change_tenant), and [`Refused`](RecordsError::Refused).
    async fn edit_tenant(
        &self,
        id: &TenantId,
        edit: Edit<Tenant, TenantSettings>,
        seen: Option<Revision>,
    ) -> Result<Tenant, RecordsError>;

    /// Deletes a tenant that has no endpoints and no unfinished work, with its API keys. Its finished work stays until it was
    /// kept long enough.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`Changed`](RecordsError::Changed), [`InUse`](RecordsError::InUse), or the
    /// database fails.
    async fn delete_tenant(&self, id: &TenantId, seen: Option<Revision>) -> Result<(), RecordsError>;

    /// Signs with this secret from now on, and for the overlap with the one before too.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn rotate_tenant_secret(
        &self,
        id: &TenantId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<Tenant, RecordsError>;

    /// Ends a rotation: only the newest secret stays.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn end_tenant_rotation(&self, id: &TenantId) -> Result<Tenant, RecordsError>;

    /// How much of each tenant's work waits, by name; tenants without any are left out. Counted all along, so it costs as
    /// much as the page is long.
    ///
    /// # Errors
    /// If the cursor is none, or the database fails.
    async fn backlogs(&self, page: &PageOf) -> Result<Page<TenantBacklog>, RecordsError>;

    /// How much of one tenant's work waits.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn backlog(&self, id: &TenantId) -> Result<Backlog, RecordsError>;
}
