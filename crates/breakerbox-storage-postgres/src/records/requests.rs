//! Idempotent requests: each object is created in one transaction with its idempotency key.

use std::time::Duration;

use async_trait::async_trait;
use breakerbox_model::objects::{
    ApiKey, Endpoint, EndpointId, Id, IdempotencyKey, Reminder, ReminderId, Resend, Revision, Secret, Tenant,
    TenantId,
};
use breakerbox_storage::records::{
    NewApiKey, NewEndpoint, NewReminder, NewResend, NewTenant, Request, RequestResponse, RequestResult,
    Requests,
};
use breakerbox_storage::{QueueError, RecordsError};
use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::PostgresRecords;
use super::work::Work;
use crate::error::get;

/// How long an idempotency key is kept.
const REMEMBERED: Duration = Duration::from_secs(24 * 3_600);

/// The tenant number under which the operator's own idempotency keys are stored. No tenant has this number.
const OPERATOR: i64 = 0;

/// Whether a request changes tenants, endpoints or API keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Changes {
    Directory,
    OtherRecords,
}

impl PostgresRecords {
    /// Carries out a request with `create` and returns its response. If an earlier request with the same
    /// idempotency key was already carried out, returns the stored response instead.
    async fn once<T: Send + Sync>(
        &self,
        request: Request<T>,
        changes: Changes,
        create: impl for<'c> FnOnce(&'c Self, &'c mut Work) -> BoxFuture<'c, Result<T, RecordsError>> + Send,
    ) -> Result<RequestResult, RecordsError> {
        let Request { key, scope, respond } = request;
        let scope = match (&key, &scope) {
            (None, _) => None,
            (Some(_), None) => Some(OPERATOR),
            (Some(_), Some(tenant)) => {
                self.look_up(|directory| directory.tenant(tenant)).await?.map(|entry| entry.row)
            }
        };
        let mut work = match changes {
            Changes::Directory => self.begin_change().await?,
            Changes::OtherRecords => self.begin().await?,
        };
        // Nothing can be created for a tenant that does not exist: the operation itself reports that.
        let (Some(key), Some(scope)) = (key, scope) else {
            let created = create(self, &mut work).await?;
            work.commit(&self.directory).await?;
            return Ok(RequestResult { response: respond(&created), repeated: false });
        };
        if let Some(response) = earlier(&work, scope, &key).await? {
            return Ok(RequestResult { response: response?, repeated: true });
        }
        let response = respond(&create(self, &mut work).await?);
        remember(&work, scope, &key, &response).await?;
        work.commit(&self.directory).await?;
        Ok(RequestResult { response, repeated: false })
    }
}

/// Returns the lowest row id that an unexpired idempotency key can have.
fn remembered_since(work: &Work) -> i64 {
    Id::first_at(work.now.before(REMEMBERED)).number()
}

/// Finds an earlier request with this key, if the key is still valid, and returns its stored response. Waits for requests
/// with the same key that are being carried out.
async fn earlier(
    work: &Work,
    scope: i64,
    key: &IdempotencyKey,
) -> Result<Option<Result<RequestResponse, RecordsError>>, QueueError> {
    let lock = include_str!("../sql/records/lock_idempotency_key.sql");
    work.transaction.query(lock, &[&scope, &&*key.key]).await?;
    let sql = include_str!("../sql/records/find_idempotency_key.sql");
    let found = work.transaction.query_opt(sql, &[&scope, &&*key.key, &remembered_since(work)]).await?;
    let Some(row) = found else { return Ok(None) };
    let fingerprint: &[u8] = get(&row, 0)?;
    if fingerprint != &key.fingerprint[..] {
        return Ok(Some(Err(RecordsError::KeyReused)));
    }
    let created: String = get::<Option<String>>(&row, 1)?.unwrap_or_default();
    let status: Option<i64> = get(&row, 2)?;
    let status = status.and_then(|status| u16::try_from(status).ok());
    let (Some(status), Some(body)) = (status, get::<Option<Vec<u8>>>(&row, 4)?) else {
        return Ok(Some(Err(RecordsError::AlreadyCreated { id: created })));
    };
    let revision = get::<Option<i64>>(&row, 3)?.map(Revision);
    let body = Bytes::from(body);
    Ok(Some(Ok(RequestResponse { created, status, revision, body, has_secret: false })))
}

/// Stores a request's idempotency key and its response. If the response contains a secret, only the created object's
/// id is stored.
async fn remember(
    work: &Work,
    scope: i64,
    key: &IdempotencyKey,
    response: &RequestResponse,
) -> Result<(), RecordsError> {
    let body = (!response.has_secret).then_some(&response.body[..]);
    let sql = include_str!("../sql/records/remember_request_if_new.sql");
    let written = work
        .transaction
        .execute(
            sql,
            &[
                &work.transaction.next_id().number(),
                &scope,
                &&*key.key,
                &&key.fingerprint[..],
                &response.created,
                &i64::from(response.status),
                &response.revision.map(|revision| revision.0),
                &body,
                &remembered_since(work),
            ],
        )
        .await?;
    // Another process has just used the key for a batch of events.
    if written == 0 { Err(RecordsError::KeyReused) } else { Ok(()) }
}

#[async_trait]
impl Requests for PostgresRecords {
    async fn create_tenant_for(
        &self,
        request: Request<Tenant>,
        new: NewTenant,
    ) -> Result<RequestResult, RecordsError> {
        self.once(request, Changes::Directory, |records, work| Box::pin(records.insert_tenant(work, new)))
            .await
    }

    async fn create_endpoint_for(
        &self,
        request: Request<Endpoint>,
        new: NewEndpoint,
    ) -> Result<RequestResult, RecordsError> {
        self.once(request, Changes::Directory, |records, work| Box::pin(records.insert_endpoint(work, new)))
            .await
    }

    async fn create_api_key_for(
        &self,
        request: Request<ApiKey>,
        new: NewApiKey,
    ) -> Result<RequestResult, RecordsError> {
        self.once(request, Changes::Directory, |records, work| Box::pin(records.insert_api_key(work, new)))
            .await
    }

    async fn create_reminder_for(
        &self,
        request: Request<Reminder>,
        new: NewReminder,
    ) -> Result<RequestResult, RecordsError> {
        self.know_tenants(std::slice::from_ref(&new)).await?;
        self.once(request, Changes::OtherRecords, |records, work| {
            Box::pin(records.insert_reminder(work, new))
        })
        .await
    }

    async fn create_reminders_for(
        &self,
        request: Request<Vec<Reminder>>,
        new: Vec<NewReminder>,
    ) -> Result<RequestResult, RecordsError> {
        self.know_tenants(&new).await?;
        self.once(request, Changes::OtherRecords, |records, work| {
            Box::pin(records.insert_reminders(work, new))
        })
        .await
    }

    async fn run_reminder_for(
        &self,
        request: Request<Reminder>,
        id: ReminderId,
    ) -> Result<RequestResult, RecordsError> {
        self.once(request, Changes::OtherRecords, move |records, work| {
            Box::pin(records.run_reminder_now(work, id))
        })
        .await
    }

    async fn create_resend_for(
        &self,
        request: Request<Resend>,
        new: NewResend,
    ) -> Result<RequestResult, RecordsError> {
        self.know_filter(&new).await?;
        self.once(request, Changes::OtherRecords, |records, work| Box::pin(records.insert_resend(work, new)))
            .await
    }

    async fn rotate_tenant_secret_for(
        &self,
        request: Request<Tenant>,
        id: &TenantId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<RequestResult, RecordsError> {
        let id = id.clone();
        self.once(request, Changes::Directory, move |records, work| {
            Box::pin(async move {
                let rotate = |tenant: &mut Tenant, now| {
                    tenant.secrets = tenant.secrets.rotated(secret, overlap, now);
                    Ok(())
                };
                records.update_tenant(work, &id, rotate).await
            })
        })
        .await
    }

    async fn rotate_endpoint_secret_for(
        &self,
        request: Request<Endpoint>,
        id: EndpointId,
        secret: Secret,
        overlap: Duration,
    ) -> Result<RequestResult, RecordsError> {
        self.once(request, Changes::Directory, move |records, work| {
            Box::pin(async move {
                let rotate = |endpoint: &mut Endpoint, now| {
                    endpoint.secrets = endpoint.secrets.rotated(secret, overlap, now);
                    Ok(())
                };
                records.update_endpoint(work, id, rotate).await
            })
        })
        .await
    }
}
