//! The directory: tenants, endpoints and API keys in memory, with their secrets in the clear and every default filled in.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`Directory`] | looks things up, by lane, by tenant, by key |
//! | [`TenantEntry`], [`EndpointEntry`] | what holds for a tenant or an endpoint: settings, or what stands in for them |
//! | [`Defaults`] | what stands in at last |
//! | [`Watcher`], [`Changed`] | who hears that something changed |
//!
//! Each delivery is made by it, and each event is fanned out by it, so a look-up is one read lock and one hash, and answers
//! with an `Arc` that stays as it is while the directory goes on.
//!
//! **Who sees what when.** The database comes first. The one thread that writes to it changes the directory right after each
//! commit, in the order of the commits, and before anybody is answered. Three things follow:
//!
//! - the fan-out of an event, which happens on that thread, never sees what is not durable, and sees all that was answered
//!   before the event was submitted;
//! - an attempt that begins after the answer to a change goes by the change; one that began before ends by what it began with;
//! - what is committed together may see each other or not, as two requests at the same moment may.
//!
//! At the start it is loaded from the database before anything is served. It never writes, and it never decides. Only whoever
//! writes the database, and tests, call what changes it.

mod defaults;
mod entries;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use breakerbox_core::Timestamp;
use subtle::ConstantTimeEq;

pub use self::defaults::{Defaults, PolicyLayers};
pub use self::entries::{EndpointEntry, TenantEntry};
use super::WaitingLane;
use super::records::RecordsError;
use crate::objects::{ApiKey, Endpoint, EndpointId, EventType, KeyHash, LaneId, Tenant, TenantId};

/// For how many event types of a tenant the answer is remembered.
const REMEMBERED_TYPES: usize = 512;

/// Tenants, endpoints and API keys in memory.
#[derive(Default)]
pub struct Directory {
    defaults: Defaults,
    known: RwLock<Known>,
    watcher: OnceLock<Box<dyn Watcher>>,
}

#[derive(Default)]
struct Known {
    tenants: HashMap<TenantId, Household>,
    endpoints: HashMap<LaneId, Arc<EndpointEntry>>,
    keys: HashMap<KeyHash, Arc<ApiKey>>,
}

/// A tenant and what is its own.
struct Household {
    entry: Arc<TenantEntry>,
    /// By age.
    endpoints: Vec<Arc<EndpointEntry>>,
    /// Who gets events of a type. Forgotten at each change.
    by_type: Mutex<HashMap<EventType, Arc<[Arc<EndpointEntry>]>>>,
}

/// Hears of changes, after the commit and in its order, on the thread that writes: it must not wait.
pub trait Watcher: Send + Sync + 'static {
    /// This changed.
    fn changed(&self, changed: Changed<'_>);
}

/// What changed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Changed<'c> {
    /// A tenant is new or different. Its endpoints follow, each on its own.
    Tenant(&'c Arc<TenantEntry>),
    /// A tenant is gone.
    TenantGone(&'c TenantId),
    /// An endpoint is new or different: another URL and circuit, enabled or disabled, other limits.
    Endpoint(&'c Arc<EndpointEntry>),
    /// An endpoint is gone. Nothing in its lane is to be sent.
    EndpointGone(LaneId),
    /// Something waits in this lane that did not before.
    Woken(&'c WaitingLane),
}

impl Directory {
    /// An empty one.
    #[must_use]
    pub fn new(defaults: Defaults) -> Self {
        Self { defaults, ..Self::default() }
    }

    /// What stands in for what is not set.
    #[must_use]
    pub const fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// Whoever hears of changes from now on; only the first one counts. Answers whether it was the first.
    pub fn watch(&self, watcher: impl Watcher) -> bool {
        self.watcher.set(Box::new(watcher)).is_ok()
    }

    /// The endpoint of a lane; none for lanes of dynamic URLs, and for endpoints that are gone.
    #[must_use]
    pub fn endpoint(&self, lane: LaneId) -> Option<Arc<EndpointEntry>> {
        self.read().endpoints.get(&lane).cloned()
    }

    /// A tenant.
    #[must_use]
    pub fn tenant(&self, id: &TenantId) -> Option<Arc<TenantEntry>> {
        self.read().tenants.get(id).map(|household| Arc::clone(&household.entry))
    }

    /// The endpoints of a tenant that get events of this type, disabled ones too: theirs are parked. None if there is no such
    /// tenant.
    #[must_use]
    pub fn fan_out(&self, tenant: &TenantId, kind: &EventType) -> Option<Arc<[Arc<EndpointEntry>]>> {
        Some(self.read().tenants.get(tenant)?.for_type(kind))
    }

    /// The endpoints of a tenant, the oldest first.
    #[must_use]
    pub fn endpoints_of(&self, tenant: &TenantId) -> Vec<Arc<EndpointEntry>> {
        self.read().tenants.get(tenant).map(|household| household.endpoints.clone()).unwrap_or_default()
    }

    /// All tenants, in no order.
    #[must_use]
    pub fn tenants(&self) -> Vec<Arc<TenantEntry>> {
        self.read().tenants.values().map(|household| Arc::clone(&household.entry)).collect()
    }

    /// All endpoints, in no order.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Arc<EndpointEntry>> {
        self.read().endpoints.values().cloned().collect()
    }

    /// The API key of this hash, if it is good now: known, not revoked, not expired.
    #[must_use]
    pub fn api_key(&self, hash: &KeyHash, now: Timestamp) -> Option<Arc<ApiKey>> {
        let key = self.read().keys.get(hash).cloned()?;
        let is_it: bool = key.hash.0.ct_eq(&hash.0).into();
        let is_good = key.revoked_at.is_none() && key.expires_at.is_none_or(|expires_at| now < expires_at);
        (is_it && is_good).then_some(key)
    }

    /// What a tenant would be as an entry. Changes nothing.
    ///
    /// # Errors
    /// If its policy can't be used.
    pub fn resolve_tenant(&self, tenant: &Tenant) -> Result<TenantEntry, RecordsError> {
        TenantEntry::resolve(tenant, &self.defaults)
    }

    /// What an endpoint would be as an entry of its tenant. Changes nothing.
    ///
    /// # Errors
    /// If there is no such tenant, or its policy or its URL can't be used.
    pub fn resolve_endpoint(&self, endpoint: &Endpoint) -> Result<EndpointEntry, RecordsError> {
        let tenant = self.tenant(&endpoint.tenant);
        let tenant = tenant.ok_or_else(|| RecordsError::missing("tenant", &endpoint.tenant))?;
        EndpointEntry::resolve(endpoint, tenant, &self.defaults)
    }

    /// A tenant as it was committed, with all its endpoints as they follow from it.
    pub fn put_tenant(&self, entry: TenantEntry, endpoints: Vec<EndpointEntry>) {
        let entry = Arc::new(entry);
        let endpoints: Vec<_> = endpoints.into_iter().map(Arc::new).collect();
        {
            let mut known = self.write();
            for endpoint in &endpoints {
                known.endpoints.insert(endpoint.lane(), Arc::clone(endpoint));
            }
            let household = Household::new(Arc::clone(&entry), endpoints.clone());
            known.tenants.insert(entry.id.clone(), household);
        }
        self.tell(Changed::Tenant(&entry));
        endpoints.iter().for_each(|endpoint| self.tell(Changed::Endpoint(endpoint)));
    }

    /// A tenant that is gone, with its API keys.
    pub fn remove_tenant(&self, id: &TenantId) {
        {
            let mut known = self.write();
            known.tenants.remove(id);
            known.keys.retain(|_, key| key.tenant.as_ref() != Some(id));
        }
        self.tell(Changed::TenantGone(id));
    }

    /// An endpoint as it was committed.
    pub fn put_endpoint(&self, entry: EndpointEntry) {
        let entry = Arc::new(entry);
        {
            let mut known = self.write();
            if let Some(household) = known.tenants.get_mut(&entry.tenant.id) {
                household.put(&entry);
            }
            known.endpoints.insert(entry.lane(), Arc::clone(&entry));
        }
        self.tell(Changed::Endpoint(&entry));
    }

    /// An endpoint that is gone.
    pub fn remove_endpoint(&self, id: EndpointId) {
        {
            let mut known = self.write();
            let gone = known.endpoints.remove(&id.into());
            if let Some(household) = gone.and_then(|gone| known.tenants.get_mut(&gone.tenant.id)) {
                household.endpoints.retain(|endpoint| endpoint.id != id);
                household.forget();
            }
        }
        self.tell(Changed::EndpointGone(id.into()));
    }

    /// An API key as it was committed.
    pub fn put_api_key(&self, key: ApiKey) {
        self.write().keys.insert(key.hash, Arc::new(key));
    }

    /// Something waits in a lane that did not before.
    pub fn woken(&self, lane: &WaitingLane) {
        self.tell(Changed::Woken(lane));
    }

    /// Never under the lock: a watcher may look things up.
    fn tell(&self, changed: Changed<'_>) {
        if let Some(watcher) = self.watcher.get() {
            watcher.changed(changed);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Household {
    fn new(entry: Arc<TenantEntry>, mut endpoints: Vec<Arc<EndpointEntry>>) -> Self {
        endpoints.sort_by_key(|endpoint| endpoint.id);
        Self { entry, endpoints, by_type: Mutex::default() }
    }

    fn put(&mut self, entry: &Arc<EndpointEntry>) {
        match self.endpoints.binary_search_by_key(&entry.id, |endpoint| endpoint.id) {
            Ok(at) => self.endpoints[at] = Arc::clone(entry),
            Err(at) => self.endpoints.insert(at, Arc::clone(entry)),
        }
        self.forget();
    }

    fn forget(&mut self) {
        self.by_type.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn for_type(&self, kind: &EventType) -> Arc<[Arc<EndpointEntry>]> {
        let mut by_type = self.by_type.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(endpoints) = by_type.get(kind) {
            return Arc::clone(endpoints);
        }
        let endpoints: Arc<[_]> =
            self.endpoints.iter().filter(|endpoint| endpoint.filter.admits(kind)).cloned().collect();
        // Types are the customers' to invent: whoever invents one for each event must not fill the memory.
        if by_type.len() >= REMEMBERED_TYPES {
            by_type.clear();
        }
        by_type.insert(kind.clone(), Arc::clone(&endpoints));
        endpoints
    }
}
