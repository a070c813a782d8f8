//! API keys in a stopped gateway's data directory, for operators who have lost the last admin key. A user who can write
//! to the directory may do everything anyway.
//!
//! A running gateway keeps its keys in memory and locks its database, so its keys can be changed only through the API.

use std::path::Path;

use breakerbox_core::Timestamp;
use breakerbox_gateway::config::Config;
use breakerbox_model::objects::{ApiKey, ApiKeyId, ApiKeyText, Scope, Scopes, TenantId};
use breakerbox_storage::Defaults;
use breakerbox_storage::records::{ApiKeys, NewApiKey, PageOf, RecordsError};
use breakerbox_storage::secrets::KeySource;
use breakerbox_storage_sqlite::{Database, OpenError, Options, SqliteRecords};
use serde_json::{Value, json};

use super::{Action, COLUMNS, New, created_once, written};
use crate::failure::{Failure, with_sources};
use crate::output::Output;
use crate::serve;

pub(super) fn run(data: &Path, action: &Action, output: Output) -> Result<(), Failure> {
    // A typo in the path must not create a new database.
    if Database::schema(data).map_err(not_opened)?.current == 0 {
        let message =
            format!("--data {}: contains no database; `breakerbox serve` creates one", data.display());
        return Err(Failure::Input(message));
    }
    // The settings may specify another location for the master key.
    let config = Config { data: data.into(), ..serve::settings()? };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Environment(format!("can't start: {error}")))?;
    runtime.block_on(async {
        let records = open(&config).await?;
        match action {
            Action::Create(new) => create(&records, new, output).await,
            Action::List { tenant, limit } => list(&records, tenant.as_ref(), limit.most, output).await,
            Action::Revoke { id } => revoke(&records, id, output).await,
        }
    })
}

async fn open(config: &Config) -> Result<SqliteRecords, Failure> {
    let failed = |error: &dyn std::error::Error| Failure::Environment(with_sources(error));
    let database = Database::open(&config.data, Options::default()).map_err(not_opened)?;
    let sealed = SqliteRecords::anything_sealed(&database).await.map_err(|error| failed(&error))?;
    let source = match &config.secrets.master_key {
        Some(key) => KeySource::Variable(key.reveal().to_owned()),
        None => KeySource::File(config.master_key_file()),
    };
    let keyring = source.keyring(sealed).map_err(|error| failed(&error))?;
    SqliteRecords::open(database, keyring, Defaults::default()).await.map_err(|error| failed(&error))
}

fn not_opened(error: OpenError) -> Failure {
    let said = with_sources(&error);
    Failure::Environment(match error {
        OpenError::InUse { .. } => format!(
            "{said}. To use the API of the running gateway, omit --data and pass an admin key with --key"
        ),
        _ => said,
    })
}

async fn create(records: &SqliteRecords, new: &New, output: Output) -> Result<(), Failure> {
    let text = ApiKeyText::random();
    let kept = NewApiKey {
        hash: text.hash(),
        name: new.name.clone(),
        scopes: Scopes::of(&new.scopes),
        tenant: new.tenant.clone(),
        expires_at: new.expires_at(),
    };
    let mut created = shown(&records.create_api_key(kept).await.map_err(refused)?);
    created["key"] = text.reveal().into();
    created_once(&created, output)
}

async fn list(
    records: &SqliteRecords,
    tenant: Option<&TenantId>,
    limit: usize,
    output: Output,
) -> Result<(), Failure> {
    let mut items = vec![];
    let mut page = PageOf::first(limit);
    loop {
        let found = records.api_keys(tenant, &page).await.map_err(refused)?;
        items.extend(found.items.iter().map(shown));
        match found.next {
            Some(next) if items.len() < limit => page = PageOf::after(next, limit - items.len()),
            next => return output.list(COLUMNS, "/id", &items, next.is_some()),
        }
    }
}

async fn revoke(records: &SqliteRecords, id: &str, output: Output) -> Result<(), Failure> {
    let id: ApiKeyId = id.parse().map_err(|error| Failure::Input(format!("{id:?} {error}")))?;
    output.show(&shown(&records.revoke_api_key(id).await.map_err(refused)?))
}

/// Formats a key as the API does.
fn shown(key: &ApiKey) -> Value {
    let moment = |moment: Option<Timestamp>| moment.map(written);
    json!({
        "id": key.id.to_string(),
        "name": key.name,
        "scopes": key.scopes.iter().map(Scope::name).collect::<Vec<_>>(),
        "tenant": key.tenant.as_ref().map(TenantId::as_str),
        "created_at": written(key.created_at),
        "expires_at": moment(key.expires_at),
        "revoked_at": moment(key.revoked_at),
    })
}

fn refused(error: RecordsError) -> Failure {
    match error {
        RecordsError::Queue(error) => Failure::Environment(with_sources(&error)),
        other => Failure::Input(with_sources(&other)),
    }
}
