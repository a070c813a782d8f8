//! Adds stored tenants and endpoints to the directory, at startup and when another process has changed them.
//!
//! The gateway's own policy may have changed since a policy was stored. A stored policy that is no longer valid is
//! ignored with a warning, so that deliveries continue with the policy below it.

use breakerbox_model::objects::{Endpoint, Tenant};
use serde_json::json;

use super::Directory;
use crate::records::RecordsError;

impl Directory {
    /// Adds a stored tenant with this number, or replaces it. Its endpoints stay as they are.
    ///
    /// # Errors
    /// Returns an error if the tenant is invalid for another reason than its policies.
    pub fn load_tenant(&self, mut tenant: Tenant, row: i64) -> Result<(), RecordsError> {
        let resolved = |tenant: &Tenant| self.resolve_tenant(tenant.clone(), row);
        let mut entry = resolved(&tenant);
        if let Err(RecordsError::Policy(problem)) = &entry {
            tracing::warn!(tenant = %tenant.id, problem, "ignoring the tenant's policy: it is invalid together with the gateway's policy");
            tenant.settings.policy = None;
            entry = resolved(&tenant);
        }
        if let Err(RecordsError::ReminderPolicy(problem)) = &entry {
            tracing::warn!(tenant = %tenant.id, problem, "ignoring the policy of the tenant's reminders: it is invalid; the preset applies");
            // This is independent of the layers below, because a preset starts over.
            tenant.settings.reminders.policy = Some(json!({ "preset": "reminders" }));
            entry = resolved(&tenant);
        }
        self.put_tenant_endpoints(self.resolve_tenant_endpoints(entry?)?);
        Ok(())
    }

    /// Adds a stored endpoint, or replaces it.
    ///
    /// # Errors
    /// Returns an error if the tenant does not exist, or the endpoint is invalid for another reason than its policy.
    pub fn load_endpoint(&self, mut endpoint: Endpoint) -> Result<(), RecordsError> {
        let entry = match self.resolve_endpoint(endpoint.clone()) {
            Err(RecordsError::Policy(problem)) => {
                tracing::warn!(endpoint = %endpoint.id, problem, "ignoring the endpoint's policy: it is invalid together with the tenant's policy");
                endpoint.settings.policy = None;
                self.resolve_endpoint(endpoint)
            }
            resolved => resolved,
        }?;
        self.put_endpoint(entry);
        Ok(())
    }
}
