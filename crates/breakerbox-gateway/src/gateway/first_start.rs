//! The first start: an empty database gets a tenant and an admin key, so that the operator can log in.
//!
//! The key is stored only after the operator has it: it is printed, or written to a file, *before* it is stored. A
//! gateway that is killed in between has no key, and its next start generates another one. An initial key that the
//! operator chose need not be shown.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use breakerbox_model::objects::{ApiKeyText, Scope, Scopes, TenantId, TenantSettings};
use breakerbox_storage::records::{NewApiKey, NewTenant, PageOf, Records, RecordsError};
use breakerbox_storage::secrets::{SecretsError, private_file};

use super::StartError;
use crate::api::DEFAULT_TENANT;
use crate::config::Config;

/// The admin key and the tenant that the first start created.
#[derive(Debug)]
pub struct FirstStart {
    /// The admin key, with all permissions for all tenants. The database stores only its hash.
    pub admin_key: ApiKeyText,
    /// How the operator received the key.
    pub handed_over: HandedOver,
    /// The default tenant, for requests that do not name one.
    pub tenant: TenantId,
}

/// How the operator received the admin key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HandedOver {
    /// The key was printed.
    Shown,
    /// The key was written to this file.
    InFile(PathBuf),
    /// The operator chose the key in the settings.
    Chosen,
}

/// Whether a new admin key could be shown to the operator. A key is shown before it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Show {
    /// The key was shown, and can be stored.
    Seen,
    /// The key can't be shown. It is not stored, and the next start tries again.
    NotSeen,
}

/// If the database has no API key, creates the default tenant and an admin key. Returns `None` if there already is a
/// key, or if the new key could not be shown.
pub(super) async fn prepare(
    records: &dyn Records,
    config: &Config,
    show: impl FnOnce(&ApiKeyText) -> io::Result<Show>,
) -> Result<Option<FirstStart>, StartError> {
    if !records.api_keys(None, &PageOf::first(1)).await?.items.is_empty() {
        return Ok(None);
    }
    let tenant: TenantId = DEFAULT_TENANT.parse().expect("it is a name for a tenant");
    let settings = TenantSettings::new("Default");
    match records.create_tenant(NewTenant { id: tenant.clone(), settings, secret: None }).await {
        Ok(_) | Err(RecordsError::Exists { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let Some((admin_key, handed_over)) = key(config, show)? else { return Ok(None) };
    let new = NewApiKey {
        hash: admin_key.hash(),
        name: "created at the first start".into(),
        scopes: Scopes::of(&[Scope::Admin]),
        tenant: None,
        expires_at: None,
    };
    records.create_api_key(new).await?;
    Ok(Some(FirstStart { admin_key, handed_over, tenant }))
}

/// Returns the admin key, and how the operator received it.
fn key(
    config: &Config,
    show: impl FnOnce(&ApiKeyText) -> io::Result<Show>,
) -> Result<Option<(ApiKeyText, HandedOver)>, StartError> {
    let secrets = &config.secrets;
    if let Some(chosen) = &secrets.initial_admin_key {
        return Ok(Some((parsed(chosen.reveal(), "secrets.initial_admin_key")?, HandedOver::Chosen)));
    }
    if let Some(path) = &secrets.initial_admin_key_file {
        let file = File::open(path).map_err(|error| SecretsError::File { path: path.clone(), error })?;
        let text = private_file::read(file, path)?;
        return Ok(Some((parsed(text.trim(), &path.display().to_string())?, HandedOver::Chosen)));
    }
    if let Some(path) = &secrets.admin_key_file {
        return Ok(Some((in_file(path)?, HandedOver::InFile(path.clone()))));
    }
    let key = ApiKeyText::random();
    match show(&key).map_err(StartError::AdminKey)? {
        Show::Seen => Ok(Some((key, HandedOver::Shown))),
        Show::NotSeen => Ok(None),
    }
}

/// Returns the key in this file, which is created if it does not exist. An existing file is from an interrupted first
/// start.
fn in_file(path: &Path) -> Result<ApiKeyText, StartError> {
    let failed = |error| SecretsError::File { path: path.to_owned(), error };
    match File::open(path) {
        Ok(file) => parsed(private_file::read(file, path)?.trim(), &path.display().to_string()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = ApiKeyText::random();
            private_file::make(path, &format!("{}\n", key.reveal())).map_err(failed)?;
            Ok(key)
        }
        Err(error) => Err(failed(error).into()),
    }
}

fn parsed(text: &str, place: &str) -> Result<ApiKeyText, StartError> {
    text.parse().map_err(|error| StartError::NotAnApiKey { place: place.to_owned(), error })
}
