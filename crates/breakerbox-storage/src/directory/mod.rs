//! The directory: tenants, endpoints and API keys in memory, with their secrets in the clear and every default filled
//! in.
//!
//! | part | content |
//! | --- | --- |
//! | [`Directory`] | lookups by lane, by tenant, by key |
//! | [`TenantEntry`], [`EndpointEntry`] | the effective settings of a tenant or an endpoint |
//! | [`TenantEndpoints`] | a tenant with its endpoints, and which of them receive events of a type |
//! | [`Defaults`] | the values for everything that is not set |
//! | [`PolicyLayers`] | policies applied over each other, and the origin of each value |
//! | [`Watcher`], [`Changed`] | the observer of changes |
//!
//! Every delivery and every fan-out of an event uses it, so a lookup is one read lock and one hash, and returns an
//! `Arc` that stays as it is while the directory changes.
//!
//! **Visibility.** The database comes first. The one thread that writes to it changes the directory right after each
//! commit, in the order of the commits, and before any caller gets its result. Three things follow:
//!
//! - the fan-out of an event, which happens on that thread, never sees a change that is not durable, and sees every
//!   change that was confirmed before the event was submitted;
//! - an attempt that begins after the confirmation of a change uses the change; one that began before ends with the old
//!   settings;
//! - changes that are committed together may see each other or not, as two simultaneous requests may.
//!
//! At the start it is loaded from the database before anything is served. It never writes, and it never decides. Only
//! the writer of the database, and tests, call the methods that change it.

mod circuits;
mod defaults;
mod entries;
mod policy;
mod tenant_endpoints;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use breakerbox_core::{Policy, Timestamp};
use breakerbox_model::objects::{
    ApiKey, ApiKeyId, Endpoint, EndpointId, EventType, KeyHash, LaneId, Tenant, TenantId,
};
use subtle::ConstantTimeEq;

use self::circuits::Circuits;
pub use self::defaults::Defaults;
pub use self::entries::{EndpointEntry, ReminderEntry, TenantEntry};
pub use self::policy::{BuiltPolicy, ExplainedValue, PolicyLayers, PolicyOrigin};
pub use self::tenant_endpoints::TenantEndpoints;
use super::WaitingLane;
use super::records::RecordsError;

/// Tenants, endpoints and API keys in memory.
#[derive(Default)]
pub struct Directory {
    defaults: Defaults,
    known: RwLock<Entries>,
    watcher: OnceLock<Box<dyn Watcher>>,
}

#[derive(Default)]
struct Entries {
    tenants: BTreeMap<TenantId, Arc<TenantEndpoints>>,
    endpoints: BTreeMap<LaneId, Arc<EndpointEntry>>,
    circuits: Circuits,
    keys: BTreeMap<ApiKeyId, Arc<ApiKey>>,
    keys_by_hash: HashMap<KeyHash, Arc<ApiKey>>,
}

/// Receives changes, after the commit and in its order, on the thread that writes: it must not block.
pub trait Watcher: Send + Sync + 'static {
    /// Receives a change.
    fn changed(&self, changed: Changed<'_>);
}

/// A change of the directory.
#[derive(Clone, Copy, Debug)]
pub enum Changed<'c> {
    /// A tenant was created or changed. Its endpoints follow, each on its own.
    Tenant(&'c Arc<TenantEntry>),
    /// A tenant was deleted.
    TenantGone(&'c TenantId),
    /// An endpoint was created or changed: another URL and circuit, enabled or disabled, other limits.
    Endpoint(&'c Arc<EndpointEntry>),
    /// An endpoint was deleted. Nothing in its lane may be sent.
    EndpointGone(LaneId),
    /// A circuit got another policy of its own, or lost it, so that its tenant's applies. Reported before the endpoint
    /// that it is about.
    CircuitPolicy(&'c Arc<str>, Option<&'c Arc<Policy>>),
    /// Deliveries wait in this lane that did not before.
    Woken(&'c WaitingLane),
    /// A reminder needs a decision.
    Reminders,
}

impl Directory {
    /// Creates an empty directory.
    #[must_use]
    pub fn new(defaults: Defaults) -> Self {
        Self { defaults, ..Self::default() }
    }

    /// Returns the values for everything that is not set.
    #[must_use]
    pub const fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// Sets the watcher. Only the first one counts; returns whether this was the first.
    pub fn watch(&self, watcher: impl Watcher) -> bool {
        self.watcher.set(Box::new(watcher)).is_ok()
    }

    /// Returns the endpoint of a lane, or `None` for lanes of dynamic URLs and of deleted endpoints.
    #[must_use]
    pub fn endpoint(&self, lane: LaneId) -> Option<Arc<EndpointEntry>> {
        self.read().endpoints.get(&lane).cloned()
    }

    /// Returns a tenant.
    #[must_use]
    pub fn tenant(&self, id: &TenantId) -> Option<Arc<TenantEntry>> {
        self.read().tenants.get(id).map(|tenant_endpoints| Arc::clone(&tenant_endpoints.entry))
    }

    /// Returns the endpoints of a tenant that receive events of this type, including disabled ones: their deliveries
    /// are parked. `None` if the tenant does not exist.
    #[must_use]
    pub fn fan_out(&self, tenant: &TenantId, kind: &EventType) -> Option<Arc<[Arc<EndpointEntry>]>> {
        Some(self.tenant_endpoints(tenant)?.for_type(kind))
    }

    /// Returns the number of endpoints of a tenant.
    #[must_use]
    pub fn endpoint_count(&self, tenant: &TenantId) -> usize {
        self.tenant_endpoints(tenant).map_or(0, |tenant_endpoints| tenant_endpoints.endpoint_count())
    }

    /// Returns the endpoints of a tenant, the oldest first.
    #[must_use]
    pub fn endpoints_of(&self, tenant: &TenantId) -> Vec<Arc<EndpointEntry>> {
        self.tenant_endpoints(tenant)
            .map(|tenant_endpoints| tenant_endpoints.endpoints.clone())
            .unwrap_or_default()
    }

    /// Returns all tenants, by name.
    #[must_use]
    pub fn tenants(&self) -> Vec<Arc<TenantEntry>> {
        self.tenants_after(None, usize::MAX)
    }

    /// Returns tenants by name, after this one.
    #[must_use]
    pub fn tenants_after(&self, after: Option<&TenantId>, limit: usize) -> Vec<Arc<TenantEntry>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let known = self.read();
        let found = known.tenants.range::<TenantId, _>((from, Bound::Unbounded)).take(limit);
        found.map(|(_, tenant_endpoints)| Arc::clone(&tenant_endpoints.entry)).collect()
    }

    /// Returns all endpoints, the oldest first.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Arc<EndpointEntry>> {
        self.read().endpoints.values().cloned().collect()
    }

    /// Returns whether an endpoint has this circuit.
    #[must_use]
    pub fn has_circuit(&self, key: &str) -> bool {
        self.read().circuits.has(key)
    }

    /// Returns the endpoint whose own policy this circuit has, if any; of several the oldest.
    #[must_use]
    pub fn deciding(&self, key: &str) -> Option<Arc<EndpointEntry>> {
        self.read().circuits.deciding(key).cloned()
    }

    /// Returns all circuits that have a policy of their own, with that policy.
    #[must_use]
    pub fn circuit_policies(&self) -> Vec<(Arc<str>, Arc<Policy>)> {
        self.read().circuits.policies()
    }

    /// Returns the endpoints of a tenant or of all, the newest first, from before this one.
    #[must_use]
    pub fn endpoints_before(
        &self,
        tenant: Option<&TenantId>,
        before: Option<EndpointId>,
        limit: usize,
    ) -> Vec<Arc<EndpointEntry>> {
        let Some(tenant) = tenant else {
            let until = before.map_or(Bound::Unbounded, |before| Bound::Excluded(LaneId::from(before)));
            let known = self.read();
            let found = known.endpoints.range((Bound::Unbounded, until)).rev().take(limit);
            return found.map(|(_, endpoint)| Arc::clone(endpoint)).collect();
        };
        let Some(tenant_endpoints) = self.tenant_endpoints(tenant) else { return Vec::new() };
        let end = before.map_or(tenant_endpoints.endpoints.len(), |before| {
            tenant_endpoints.endpoints.partition_point(|endpoint| endpoint.id < before)
        });
        tenant_endpoints.endpoints[..end].iter().rev().take(limit).cloned().collect()
    }

    /// Returns the API key with this hash, if it is valid now: known, not revoked, not expired.
    #[must_use]
    pub fn api_key(&self, hash: &KeyHash, now: Timestamp) -> Option<Arc<ApiKey>> {
        let key = self.read().keys_by_hash.get(hash).cloned()?;
        let is_it: bool = key.hash.0.ct_eq(&hash.0).into();
        let is_good = key.revoked_at.is_none() && key.expires_at.is_none_or(|expires_at| now < expires_at);
        (is_it && is_good).then_some(key)
    }

    /// Returns an API key by its id, valid or not.
    #[must_use]
    pub fn api_key_named(&self, id: ApiKeyId) -> Option<Arc<ApiKey>> {
        self.read().keys.get(&id).cloned()
    }

    /// Returns API keys, the newest first, from before this one: all, or those bound to one tenant. It reads at most
    /// `looks` keys; the second result is the last one that it read, if there are more.
    #[must_use]
    pub fn api_keys_before(
        &self,
        tenant: Option<&TenantId>,
        before: Option<ApiKeyId>,
        limit: usize,
        looks: usize,
    ) -> (Vec<Arc<ApiKey>>, Option<ApiKeyId>) {
        let until = before.map_or(Bound::Unbounded, Bound::Excluded);
        let known = self.read();
        let mut found = Vec::new();
        let mut last = None;
        for (looked, (id, key)) in known.keys.range((Bound::Unbounded, until)).rev().enumerate() {
            if found.len() == limit || looked == looks {
                return (found, last);
            }
            last = Some(*id);
            if tenant.is_none() || key.tenant.as_ref() == tenant {
                found.push(Arc::clone(key));
            }
        }
        (found, None)
    }

    /// Computes the entry of a tenant. Changes nothing.
    ///
    /// # Errors
    /// If its policy is invalid.
    pub fn resolve_tenant(&self, tenant: Tenant, row: i64) -> Result<TenantEntry, RecordsError> {
        TenantEntry::resolve(tenant, row, &self.defaults)
    }

    /// Computes the entry of an endpoint of an existing tenant. Changes nothing.
    ///
    /// # Errors
    /// If the tenant does not exist, or the policy or the URL is invalid.
    pub fn resolve_endpoint(&self, endpoint: Endpoint) -> Result<EndpointEntry, RecordsError> {
        let tenant = self.tenant(&endpoint.tenant);
        let tenant = tenant.ok_or_else(|| RecordsError::missing("tenant", &endpoint.tenant))?;
        EndpointEntry::resolve(endpoint, tenant, &self.defaults)
    }

    /// Computes the entries of a tenant's endpoints for this entry of the tenant. Changes nothing.
    ///
    /// # Errors
    /// If the policy of an endpoint does not fit any more.
    pub fn resolve_tenant_endpoints(&self, entry: TenantEntry) -> Result<TenantEndpoints, RecordsError> {
        let entry = Arc::new(entry);
        let resolve = |endpoint: &Arc<EndpointEntry>| {
            let source = endpoint.source.clone();
            let resolved = EndpointEntry::resolve(source, Arc::clone(&entry), &self.defaults).map(Arc::new);
            resolved.map_err(|error| match error {
                RecordsError::Policy(why) => RecordsError::EndpointPolicy { endpoint: endpoint.id, why },
                other => other,
            })
        };
        let endpoints = self.endpoints_of(&entry.id).iter().map(resolve).collect::<Result<_, _>>()?;
        Ok(TenantEndpoints::new(entry, endpoints))
    }

    /// Stores a tenant and its endpoints as they were committed.
    pub fn put_tenant_endpoints(&self, tenant_endpoints: TenantEndpoints) {
        let (entry, endpoints) = (Arc::clone(&tenant_endpoints.entry), tenant_endpoints.endpoints.clone());
        let mut policies = Vec::new();
        {
            let mut known = self.write();
            for endpoint in &endpoints {
                let before = known.endpoints.insert(endpoint.lane(), Arc::clone(endpoint));
                policies.extend(known.circuits.change(before.as_ref(), Some(endpoint)));
            }
            known.tenants.insert(entry.id.clone(), Arc::new(tenant_endpoints));
        }
        self.notify(Changed::Tenant(&entry));
        self.notify_policies(&policies);
        endpoints.iter().for_each(|endpoint| self.notify(Changed::Endpoint(endpoint)));
    }

    /// Removes a deleted tenant, with its API keys.
    pub fn remove_tenant(&self, id: &TenantId) {
        {
            let mut known = self.write();
            known.tenants.remove(id);
            known.keys.retain(|_, key| key.tenant.as_ref() != Some(id));
            known.keys_by_hash.retain(|_, key| key.tenant.as_ref() != Some(id));
        }
        self.notify(Changed::TenantGone(id));
    }

    /// Stores an endpoint as it was committed.
    pub fn put_endpoint(&self, entry: EndpointEntry) {
        let entry = Arc::new(entry);
        let policies = {
            let mut known = self.write();
            if let Some(tenant_endpoints) = known.tenants.get_mut(&entry.tenant.id) {
                TenantEndpoints::change(tenant_endpoints).put(&entry);
            }
            let before = known.endpoints.insert(entry.lane(), Arc::clone(&entry));
            known.circuits.change(before.as_ref(), Some(&entry))
        };
        self.notify_policies(&policies);
        self.notify(Changed::Endpoint(&entry));
    }

    /// Removes a deleted endpoint.
    pub fn remove_endpoint(&self, id: EndpointId) {
        let policies = {
            let mut known = self.write();
            let gone = known.endpoints.remove(&id.into());
            if let Some(tenant_endpoints) =
                gone.as_ref().and_then(|gone| known.tenants.get_mut(&gone.tenant.id))
            {
                TenantEndpoints::change(tenant_endpoints).remove(id);
            }
            known.circuits.change(gone.as_ref(), None)
        };
        self.notify_policies(&policies);
        self.notify(Changed::EndpointGone(id.into()));
    }

    /// Stores an API key as it was committed.
    pub fn put_api_key(&self, key: ApiKey) {
        let key = Arc::new(key);
        let mut known = self.write();
        known.keys.insert(key.id, Arc::clone(&key));
        known.keys_by_hash.insert(key.hash, key);
    }

    /// Reports that deliveries wait in a lane that did not before.
    pub fn woken(&self, lane: &WaitingLane) {
        self.notify(Changed::Woken(lane));
    }

    /// Reports that a reminder needs a decision.
    pub fn reminders_changed(&self) {
        self.notify(Changed::Reminders);
    }

    /// Returns a tenant and its endpoints, as they are now. A backend calls this while it accepts events.
    #[must_use]
    pub fn tenant_endpoints(&self, tenant: &TenantId) -> Option<Arc<TenantEndpoints>> {
        self.read().tenants.get(tenant).cloned()
    }

    /// Never call this under the lock: a watcher may do lookups.
    fn notify(&self, changed: Changed<'_>) {
        if let Some(watcher) = self.watcher.get() {
            watcher.changed(changed);
        }
    }

    fn notify_policies(&self, policies: &[(Arc<str>, Option<Arc<Policy>>)]) {
        for (circuit, policy) in policies {
            self.notify(Changed::CircuitPolicy(circuit, policy.as_ref()));
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}
