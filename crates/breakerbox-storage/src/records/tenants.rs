//! Operations on tenants.

use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::objects::{Backlog, Revision, Secret, Tenant, TenantId, TenantSettings};

use super::{Edit, Page, PageOf, RecordsError};

/// The input for creating a tenant.
#[derive(Clone, PartialEq, Debug)]
pub struct NewTenant {
    /// The name of the new tenant.
    pub id: TenantId,
    /// The initial settings.
    pub settings: TenantSettings,
    /// The secret that signs deliveries to dynamic URLs. `None`: a new random secret.
    pub secret: Option<Secret>,
}

/// A tenant's unfinished deliveries, as count and bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct TenantBacklog {
    /// The name of the tenant.
    pub tenant: TenantId,
    /// Deliveries that are waiting or in flight.
    pub waiting: Backlog,
}

/// Operations on tenants.
#[async_trait]
pub trait Tenants: Send + Sync + 'static {
    /// Creates a tenant with these settings.
    ///
    /// # Errors
    /// Returns [`Exists`](RecordsError::Exists) if the name is in use, [`Policy`](RecordsError::Policy) or
    /// [`ReminderPolicy`](RecordsError::ReminderPolicy) if that policy is invalid, or a database error.
    async fn create_tenant(&self, new: NewTenant) -> Result<Tenant, RecordsError>;

    /// Returns the tenant with this name, with its secrets.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn tenant(&self, id: &TenantId) -> Result<Tenant, RecordsError>;

    /// Lists tenants, ordered by name.
    ///
    /// # Errors
    /// Returns an error if the cursor is invalid or the database fails.
    async fn tenants(&self, page: &PageOf) -> Result<Page<Tenant>, RecordsError>;

    /// Changes a tenant's settings. If `seen` is set, the tenant must still have that revision.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, [`Changed`](RecordsError::Changed) if
    /// the revision is not `seen`, [`Policy`](RecordsError::Policy) or
    /// [`ReminderPolicy`](RecordsError::ReminderPolicy) if that policy is invalid,
    /// [`EndpointPolicy`](RecordsError::EndpointPolicy) if an endpoint's policy conflicts with the new one,
    /// or a database error.
    async fn change_tenant(
        &self,
        id: &TenantId,
        settings: TenantSettings,
        seen: Option<Revision>,
    ) -> Result<Tenant, RecordsError> {
        self.edit_tenant(id, Box::new(|_| Ok(settings)), seen).await
    }

    /// Changes a tenant like [`change_tenant`](Self::change_tenant), with settings computed from the stored tenant.
    ///
    /// # Errors
    /// The same as for [`change_tenant`](Self::change_tenant), and [`Refused`](RecordsError::Refused) if the
    /// edit rejects the stored tenant.
    async fn edit_tenant(
        &self,
        id: &TenantId,
        edit: Edit<Tenant, TenantSettings>,
        seen: Option<Revision>,
    ) -> Result<Tenant, RecordsError>;

    /// Deletes a tenant that has no endpoints and no unfinished work, together with its API keys. Its finished
    /// deliveries are kept until their retention ends.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, [`Changed`](RecordsError::Changed) if
    /// the revision is not `seen`, [`InUse`](RecordsError::InUse) if the tenant still has endpoints or
    /// unfinished work, or a database error.
    async fn delete_tenant(&self, id: &TenantId, seen: Option<Revision>) -> Result<(), RecordsError>;

    /// Rotates the tenant's signing secret. Requests are signed with the new secret and, during the overlap, also
    /// with the previous one.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn rotate_tenant_secret(
        &self,
        id: &TenantId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<Tenant, RecordsError>;

    /// Ends a rotation: only the newest secret remains valid.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn end_tenant_rotation(&self, id: &TenantId) -> Result<Tenant, RecordsError>;

    /// Lists the tenants' backlogs, ordered by name, without tenants whose backlog is empty. The counts are
    /// updated with each change, so this reads no deliveries.
    ///
    /// # Errors
    /// Returns an error if the cursor is invalid or the database fails.
    async fn backlogs(&self, page: &PageOf) -> Result<Page<TenantBacklog>, RecordsError>;

    /// Returns the number and bytes of a tenant's unfinished deliveries.
    ///
    /// # Errors
    /// Returns [`Missing`](RecordsError::Missing) if the id is unknown, or a database error.
    async fn backlog(&self, id: &TenantId) -> Result<Backlog, RecordsError>;
}
