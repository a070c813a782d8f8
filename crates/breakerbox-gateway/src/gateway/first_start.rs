//! The first start: in an empty database there is nobody who could let anybody in, so a tenant and an admin key are made.

use crate::api::DEFAULT_TENANT;
use crate::objects::{ApiKeyText, Scope, Scopes, TenantId, TenantSettings};
use crate::queue::records::{NewApiKey, NewTenant, PageOf, Records, RecordsError};

/// What a first start made. The key is shown once and is nowhere else.
#[derive(Debug)]
pub struct FirstStart {
    /// For all tenants, and for everything.
    pub admin_key: ApiKeyText,
    /// Whose endpoints they are if nobody says otherwise.
    pub tenant: TenantId,
}

/// Makes what is missing in an empty database. None: it was not empty.
pub(super) async fn prepare(records: &dyn Records) -> Result<Option<FirstStart>, RecordsError> {
    let keys = records.api_keys(None, &PageOf::first(1)).await?;
    if !keys.items.is_empty() {
        return Ok(None);
    }
    let tenant: TenantId = DEFAULT_TENANT.parse().expect("it is a name for a tenant");
    let settings = TenantSettings::new("Default");
    match records.create_tenant(NewTenant { id: tenant.clone(), settings, secret: None }).await {
        Ok(_) | Err(RecordsError::Exists { .. }) => {}
        Err(error) => return Err(error),
    }
    let admin_key = ApiKeyText::random();
    let new = NewApiKey {
        hash: admin_key.hash(),
        name: "made at the first start".into(),
        scopes: Scopes::of(&[Scope::Admin]),
        tenant: None,
        expires_at: None,
    };
    records.create_api_key(new).await?;
    Ok(Some(FirstStart { admin_key, tenant }))
}
