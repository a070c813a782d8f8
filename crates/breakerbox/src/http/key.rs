//! Extracts a request's key from its URL and its tenant.

use std::fmt;
use std::sync::Arc;

use breakerbox_core::{CircuitBy, Key, KeyError};

use crate::extract::ExtractKey;

/// The tenant for which a request is made, as an extension of the request.
///
/// ```
/// use breakerbox::http::Tenant;
///
/// let mut request = http::Request::get("https://hooks.acme.example/in").body(())?;
/// request.extensions_mut().insert(Tenant::new("acme"));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// Creates a tenant with this name. The name is validated later, when a key is built.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.into())
    }

    /// Returns the tenant's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Extracts keys from URLs, with one key for each endpoint, host or tenant, as [`Key::of`] and [`Key::of_url`] build
/// them.
///
/// If a request has a [`Tenant`], the tenant is part of the key. Requests without a tenant share the circuits of their
/// URL or host. If all calls of a service belong to tenants, set [`require_tenant`](Self::require_tenant), so that a
/// request whose tenant was forgotten is not sent.
///
/// The URL must be absolute, as in clients' requests. If paths contain ids (`/orders/17`), a circuit per endpoint is
/// too fine-grained: use [`CircuitBy::Host`], or a function that knows your paths.
///
/// ```
/// use breakerbox::http::{KeyFromUrl, Tenant};
/// use breakerbox::{CircuitBy, ExtractKey, KeyError};
///
/// let mut request = http::Request::get("https://Hooks.Acme.example:443/in?try=2").body(())?;
/// let by_host = KeyFromUrl::by(CircuitBy::Host);
/// assert_eq!(by_host.key(&request)?.text(), "hooks.acme.example");
///
/// let by_endpoint = KeyFromUrl::by(CircuitBy::Endpoint).require_tenant();
/// assert_eq!(by_endpoint.key(&request), Err(KeyError::NoTenant));
/// request.extensions_mut().insert(Tenant::new("acme"));
/// assert_eq!(by_endpoint.key(&request)?.text(), "acme https://hooks.acme.example/in");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeyFromUrl {
    by: CircuitBy,
    without_tenant: WithoutTenant,
}

/// What the key of a request without a [`Tenant`] is.
#[derive(Clone, Debug)]
enum WithoutTenant {
    /// A key without a tenant.
    Url,
    /// The key for this tenant.
    Default(Tenant),
    /// None: the request is not sent.
    Refused,
}

impl KeyFromUrl {
    /// Creates an extractor with one key for each endpoint, host or tenant.
    #[must_use]
    pub const fn by(by: CircuitBy) -> Self {
        Self { by, without_tenant: WithoutTenant::Url }
    }

    /// Sets the tenant for requests without a [`Tenant`].
    #[must_use]
    pub fn or_tenant(self, name: &str) -> Self {
        Self { without_tenant: WithoutTenant::Default(Tenant::new(name)), ..self }
    }

    /// Refuses requests without a [`Tenant`], which are then not sent.
    #[must_use]
    pub fn require_tenant(self) -> Self {
        Self { without_tenant: WithoutTenant::Refused, ..self }
    }

    pub(crate) fn of(&self, extensions: &http::Extensions, url: &str) -> Result<Key, KeyError> {
        match (extensions.get::<Tenant>(), &self.without_tenant) {
            (Some(tenant), _) | (None, WithoutTenant::Default(tenant)) => {
                Key::of(tenant.name(), url, self.by)
            }
            (None, WithoutTenant::Url) => Key::of_url(url, self.by),
            (None, WithoutTenant::Refused) => Err(KeyError::NoTenant),
        }
    }
}

impl<B> ExtractKey<http::Request<B>> for KeyFromUrl {
    fn key(&self, request: &http::Request<B>) -> Result<Key, KeyError> {
        self.of(request.extensions(), &request.uri().to_string())
    }
}
