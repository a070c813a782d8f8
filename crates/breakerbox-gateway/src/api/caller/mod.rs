//! Authentication and authorization of callers.
//!
//! A request carries its key as `Authorization: Bearer bbx_...`. Only the key's hash is looked up. Resources of other
//! tenants return 404, as if they did not exist.

mod failures;

use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use axum::extract::FromRequestParts;
use breakerbox_model::objects::{ApiKey, ApiKeyText, Scope, TenantId, TenantNumber};
use breakerbox_storage::Directory;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;

pub(super) use self::failures::Failures;
use super::Api;
use super::problem::{ApiResult, Code, Problem};
use super::serve::{OpenConnection, Peer};

/// The tenant for requests that name no tenant and whose key is not bound to one.
pub const DEFAULT_TENANT: &str = "default";

/// An authenticated caller, identified by its API key.
#[derive(Clone, Debug)]
pub(super) struct Caller(pub(super) Arc<ApiKey>);

/// A caller whose key has at least one of the scopes in `S`.
pub(super) struct Allowed<S>(pub(super) Caller, pub(super) PhantomData<S>);

/// The scopes that give access to a route.
pub(super) trait Wanted: std::marker::Send + Sync + 'static {
    /// The scopes of which the caller's key needs at least one.
    const SCOPES: &'static [Scope];
}

macro_rules! wanted {
    ($($name:ident: $($scope:ident)or+;)*) => {$(
        pub(super) enum $name {}

        impl Wanted for $name {
            const SCOPES: &'static [Scope] = &[$(Scope::$scope),+];
        }
    )*};
}

wanted! {
    Admin: Admin;
    Manage: Manage;
    Read: Read;
    Send: Send;
    SendOrManage: Send or Manage;
    SendOrRead: Send or Read;
}

impl<S: Wanted> FromRequestParts<Api> for Allowed<S> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> ApiResult<Self> {
        let peer = parts.extensions.get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0);
        let caller = identify(&parts.headers, peer, api)?;
        if let Some(connection) = parts.extensions.get::<Arc<OpenConnection>>() {
            connection.mark_known();
        }
        caller.needs_any(S::SCOPES, "this")?;
        // Recorded for reading the body, which takes memory from this caller's share.
        parts.extensions.insert(caller.clone());
        Ok(Self(caller, PhantomData))
    }
}

/// Authenticates a request by the API key in its `Authorization` header. `peer` is the client's address, from which
/// only a limited number of invalid keys per minute is accepted.
fn identify(headers: &HeaderMap, peer: IpAddr, api: &Api) -> ApiResult<Caller> {
    let Some(presented) = headers.get(AUTHORIZATION) else {
        let detail = "send an API key with the header `authorization: Bearer bbx_...`";
        return Err(Problem::new(Code::Unauthenticated, detail));
    };
    let text = presented.to_str().unwrap_or_default();
    let key = text.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let key = key.and_then(|(_, key)| key.trim().parse::<ApiKeyText>().ok());
    let found = key.and_then(|key| api.services.directory.api_key(&key.hash(), api.wall()));
    match found {
        Some(key) => Ok(Caller(key)),
        None => {
            let now = Instant::now();
            if let Some(wait) = api.failures.wait(peer, now) {
                let detail = "too many requests without a valid API key from this address";
                return Err(Problem::new(Code::TooManyFailures, detail).retry_after(wait));
            }
            api.failures.count(peer, now);
            let detail = "the API key is unknown, revoked or expired";
            Err(Problem::new(Code::Unauthenticated, detail))
        }
    }
}

impl Caller {
    /// Checks that the key has this scope. `why` is what needs the scope, as the subject of the error message.
    pub(super) fn needs(&self, scope: Scope, why: &str) -> ApiResult<()> {
        self.needs_any(&[scope], why)
    }

    /// Checks that the key has at least one of these scopes. `why` is what needs the scope, as the subject of the error
    /// message.
    fn needs_any(&self, scopes: &[Scope], why: &str) -> ApiResult<()> {
        if scopes.iter().any(|scope| self.0.scopes.allow(*scope)) {
            return Ok(());
        }
        Err(Problem::scope_missing(scopes, why))
    }

    /// Checks that the key is not bound to one tenant. `why` is what needs such a key, as the subject of the error
    /// message.
    pub(super) fn needs_all_tenants(&self, why: &str) -> ApiResult<()> {
        if self.0.tenant.is_none() {
            return Ok(());
        }
        Err(Problem::new(Code::TenantMismatch, format!("{why} needs an API key for all tenants")))
    }

    /// Returns whether the key may access resources of this tenant.
    pub(super) fn sees(&self, tenant: &TenantId) -> bool {
        self.0.tenant.as_ref().is_none_or(|own| own == tenant)
    }

    /// Returns whether the key may access resources of the tenant with this number. Names are not compared, since a
    /// deleted tenant may have had the same name.
    pub(super) fn owns(&self, owner: TenantNumber, directory: &Directory) -> bool {
        match &self.0.tenant {
            None => true,
            Some(own) => directory.tenant(own).is_some_and(|entry| entry.row == owner.0),
        }
    }

    /// Returns the tenant for a new resource: `named`, or else the key's tenant, or else the default tenant.
    pub(super) fn tenant_for(&self, named: Option<TenantId>) -> ApiResult<TenantId> {
        match (&self.0.tenant, named) {
            (Some(own), Some(named)) if *own != named => Err(mismatch(&named)),
            (Some(own), _) => Ok(own.clone()),
            (None, Some(named)) => Ok(named),
            (None, None) => Ok(DEFAULT_TENANT.parse().expect("it is a name of a tenant")),
        }
    }

    /// Returns the tenant whose resources to list. `None` means all tenants. A tenant that does not exist is a problem,
    /// so that a mistyped name does not look like a tenant without resources.
    pub(super) fn tenant_seen(
        &self,
        named: Option<TenantId>,
        directory: &Directory,
    ) -> ApiResult<Option<TenantId>> {
        match (&self.0.tenant, named) {
            (Some(own), Some(named)) if *own != named => Err(mismatch(&named)),
            (Some(own), _) => Ok(Some(own.clone())),
            (None, Some(named)) if directory.tenant(&named).is_none() => {
                Err(Problem::tenant_not_found(named.as_str()))
            }
            (None, named) => Ok(named),
        }
    }
}

/// Returns the problem for a key that is bound to another tenant. It does not reveal whether the named tenant exists.
fn mismatch(named: &TenantId) -> Problem {
    let detail = format!("tenant: this API key is not valid for the tenant {:?}", named.as_str());
    Problem::new(Code::TenantMismatch, detail).of_field("tenant")
}
