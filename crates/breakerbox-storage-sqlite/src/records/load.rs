//! Loads the directory at startup. Every secret is decrypted, so that a missing master key is detected at startup and
//! not at the first delivery.

use breakerbox_core::Timestamp;
use breakerbox_model::objects::{
    ApiKey, ApiKeyId, Endpoint, EndpointId, KeyHash, Revision, Scopes, Tenant, TenantId,
};
use breakerbox_storage::Directory;
use breakerbox_storage::secrets::Keyring;
use breakerbox_storage::stored::{LoadError, settings as stored};
use rusqlite::Connection;

use crate::Database;
use crate::columns::{id, parsed, time};
use crate::error::{JobError, queue_error};
use crate::last_attempts;
use std::sync::Arc;

impl From<JobError<Self>> for LoadError {
    fn from(JobError(error): JobError<Self>) -> Self {
        error
    }
}

impl From<rusqlite::Error> for JobError<LoadError> {
    fn from(error: rusqlite::Error) -> Self {
        Self(queue_error(error).into())
    }
}

pub(super) async fn fill(
    database: &Database,
    directory: &Arc<Directory>,
    keyring: &Arc<Keyring>,
) -> Result<(), LoadError> {
    let (directory, keyring) = (Arc::clone(directory), Arc::clone(keyring));
    database
        .read(move |connection| {
            tenants(connection, &directory, &keyring)?;
            endpoints(connection, &directory, &keyring)?;
            api_keys(connection, &directory)?;
            last_attempts::load(connection, &directory)?;
            Ok(())
        })
        .await
}

fn tenants(
    connection: &Connection,
    directory: &Directory,
    keyring: &Keyring,
) -> Result<(), JobError<LoadError>> {
    let mut statement = connection.prepare(
        "SELECT row, id, settings, sealed, revision, created_at, changed_at FROM tenants WHERE deleted_at IS NULL",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let id: TenantId = parsed(1, row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)?;
        let (settings, secrets) =
            stored::tenant_of(&row.get::<_, String>(2)?, row.get(3)?, keyring, id.as_str())?;
        let tenant = Tenant {
            id,
            settings,
            secrets,
            revision: Revision(row.get(4)?),
            created_at: at(row, 5)?,
            changed_at: at(row, 6)?,
        };
        directory.load_tenant(tenant, row.get(0)?).map_err(LoadError::from)?;
    }
    Ok(())
}

fn endpoints(
    connection: &Connection,
    directory: &Directory,
    keyring: &Keyring,
) -> Result<(), JobError<LoadError>> {
    let mut statement = connection.prepare(
        "SELECT e.id, t.id, e.settings, e.sealed, e.disabled, e.revision, e.created_at, e.changed_at
         FROM endpoints e JOIN tenants t ON t.row = e.tenant ORDER BY e.id",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let endpoint_id = EndpointId(id(row.get(0)?));
        let (settings, secrets) =
            stored::endpoint_of(&row.get::<_, String>(2)?, row.get(3)?, keyring, &endpoint_id.to_string())?;
        let endpoint = Endpoint {
            id: endpoint_id,
            tenant: parsed(1, row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)?,
            settings,
            disabled: row.get::<_, Option<String>>(4)?.as_deref().map(stored::disabled),
            secrets,
            revision: Revision(row.get(5)?),
            created_at: at(row, 6)?,
            changed_at: at(row, 7)?,
        };
        directory.load_endpoint(endpoint).map_err(LoadError::from)?;
    }
    Ok(())
}

fn api_keys(connection: &Connection, directory: &Directory) -> Result<(), JobError<LoadError>> {
    let mut statement = connection.prepare(
        "SELECT k.id, k.hash, k.name, k.scopes, t.id, k.created_at, k.expires_at, k.revoked_at
         FROM api_keys k LEFT JOIN tenants t ON t.row = k.tenant",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let tenant = row.get_ref(4)?.as_str_or_null().map_err(rusqlite::Error::from)?;
        directory.put_api_key(ApiKey {
            id: ApiKeyId(id(row.get(0)?)),
            hash: KeyHash(row.get(1)?),
            name: row.get(2)?,
            scopes: Scopes::from_bits(row.get(3)?),
            tenant: tenant.map(|tenant| parsed(4, tenant)).transpose()?,
            created_at: at(row, 5)?,
            expires_at: row.get::<_, Option<i64>>(6)?.map(time),
            revoked_at: row.get::<_, Option<i64>>(7)?.map(time),
        });
    }
    Ok(())
}

fn at(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(time)
}
