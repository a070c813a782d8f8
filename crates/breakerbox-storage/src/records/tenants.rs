//! Operations on tenants.

use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::objects::{Backlog, Revision, Secret, Tenant, TenantId, TenantSettings};

use super::{Edit, Page, PageOf, RecordsError};

/// A tenant to create.
#[derive(Clone, PartialEq, Debug)]
pub struct NewTenant {
    /// The name of the tenant.
    pub id: TenantId,
    /// The settings, which can be changed later.
    pub settings: TenantSettings,
    /// The secret with which deliveries to dynamic URLs are signed. `None`: a new random one.
    pub secret: Option<Secret>,
}

/// The backlog of a tenant.
#[derive(Clone, PartialEq, Debug)]
pub struct TenantBacklog {
    /// The tenant.
    pub tenant: TenantId,
    /// Deliveries that wait or are in flight.
    pub waiting: Backlog,
}

/// Operations on tenants.
#[async_trait]
pub trait Tenants: Send + Sync + 'static {
    /// Creates a tenant.
    ///
    /// # Errors
    /// [`Exists`](RecordsError::Exists), [`Policy`](RecordsError::Policy), or the database fails.
    async fn create_tenant(&self, new: NewTenant) -> Result<Tenant, RecordsError>;

    /// Returns a tenant, with its secrets.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn tenant(&self, id: &TenantId) -> Result<Tenant, RecordsError>;

    /// Lists tenants by name.
    ///
    /// # Errors
    /// If the cursor is invalid, or the database fails.
    async fn tenants(&self, page: &PageOf) -> Result<Page<Tenant>, RecordsError>;

    /// Changes a tenant, if its revision is still the given one; without a revision, in any case.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`Changed`](RecordsError::Changed), [`Policy`](RecordsError::Policy) (also
    /// if an endpoint's policy does not fit the new one), or the database fails.
    async fn change_tenant(
        &self,
        id: &TenantId,
        settings: TenantSettings,
        seen: Option<Revision>,
    ) -> Result<Tenant, RecordsError> {
        self.edit_tenant(id, Box::new(|_| Ok(settings)), seen).await
    }

    /// Changes a tenant like [`change_tenant`](Self::change_tenant), with an edit of the stored settings.
    ///
    /// # Errors
    /// As [`change_tenant`](Self::change_tenant), and [`Refused`](RecordsError::Refused).
    async fn edit_tenant(
        &self,
        id: &TenantId,
        edit: Edit<Tenant, TenantSettings>,
        seen: Option<Revision>,
    ) -> Result<Tenant, RecordsError>;

    /// Deletes a tenant that has no endpoints and no unfinished work, with its API keys. Its finished work stays until
    /// its retention ends.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), [`Changed`](RecordsError::Changed), [`InUse`](RecordsError::InUse), or the
    /// database fails.
    async fn delete_tenant(&self, id: &TenantId, seen: Option<Revision>) -> Result<(), RecordsError>;

    /// Rotates the signing secret: requests are signed with this one from now on, and for the overlap with the previous
    /// one too.
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

    /// Lists the backlogs of tenants, by name; tenants without any are left out. The counts are maintained, so the cost
    /// grows with the length of the page only.
    ///
    /// # Errors
    /// If the cursor is invalid, or the database fails.
    async fn backlogs(&self, page: &PageOf) -> Result<Page<TenantBacklog>, RecordsError>;

    /// Returns the backlog of one tenant.
    ///
    /// # Errors
    /// [`Missing`](RecordsError::Missing), or the database fails.
    async fn backlog(&self, id: &TenantId) -> Result<Backlog, RecordsError>;
}
