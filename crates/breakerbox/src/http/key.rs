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

/// Extracts keys from URLs, with one key for each endpoint, host or tenant, as [`Key::of`] builds them.
///
/// The request's [`Tenant`] is part of the key. If a service has only one tenant, name it with
/// [`or_tenant`](Self::or_tenant). Otherwise a request without a tenant is not sent, because it would share circuits
/// with all other such requests.
///
/// The URL must be absolute, as in clients' requests. If paths contain ids (`/orders/17`), a circuit per endpoint is
/// too fine-grained: use [`CircuitBy::Host`], or a function that knows your paths.
///
/// ```
/// use breakerbox::http::{KeyFromUrl, Tenant};
/// use breakerbox::{CircuitBy, ExtractKey, KeyError};
///
/// let mut request = http::Request::get("https://Hooks.Acme.example:443/in?try=2").body(())?;
/// let by_host = KeyFromUrl::by(CircuitBy::Host).or_tenant("shop");
/// assert_eq!(by_host.key(&request)?.text(), "shop hooks.acme.example");
///
/// let by_endpoint = KeyFromUrl::by(CircuitBy::Endpoint);
/// assert_eq!(by_endpoint.key(&request), Err(KeyError::NoTenant));
/// request.extensions_mut().insert(Tenant::new("acme"));
/// assert_eq!(by_endpoint.key(&request)?.text(), "acme https://hooks.acme.example/in");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct KeyFromUrl {
    by: CircuitBy,
    or_tenant: Option<Tenant>,
}

impl KeyFromUrl {
    /// Creates an extractor with one key for each endpoint, host or tenant.
    #[must_use]
    pub const fn by(by: CircuitBy) -> Self {
        Self { by, or_tenant: None }
    }

    /// Sets the tenant for requests without a [`Tenant`].
    #[must_use]
    pub fn or_tenant(self, name: &str) -> Self {
        Self { or_tenant: Some(Tenant::new(name)), ..self }
    }

    pub(crate) fn of(&self, extensions: &http::Extensions, url: &str) -> Result<Key, KeyError> {
        let tenant = extensions.get().or(self.or_tenant.as_ref()).ok_or(KeyError::NoTenant)?;
        Key::of(tenant.name(), url, self.by)
    }
}

impl<B> ExtractKey<http::Request<B>> for KeyFromUrl {
    fn key(&self, request: &http::Request<B>) -> Result<Key, KeyError> {
        self.of(request.extensions(), &request.uri().to_string())
    }
}
