//! Loads the directory, at startup and after changes by other processes.
//!
//! At startup every secret is decrypted, so that a missing master key is detected then and not at the first delivery.
//! Later, an object that can't be read keeps its earlier state in memory, so that it does not affect the others.

use std::collections::HashSet;
use std::sync::Arc;

use breakerbox_model::objects::{
    ApiKey, ApiKeyId, Endpoint, EndpointId, KeyHash, LaneId, Revision, Scopes, Tenant, TenantId,
};
use breakerbox_storage::secrets::Keyring;
use breakerbox_storage::stored::codes::{id, number};
use breakerbox_storage::stored::settings::{ENDPOINT, TENANT, disabled, endpoint_of, tenant_of};
use breakerbox_storage::stored::{LoadError, Unreadable};
use breakerbox_storage::{Directory, QueueError};
use tokio_postgres::Row;

use crate::columns::{at, column, last_attempt, listed, maybe_at, parsed_column};
use crate::database::Transaction;
use crate::error::get;

/// The number of rows that are read at once.
const PIECE: usize = 5_000;
/// The maximum number of changed objects that are read one by one. If there are more, the whole directory is read.
const MAX_CHANGES: usize = 20_000;

const OF_TENANT: i64 = 0;
const OF_ENDPOINT: i64 = 1;

/// Reads tenants, endpoints and API keys into the directory.
#[derive(Clone)]
pub(super) struct Loader {
    pub(super) directory: Arc<Directory>,
    pub(super) keyring: Arc<Keyring>,
}

/// A tenant as it is stored. A deleted tenant has no secrets any more, so its settings are not read.
struct TenantRow {
    number: i64,
    id: TenantId,
    /// The tenant; `None`: it was deleted.
    tenant: Option<Tenant>,
}

impl Loader {
    /// Loads everything, in a transaction that sees one snapshot, and returns the version that it has.
    pub(super) async fn load_all(&self, transaction: &Transaction) -> Result<i64, LoadError> {
        let version = version(transaction, include_str!("../sql/records/directory_version.sql")).await?;
        let mut after = i64::MIN;
        loop {
            let sql = include_str!("../sql/records/load_tenants.sql");
            let rows = transaction.query(sql, &[&after, &number(PIECE as u64)]).await?;
            let Some(last) = rows.last() else { break };
            after = get(last, 0)?;
            for row in &rows {
                let TenantRow { number, tenant, .. } = self.tenant(row)?;
                if let Some(tenant) = tenant {
                    self.directory.load_tenant(tenant, number)?;
                }
            }
        }
        after = i64::MIN;
        loop {
            let sql = include_str!("../sql/records/load_endpoints.sql");
            let rows = transaction.query(sql, &[&after, &number(PIECE as u64)]).await?;
            let Some(last) = rows.last() else { break };
            after = get(last, 0)?;
            for row in &rows {
                self.directory.load_endpoint(self.endpoint(row)?)?;
            }
        }
        after = i64::MIN;
        loop {
            let sql = include_str!("../sql/records/load_api_keys.sql");
            let rows = transaction.query(sql, &[&after, &number(PIECE as u64)]).await?;
            let Some(last) = rows.last() else { break };
            after = get(last, 0)?;
            for row in &rows {
                let key = api_key(row).map_err(|_| key_unreadable(row))?;
                self.directory.put_api_key(key);
            }
        }
        self.load_last_attempts(transaction).await?;
        Ok(version)
    }

    /// Loads the latest attempt of each lane. Those of dynamic URLs are loaded by their circuit's key. One that can't be read is
    /// left out: it is only for people.
    async fn load_last_attempts(&self, transaction: &Transaction) -> Result<(), QueueError> {
        let mut after = i64::MIN;
        loop {
            let sql = include_str!("../sql/records/load_last_attempts.sql");
            let rows = transaction.query(sql, &[&after, &number(PIECE as u64)]).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = get(last, 0)?;
            for row in &rows {
                let lane = LaneId(id(get(row, 0)?));
                let endpoint = self.directory.endpoint(lane).map(|endpoint| Arc::clone(&endpoint.circuit));
                let key: Option<Arc<str>> = get::<Option<&str>>(row, 5)?.map(Arc::from);
                let attempt = listed(last_attempt(row), "latest attempt of the lane", lane);
                if let (Some(key), Some(attempt)) = (endpoint.or(key), attempt) {
                    self.directory.note_attempt(lane, &key, attempt);
                }
            }
        }
    }

    /// Locks the directory's version in the database, and applies all changes since the version `known`.
    pub(super) async fn catch_up_locked(
        &self,
        transaction: &Transaction,
        known: &mut i64,
    ) -> Result<(), QueueError> {
        let current = version(transaction, include_str!("../sql/records/lock_directory.sql")).await?;
        self.apply_until(transaction, known, current).await
    }

    /// Applies all changes that a read transaction sees since the version `known`.
    pub(super) async fn catch_up(
        &self,
        transaction: &Transaction,
        known: &mut i64,
    ) -> Result<(), QueueError> {
        let current = version(transaction, include_str!("../sql/records/directory_version.sql")).await?;
        self.apply_until(transaction, known, current).await
    }

    async fn apply_until(
        &self,
        transaction: &Transaction,
        known: &mut i64,
        current: i64,
    ) -> Result<(), QueueError> {
        if current <= *known {
            return Ok(());
        }
        let sql = include_str!("../sql/records/directory_changes.sql");
        let rows = transaction.query(sql, &[&*known, &current, &number(MAX_CHANGES as u64)]).await?;
        let first = rows.first().map(|row| get::<i64>(row, 2)).transpose()?;
        let is_complete =
            rows.len() < MAX_CHANGES && first.is_some_and(|first| first <= known.saturating_add(1));
        if is_complete {
            let (mut tenants, mut endpoints, mut keys) = (Vec::new(), Vec::new(), Vec::new());
            for row in &rows {
                let id: i64 = get(row, 1)?;
                match get(row, 0)? {
                    OF_TENANT => tenants.push(id),
                    OF_ENDPOINT => endpoints.push(id),
                    _ => keys.push(id),
                }
            }
            self.apply_endpoints_gone(transaction, &endpoints).await?;
            self.apply_tenants(transaction, &tenants).await?;
            self.apply_endpoints(transaction, &endpoints).await?;
            self.apply_api_keys(transaction, &keys).await?;
        } else {
            self.apply_everything(transaction).await?;
        }
        *known = current;
        Ok(())
    }

    /// Reads everything again, and removes what is no longer stored.
    async fn apply_everything(&self, transaction: &Transaction) -> Result<(), QueueError> {
        let sql = include_str!("../sql/records/directory_ids.sql");
        let mut ids: [Vec<i64>; 3] = Default::default();
        for row in transaction.query(sql, &[]).await? {
            let kind = usize::try_from(get::<i64>(&row, 0)?).unwrap_or(2);
            ids[kind.min(2)].push(get(&row, 1)?);
        }
        let [tenants, endpoints, keys] = ids;
        let stored: HashSet<i64> = endpoints.iter().copied().collect();
        for entry in self.directory.endpoints() {
            if !stored.contains(&entry.id.number()) {
                self.directory.remove_endpoint(entry.id);
            }
        }
        let stored: HashSet<i64> = tenants.iter().copied().collect();
        for entry in self.directory.tenants() {
            if !stored.contains(&entry.row) {
                self.directory.remove_tenant(&entry.id);
            }
        }
        for piece in tenants.chunks(PIECE) {
            self.apply_tenants(transaction, piece).await?;
        }
        for piece in endpoints.chunks(PIECE) {
            self.apply_endpoints(transaction, piece).await?;
        }
        for piece in keys.chunks(PIECE) {
            self.apply_api_keys(transaction, piece).await?;
        }
        Ok(())
    }

    async fn apply_tenants(&self, transaction: &Transaction, numbers: &[i64]) -> Result<(), QueueError> {
        if numbers.is_empty() {
            return Ok(());
        }
        let sql = include_str!("../sql/records/tenants_by_number.sql");
        let rows = transaction.query(sql, &[&numbers.to_vec()]).await?;
        // A name may be used again: the tenant that had it before goes first, because its number is lower.
        for row in &rows {
            match self.tenant(row) {
                Ok(TenantRow { number, id, tenant: None }) => {
                    if self.directory.tenant(&id).is_some_and(|known| known.row == number) {
                        self.directory.remove_tenant(&id);
                    }
                }
                Ok(TenantRow { number, tenant: Some(tenant), .. }) => {
                    let is_known = self
                        .directory
                        .tenant(&tenant.id)
                        .is_some_and(|known| known.row == number && known.source == tenant);
                    if !is_known && let Err(error) = self.directory.load_tenant(tenant, number) {
                        tracing::error!(number, %error, "can't apply a tenant's change");
                    }
                }
                Err(error) => tracing::error!(%error, "can't apply a tenant's change"),
            }
        }
        Ok(())
    }

    async fn apply_endpoints_gone(&self, transaction: &Transaction, ids: &[i64]) -> Result<(), QueueError> {
        if ids.is_empty() {
            return Ok(());
        }
        let sql = include_str!("../sql/records/endpoints_gone.sql");
        for row in transaction.query(sql, &[&ids.to_vec()]).await? {
            let gone = EndpointId(id(get(&row, 0)?));
            if self.directory.endpoint(gone.into()).is_some() {
                self.directory.remove_endpoint(gone);
            }
        }
        Ok(())
    }

    async fn apply_endpoints(&self, transaction: &Transaction, ids: &[i64]) -> Result<(), QueueError> {
        if ids.is_empty() {
            return Ok(());
        }
        let sql = include_str!("../sql/records/endpoints_by_id.sql");
        for row in transaction.query(sql, &[&ids.to_vec()]).await? {
            let endpoint = match self.endpoint(&row) {
                Ok(endpoint) => endpoint,
                Err(error) => {
                    tracing::error!(%error, "can't apply an endpoint's change");
                    continue;
                }
            };
            let known = self.directory.endpoint(endpoint.id.into());
            let endpoint_id = endpoint.id;
            if known.is_none_or(|known| known.source != endpoint)
                && let Err(error) = self.directory.load_endpoint(endpoint)
            {
                tracing::error!(endpoint = %endpoint_id, %error, "can't apply an endpoint's change");
            }
        }
        Ok(())
    }

    async fn apply_api_keys(&self, transaction: &Transaction, ids: &[i64]) -> Result<(), QueueError> {
        if ids.is_empty() {
            return Ok(());
        }
        let sql = include_str!("../sql/records/api_keys_by_id.sql");
        for row in transaction.query(sql, &[&ids.to_vec()]).await? {
            match api_key(&row) {
                Ok(key) => self.directory.put_api_key(key),
                Err(error) => tracing::error!(%error, "can't apply an API key's change"),
            }
        }
        Ok(())
    }

    fn tenant(&self, row: &Row) -> Result<TenantRow, LoadError> {
        let name: &str = column(row, "id").map_err(|_| unreadable(TENANT, row, "id"))?;
        let broken = |column| move |_: Unreadable| unreadable_named(TENANT, name, column);
        let id: TenantId = parsed_column(row, "id").map_err(broken("id"))?;
        let number = column(row, "row").map_err(broken("row"))?;
        if maybe_at(row, "deleted_at").map_err(broken("deleted_at"))?.is_some() {
            return Ok(TenantRow { number, id, tenant: None });
        }
        let settings: &str = column(row, "settings").map_err(broken("settings"))?;
        let sealed: Vec<u8> = column(row, "sealed").map_err(broken("sealed"))?;
        let (settings, secrets) = tenant_of(settings, sealed, &self.keyring, name)?;
        let tenant = Tenant {
            id: id.clone(),
            settings,
            secrets,
            revision: Revision(column(row, "revision").map_err(broken("revision"))?),
            created_at: at(row, "created_at").map_err(broken("created_at"))?,
            changed_at: at(row, "changed_at").map_err(broken("changed_at"))?,
        };
        Ok(TenantRow { number, id, tenant: Some(tenant) })
    }

    fn endpoint(&self, row: &Row) -> Result<Endpoint, LoadError> {
        let number: i64 = column(row, "id").map_err(|_| unreadable(ENDPOINT, row, "id"))?;
        let endpoint = EndpointId(id(number));
        let name = endpoint.to_string();
        let broken = |column| {
            let name = &name;
            move |_: Unreadable| unreadable_named(ENDPOINT, name, column)
        };
        let settings: &str = column(row, "settings").map_err(broken("settings"))?;
        let sealed: Vec<u8> = column(row, "sealed").map_err(broken("sealed"))?;
        let (settings, secrets) = endpoint_of(settings, sealed, &self.keyring, &name)?;
        let because: Option<&str> = column(row, "disabled").map_err(broken("disabled"))?;
        Ok(Endpoint {
            id: endpoint,
            tenant: parsed_column(row, "tenant").map_err(broken("tenant"))?,
            settings,
            disabled: because.map(disabled),
            secrets,
            revision: Revision(column(row, "revision").map_err(broken("revision"))?),
            created_at: at(row, "created_at").map_err(broken("created_at"))?,
            changed_at: at(row, "changed_at").map_err(broken("changed_at"))?,
        })
    }
}

async fn version(transaction: &Transaction, sql: &str) -> Result<i64, QueueError> {
    transaction.query_opt(sql, &[]).await?.map_or(Ok(0), |row| get(&row, 0))
}

fn api_key(row: &Row) -> Result<ApiKey, Unreadable> {
    let tenant: Option<&str> = column(row, "tenant")?;
    let hash: &[u8] = column(row, "hash")?;
    let scopes: i64 = column(row, "scopes")?;
    Ok(ApiKey {
        id: ApiKeyId(id(column(row, "id")?)),
        hash: KeyHash(hash.try_into().map_err(Unreadable::new)?),
        name: column(row, "name")?,
        scopes: Scopes::from_bits(u8::try_from(scopes).map_err(Unreadable::new)?),
        tenant: tenant.map(breakerbox_storage::stored::parsed).transpose()?,
        created_at: at(row, "created_at")?,
        expires_at: maybe_at(row, "expires_at")?,
        revoked_at: maybe_at(row, "revoked_at")?,
    })
}

fn key_unreadable(row: &Row) -> LoadError {
    unreadable("API key", row, "row")
}

/// Returns the error for a row whose name can't be read, either.
fn unreadable(what: &'static str, row: &Row, column: &'static str) -> LoadError {
    let name = row.try_get::<_, i64>("id").map_or_else(|_| "?".to_owned(), |number| number.to_string());
    LoadError::Unreadable { what, name, column }
}

fn unreadable_named(what: &'static str, name: &str, column: &'static str) -> LoadError {
    LoadError::Unreadable { what, name: name.to_owned(), column }
}
