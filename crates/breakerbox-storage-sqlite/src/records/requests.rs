//! Idempotent requests: each object is created in one transaction with its idempotency key.

use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::objects::{
    ApiKey, Endpoint, EndpointId, Reminder, ReminderId, Resend, Secret, Tenant, TenantId,
};
use breakerbox_storage::RecordsError;
use breakerbox_storage::records::{
    NewApiKey, NewEndpoint, NewReminder, NewResend, NewTenant, Request, RequestResult, Requests,
};

use super::reminders::create_all;
use super::{SqliteRecords, reminders};
use crate::WriteTransaction;
use crate::error::JobError;
use crate::idempotency::{OPERATOR, earlier, remember};

impl SqliteRecords {
    /// Carries out a request with `create` and returns its response. If an earlier request with the same
    /// idempotency key was already carried out, returns the stored response instead.
    async fn once<T: Send + 'static>(
        &self,
        request: Request<T>,
        create: impl FnOnce(&Self, &mut WriteTransaction<'_>) -> Result<T, JobError<RecordsError>>
        + Send
        + 'static,
    ) -> Result<RequestResult, RecordsError> {
        let Request { key, scope, respond } = request;
        let records = self.clone();
        let Some(key) = key else {
            let created = self.database.write(move |transaction| create(&records, transaction)).await?;
            return Ok(RequestResult { response: respond(&created), repeated: false });
        };
        self.database
            .write(move |transaction| {
                let scope = match &scope {
                    None => Some(OPERATOR),
                    Some(tenant) => records.directory.tenant(tenant).map(|entry| entry.row),
                };
                // Nothing can be created for a tenant that does not exist: the operation itself reports that.
                let Some(scope) = scope else {
                    let created = create(&records, transaction)?;
                    return Ok(RequestResult { response: respond(&created), repeated: false });
                };
                if let Some(earlier) = earlier(transaction, scope, &key)? {
                    return Ok(RequestResult { response: earlier.response()?, repeated: true });
                }
                let response = respond(&create(&records, transaction)?);
                remember(transaction, scope, &key, &response)?;
                Ok(RequestResult { response, repeated: false })
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
    ) -> Result<RequestResult, RecordsError> {
        self.once(request, move |records, transaction| records.insert_tenant(transaction, new)).await
    }

    async fn create_endpoint_for(
        &self,
        request: Request<Endpoint>,
        new: NewEndpoint,
    ) -> Result<RequestResult, RecordsError> {
        self.once(request, move |records, transaction| records.insert_endpoint(transaction, new)).await
    }

    async fn create_api_key_for(
        &self,
        request: Request<ApiKey>,
        new: NewApiKey,
    ) -> Result<RequestResult, RecordsError> {
        self.once(request, move |records, transaction| records.insert_api_key(transaction, new)).await
    }

    async fn create_reminder_for(
        &self,
        request: Request<Reminder>,
        new: NewReminder,
    ) -> Result<RequestResult, RecordsError> {
        self.once(request, move |records, transaction| reminders::create_one(records, transaction, &new))
            .await
    }

    async fn create_reminders_for(
        &self,
        request: Request<Vec<Reminder>>,
        new: Vec<NewReminder>,
    ) -> Result<RequestResult, RecordsError> {
        self.once(request, move |records, transaction| create_all(records, transaction, &new)).await
    }

    async fn run_reminder_for(
        &self,
        request: Request<Reminder>,
        id: ReminderId,
    ) -> Result<RequestResult, RecordsError> {
        self.once(request, move |records, transaction| reminders::run_now(records, transaction, id)).await
    }

    async fn create_resend_for(
        &self,
        request: Request<Resend>,
        new: NewResend,
    ) -> Result<RequestResult, RecordsError> {
        self.once(request, move |records, transaction| records.insert_resend(transaction, &new)).await
    }

    async fn rotate_tenant_secret_for(
        &self,
        request: Request<Tenant>,
        id: &TenantId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<RequestResult, RecordsError> {
        let id = id.clone();
        let rotate = move |records: &Self, transaction: &mut WriteTransaction<'_>| {
            records.update_tenant(transaction, &id, |tenant, transaction| {
                tenant.secrets = tenant.secrets.rotated(secret, overlap, transaction.wall());
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
    ) -> Result<RequestResult, RecordsError> {
        let rotate = move |records: &Self, transaction: &mut WriteTransaction<'_>| {
            records.update_endpoint(transaction, id, |endpoint, transaction| {
                endpoint.secrets = endpoint.secrets.rotated(secret, overlap, transaction.wall());
                Ok(())
            })
        };
        self.once(request, rotate).await
    }
}
