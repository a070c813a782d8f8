//! Requests that are carried out once: each creation in one transaction with its idempotency key.

use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::objects::{
    ApiKey, Endpoint, EndpointId, Reminder, ReminderId, Resend, Secret, Tenant, TenantId,
};
use breakerbox_storage::RecordsError;
use breakerbox_storage::records::{
    Answered, NewApiKey, NewEndpoint, NewReminder, NewResend, NewTenant, Request, Requests,
};

use super::reminders::create_all;
use super::{SqliteRecords, reminders};
use crate::Writing;
use crate::error::JobError;
use crate::idempotency::{OPERATOR, earlier, remember};

impl SqliteRecords {
    /// Carries a request out, unless it was carried out before.
    async fn once<T: Send + 'static>(
        &self,
        request: Request<T>,
        create: impl FnOnce(&Self, &mut Writing<'_>) -> Result<T, JobError<RecordsError>> + Send + 'static,
    ) -> Result<Answered, RecordsError> {
        let Request { key, scope, respond } = request;
        let records = self.clone();
        let Some(key) = key else {
            let created = self.database.write(move |writing| create(&records, writing)).await?;
            return Ok(Answered { response: respond(&created), repeated: false });
        };
        self.database
            .write(move |writing| {
                let scope = match &scope {
                    None => Some(OPERATOR),
                    Some(tenant) => records.directory.tenant(tenant).map(|entry| entry.row),
                };
                // Without its tenant nothing can be created: the creation itself reports that.
                let Some(scope) = scope else {
                    let created = create(&records, writing)?;
                    return Ok(Answered { response: respond(&created), repeated: false });
                };
                if let Some(earlier) = earlier(writing, scope, &key)? {
                    return Ok(Answered { response: earlier.response()?, repeated: true });
                }
                let response = respond(&create(&records, writing)?);
                remember(writing, scope, &key, &response)?;
                Ok(Answered { response, repeated: false })
            })
            .await
    }
}

#[async_trait]
impl Requests for SqliteRecords {
    async fn create_tenant_for(
        &self,
        request: Request<Tenant>,
        new: NewTenant,
    ) -> Result<Answered, RecordsError> {
        self.once(request, move |records, writing| records.insert_tenant(writing, new)).await
    }

    async fn create_endpoint_for(
        &self,
        request: Request<Endpoint>,
        new: NewEndpoint,
    ) -> Result<Answered, RecordsError> {
        self.once(request, move |records, writing| records.insert_endpoint(writing, new)).await
    }

    async fn create_api_key_for(
        &self,
        request: Request<ApiKey>,
        new: NewApiKey,
    ) -> Result<Answered, RecordsError> {
        self.once(request, move |records, writing| records.insert_api_key(writing, new)).await
    }

    async fn create_reminder_for(
        &self,
        request: Request<Reminder>,
        new: NewReminder,
    ) -> Result<Answered, RecordsError> {
        self.once(request, move |records, writing| reminders::create_one(records, writing, &new)).await
    }

    async fn create_reminders_for(
        &self,
        request: Request<Vec<Reminder>>,
        new: Vec<NewReminder>,
    ) -> Result<Answered, RecordsError> {
        self.once(request, move |records, writing| create_all(records, writing, &new)).await
    }

    async fn run_reminder_for(
        &self,
        request: Request<Reminder>,
        id: ReminderId,
    ) -> Result<Answered, RecordsError> {
        self.once(request, move |records, writing| reminders::run_now(records, writing, id)).await
    }

    async fn create_resend_for(
        &self,
        request: Request<Resend>,
        new: NewResend,
    ) -> Result<Answered, RecordsError> {
        self.once(request, move |records, writing| records.insert_resend(writing, &new)).await
    }

    async fn rotate_tenant_secret_for(
        &self,
        request: Request<Tenant>,
        id: &TenantId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<Answered, RecordsError> {
        let id = id.clone();
        let rotate = move |records: &Self, writing: &mut Writing<'_>| {
            records.update_tenant(writing, &id, |tenant, writing| {
                tenant.secrets = tenant.secrets.rotated(secret, overlap, writing.wall());
                Ok(())
            })
        };
        self.once(request, rotate).await
    }

    async fn rotate_endpoint_secret_for(
        &self,
        request: Request<Endpoint>,
        id: EndpointId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<Answered, RecordsError> {
        let rotate = move |records: &Self, writing: &mut Writing<'_>| {
            records.update_endpoint(writing, id, |endpoint, writing| {
                endpoint.secrets = endpoint.secrets.rotated(secret, overlap, writing.wall());
                Ok(())
            })
        };
        self.once(request, rotate).await
    }
}
