//! A tenant with its endpoints, and which of them receive events of a type.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use breakerbox_model::objects::{EndpointId, EventType};

use super::{EndpointEntry, TenantEntry};

/// The maximum number of event types per tenant whose matching endpoints are cached.
const REMEMBERED_TYPES: usize = 512;

/// The maximum number of endpoints in all cached matches, which limits them to 8 MiB.
const REMEMBERED_ENDPOINTS: usize = 1 << 20;

/// The number of endpoints above which an uncached match is slow enough to be computed in advance.
const MATCHED_AHEAD: usize = 256;

/// A tenant with its endpoints, which caches the endpoints that receive each event type.
#[derive(Debug)]
pub struct TenantEndpoints {
    pub(super) entry: Arc<TenantEntry>,
    /// The tenant's endpoints, oldest first.
    pub(super) endpoints: Vec<Arc<EndpointEntry>>,
    /// Caches the endpoints that receive events of each type. Each change of an endpoint clears the cache.
    by_type: Mutex<ByType>,
}

#[derive(Debug, Default)]
struct ByType {
    endpoints: HashMap<EventType, Arc<[Arc<EndpointEntry>]>>,
    /// The total number of endpoints in the cached matches.
    count: usize,
}

impl TenantEndpoints {
    pub(super) fn new(entry: Arc<TenantEntry>, mut endpoints: Vec<Arc<EndpointEntry>>) -> Self {
        endpoints.sort_by_key(|endpoint| endpoint.id);
        Self { entry, endpoints, by_type: Mutex::default() }
    }

    /// Returns the tenant's effective settings.
    #[must_use]
    pub const fn tenant(&self) -> &Arc<TenantEntry> {
        &self.entry
    }

    /// Returns the endpoints that receive events of this type.
    #[must_use]
    pub fn for_type(&self, kind: &EventType) -> Arc<[Arc<EndpointEntry>]> {
        if let Some(endpoints) = self.by_type().endpoints.get(kind) {
            return Arc::clone(endpoints);
        }
        // Computed without the lock, so that the writer does not have to wait.
        let endpoints: Arc<[_]> =
            self.endpoints.iter().filter(|endpoint| endpoint.filter.admits(kind)).cloned().collect();
        let mut by_type = self.by_type();
        // Customers choose the types: a customer that submits a new type with each event must not fill the memory.
        if by_type.endpoints.len() >= REMEMBERED_TYPES
            || by_type.count + endpoints.len() > REMEMBERED_ENDPOINTS
        {
            *by_type = ByType::default();
        }
        if by_type.endpoints.insert(kind.clone(), Arc::clone(&endpoints)).is_none() {
            by_type.count += endpoints.len();
        }
        endpoints
    }

    /// Computes a slow match in advance, so that the writer finds it in the cache.
    pub fn match_ahead(&self, kind: &EventType) {
        if self.endpoints.len() > MATCHED_AHEAD {
            let _ = self.for_type(kind);
        }
    }

    fn by_type(&self) -> MutexGuard<'_, ByType> {
        self.by_type.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the tenant has this endpoint.
    #[must_use]
    pub fn has(&self, id: EndpointId) -> bool {
        self.endpoints.binary_search_by_key(&id, |endpoint| endpoint.id).is_ok()
    }

    /// Returns the number of the tenant's endpoints.
    #[must_use]
    pub fn endpoint_count(&self) -> usize {
        self.endpoints.len()
    }

    /// Returns a mutable reference to the value, which is cloned first if it is shared. Clears the cache of matches.
    pub(super) fn change(shared: &mut Arc<Self>) -> &mut Self {
        if Arc::get_mut(shared).is_none() {
            *shared = Arc::new(Self::new(Arc::clone(&shared.entry), shared.endpoints.clone()));
        }
        let tenant_endpoints = Arc::get_mut(shared).expect("it is ours, or was just made");
        *tenant_endpoints.by_type.get_mut().unwrap_or_else(PoisonError::into_inner) = ByType::default();
        tenant_endpoints
    }

    pub(super) fn put(&mut self, entry: &Arc<EndpointEntry>) {
        match self.endpoints.binary_search_by_key(&entry.id, |endpoint| endpoint.id) {
            Ok(at) => self.endpoints[at] = Arc::clone(entry),
            Err(at) => self.endpoints.insert(at, Arc::clone(entry)),
        }
    }

    pub(super) fn remove(&mut self, id: EndpointId) {
        self.endpoints.retain(|endpoint| endpoint.id != id);
    }
}

#[cfg(test)]
mod tests {
    use breakerbox_core::Timestamp;

    use super::*;
    use crate::Directory;
    use breakerbox_model::objects::{
        Endpoint, EndpointSettings, Filter, Id, Revision, Secret, SigningSecrets, Tenant, TenantSettings,
    };

    fn tenant() -> Tenant {
        let settings = TenantSettings::new("Acme");
        Tenant {
            id: "acme".parse().unwrap(),
            settings,
            secrets: SigningSecrets::new(Secret::random(), Timestamp::ZERO),
            created_at: Timestamp::ZERO,
            changed_at: Timestamp::ZERO,
            revision: Revision::FIRST,
        }
    }

    fn endpoint(number: i64, pattern: &str) -> Endpoint {
        let settings = EndpointSettings {
            filter: Filter::any_of([pattern]).unwrap(),
            ..EndpointSettings::new("https://a.example/".parse().unwrap())
        };
        Endpoint {
            id: EndpointId(Id::from_number(number).unwrap()),
            tenant: "acme".parse().unwrap(),
            settings,
            disabled: None,
            secrets: SigningSecrets::new(Secret::random(), Timestamp::ZERO),
            created_at: Timestamp::ZERO,
            changed_at: Timestamp::ZERO,
            revision: Revision::FIRST,
        }
    }

    #[test]
    fn who_looks_meanwhile_sees_what_was_and_types_are_forgotten() {
        let directory = Directory::default();
        let entry = directory.resolve_tenant(tenant(), 1).unwrap();
        directory.put_tenant_endpoints(directory.resolve_tenant_endpoints(entry).unwrap());
        let put = |number, pattern| {
            directory.put_endpoint(directory.resolve_endpoint(endpoint(number, pattern)).unwrap());
        };
        let name = "acme".parse().unwrap();
        let kind: EventType = "a.b".parse().unwrap();
        let numbers = |found: Arc<[Arc<EndpointEntry>]>| {
            found.iter().map(|endpoint| endpoint.id.number()).collect::<Vec<_>>()
        };
        let now = || numbers(directory.fan_out(&name, &kind).unwrap());
        put(2, "a.b");
        put(1, "a.*");
        put(3, "c");
        assert_eq!(now(), [1, 2], "by age");
        let before = directory.tenant_endpoints(&name).unwrap();
        put(3, "a.b");
        put(2, "c");
        assert_eq!(now(), [1, 3]);
        assert_eq!(numbers(before.for_type(&kind)), [1, 2]);
        directory.remove_endpoint(EndpointId(Id::from_number(1).unwrap()));
        assert_eq!(now(), [3]);
    }

    #[test]
    fn invented_types_do_not_fill_the_memory() {
        let directory = Directory::default();
        let entry = directory.resolve_tenant(tenant(), 1).unwrap();
        let tenant_endpoints = directory.resolve_tenant_endpoints(entry).unwrap();
        for number in 0..5_000 {
            let _ = tenant_endpoints.for_type(&format!("t{number}").parse().unwrap());
            assert!(tenant_endpoints.by_type().endpoints.len() <= REMEMBERED_TYPES);
        }
    }
}
