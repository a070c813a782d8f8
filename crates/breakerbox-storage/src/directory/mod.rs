//! The directory: tenants, endpoints and API keys in memory, with their secrets in the clear and every default filled in.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`Directory`] | looks things up, by lane, by tenant, by key |
//! | [`TenantEntry`], [`EndpointEntry`] | what holds for a tenant or an endpoint: settings, or what stands in for them |
//! | [`Household`] | a tenant with its endpoints, and who of them gets events of a type |
//! | [`Defaults`] | what stands in at last |
//! | [`PolicyLayers`] | how policies lie over each other, and where each value is from |
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

mod circuits;
mod defaults;
mod entries;
mod household;
mod policy;

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
pub use self::household::Household;
pub use self::policy::{BuiltPolicy, ExplainedValue, PolicyLayers, PolicyOrigin};
use super::WaitingLane;
use super::records::RecordsError;

/// Tenants, endpoints and API keys in memory.
#[derive(Default)]
pub struct Directory {
    defaults: Defaults,
    known: RwLock<Known>,
    watcher: OnceLock<Box<dyn Watcher>>,
}

#[derive(Default)]
struct Known {
    tenants: BTreeMap<TenantId, Arc<Household>>,
    endpoints: BTreeMap<LaneId, Arc<EndpointEntry>>,
    circuits: Circuits,
    keys: BTreeMap<ApiKeyId, Arc<ApiKey>>,
    keys_by_hash: HashMap<KeyHash, Arc<ApiKey>>,
}

/// Hears of changes, after the commit and in its order, on the thread that writes: it must not wait.
pub trait Watcher: Send + Sync + 'static {
    /// This changed.
    fn changed(&self, changed: Changed<'_>);
}

/// What changed.
#[derive(Clone, Copy, Debug)]
pub enum Changed<'c> {
    /// A tenant is new or different. Its endpoints follow, each on its own.
    Tenant(&'c Arc<TenantEntry>),
    /// A tenant is gone.
    TenantGone(&'c TenantId),
    /// An endpoint is new or different: another URL and circuit, enabled or disabled, other limits.
    Endpoint(&'c Arc<EndpointEntry>),
    /// An endpoint is gone. Nothing in its lane is to be sent.
    EndpointGone(LaneId),
    /// A circuit has another policy of its own, or none any more: its tenant's holds. Told before the endpoint that it is about.
    CircuitPolicy(&'c Arc<str>, Option<&'c Arc<Policy>>),
    /// Something waits in this lane that did not before.
    Woken(&'c WaitingLane),
    /// There is something to decide about a reminder.
    Reminders,
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
        Some(self.household(tenant)?.for_type(kind))
    }

    /// How many endpoints a tenant has.
    #[must_use]
    pub fn endpoint_count(&self, tenant: &TenantId) -> usize {
        self.household(tenant).map_or(0, |household| household.endpoint_count())
    }

    /// The endpoints of a tenant, the oldest first.
    #[must_use]
    pub fn endpoints_of(&self, tenant: &TenantId) -> Vec<Arc<EndpointEntry>> {
        self.household(tenant).map(|household| household.endpoints.clone()).unwrap_or_default()
    }

    /// All tenants, by name.
    #[must_use]
    pub fn tenants(&self) -> Vec<Arc<TenantEntry>> {
        self.tenants_after(None, usize::MAX)
    }

    /// Tenants by name, after this one.
    #[must_use]
    pub fn tenants_after(&self, after: Option<&TenantId>, limit: usize) -> Vec<Arc<TenantEntry>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let known = self.read();
        let found = known.tenants.range::<TenantId, _>((from, Bound::Unbounded)).take(limit);
        found.map(|(_, household)| Arc::clone(&household.entry)).collect()
    }

    /// All endpoints, the oldest first.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Arc<EndpointEntry>> {
        self.read().endpoints.values().cloned().collect()
    }

    /// Whether an endpoint has this circuit.
    #[must_use]
    pub fn has_circuit(&self, key: &str) -> bool {
        self.read().circuits.has(key)
    }

    /// The endpoint whose own policy this circuit has, if one's; of several the oldest.
    #[must_use]
    pub fn deciding(&self, key: &str) -> Option<Arc<EndpointEntry>> {
        self.read().circuits.deciding(key).cloned()
    }

    /// All circuits that have a policy of their own, and that policy.
    #[must_use]
    pub fn circuit_policies(&self) -> Vec<(Arc<str>, Arc<Policy>)> {
        self.read().circuits.policies()
    }

    /// Endpoints of a tenant or of all, the newest first, from before this one.
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
        let Some(household) = self.household(tenant) else { return Vec::new() };
        let end = before.map_or(household.endpoints.len(), |before| {
            household.endpoints.partition_point(|endpoint| endpoint.id < before)
        });
        household.endpoints[..end].iter().rev().take(limit).cloned().collect()
    }

    /// The API key of this hash, if it is good now: known, not revoked, not expired.
    #[must_use]
    pub fn api_key(&self, hash: &KeyHash, now: Timestamp) -> Option<Arc<ApiKey>> {
        let key = self.read().keys_by_hash.get(hash).cloned()?;
        let is_it: bool = key.hash.0.ct_eq(&hash.0).into();
        let is_good = key.revoked_at.is_none() && key.expires_at.is_none_or(|expires_at| now < expires_at);
        (is_it && is_good).then_some(key)
    }

    /// An API key by its name, good or not.
    #[must_use]
    pub fn api_key_named(&self, id: ApiKeyId) -> Option<Arc<ApiKey>> {
        self.read().keys.get(&id).cloned()
    }

    /// API keys, the newest first, from before this one: all, or those for one tenant alone. Looks at no more than `looks`;
    /// the second answer is the last one it looked at, if there are more.
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

    /// What a tenant would be as an entry. Changes nothing.
    ///
    /// # Errors
    /// If its policy can't be used.
    pub fn resolve_tenant(&self, tenant: Tenant, row: i64) -> Result<TenantEntry, RecordsError> {
        TenantEntry::resolve(tenant, row, &self.defaults)
    }

    /// What an endpoint would be as an entry of its tenant. Changes nothing.
    ///
    /// # Errors
    /// If there is no such tenant, or its policy or its URL can't be used.
    pub fn resolve_endpoint(&self, endpoint: Endpoint) -> Result<EndpointEntry, RecordsError> {
        let tenant = self.tenant(&endpoint.tenant);
        let tenant = tenant.ok_or_else(|| RecordsError::missing("tenant", &endpoint.tenant))?;
        EndpointEntry::resolve(endpoint, tenant, &self.defaults)
    }

    /// What a tenant and its endpoints would be if it were as this entry says. Changes nothing.
    ///
    /// # Errors
    /// If the policy of an endpoint does not fit any more.
    pub fn resolve_household(&self, entry: TenantEntry) -> Result<Household, RecordsError> {
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
        Ok(Household::new(entry, endpoints))
    }

    /// A tenant and its endpoints as they were committed.
    pub fn put_household(&self, household: Household) {
        let (entry, endpoints) = (Arc::clone(&household.entry), household.endpoints.clone());
        let mut policies = Vec::new();
        {
            let mut known = self.write();
            for endpoint in &endpoints {
                let before = known.endpoints.insert(endpoint.lane(), Arc::clone(endpoint));
                policies.extend(known.circuits.change(before.as_ref(), Some(endpoint)));
            }
            known.tenants.insert(entry.id.clone(), Arc::new(household));
        }
        self.tell(Changed::Tenant(&entry));
        self.tell_policies(&policies);
        endpoints.iter().for_each(|endpoint| self.tell(Changed::Endpoint(endpoint)));
    }

    /// A tenant that is gone, with its API keys.
    pub fn remove_tenant(&self, id: &TenantId) {
        {
            let mut known = self.write();
            known.tenants.remove(id);
            known.keys.retain(|_, key| key.tenant.as_ref() != Some(id));
            known.keys_by_hash.retain(|_, key| key.tenant.as_ref() != Some(id));
        }
        self.tell(Changed::TenantGone(id));
    }

    /// An endpoint as it was committed.
    pub fn put_endpoint(&self, entry: EndpointEntry) {
        let entry = Arc::new(entry);
        let policies = {
            let mut known = self.write();
            if let Some(household) = known.tenants.get_mut(&entry.tenant.id) {
                Household::change(household).put(&entry);
            }
            let before = known.endpoints.insert(entry.lane(), Arc::clone(&entry));
            known.circuits.change(before.as_ref(), Some(&entry))
        };
        self.tell_policies(&policies);
        self.tell(Changed::Endpoint(&entry));
    }

    /// An endpoint that is gone.
    pub fn remove_endpoint(&self, id: EndpointId) {
        let policies = {
            let mut known = self.write();
            let gone = known.endpoints.remove(&id.into());
            if let Some(household) = gone.as_ref().and_then(|gone| known.tenants.get_mut(&gone.tenant.id)) {
                Household::change(household).remove(id);
            }
            known.circuits.change(gone.as_ref(), None)
        };
        self.tell_policies(&policies);
        self.tell(Changed::EndpointGone(id.into()));
    }

    /// An API key as it was committed.
    pub fn put_api_key(&self, key: ApiKey) {
        let key = Arc::new(key);
        let mut known = self.write();
        known.keys.insert(key.id, Arc::clone(&key));
        known.keys_by_hash.insert(key.hash, key);
    }

    /// Something waits in a lane that did not before.
    pub fn woken(&self, lane: &WaitingLane) {
        self.tell(Changed::Woken(lane));
    }

    /// There is something to decide about a reminder.
    pub fn reminders_changed(&self) {
        self.tell(Changed::Reminders);
    }

    /// A tenant and its endpoints, as they are now. A backend asks this while it accepts events.
    #[must_use]
    pub fn household(&self, tenant: &TenantId) -> Option<Arc<Household>> {
        self.read().tenants.get(tenant).cloned()
    }

    /// Never under the lock: a watcher may look things up.
    fn tell(&self, changed: Changed<'_>) {
        if let Some(watcher) = self.watcher.get() {
            watcher.changed(changed);
        }
    }

    fn tell_policies(&self, policies: &[(Arc<str>, Option<Arc<Policy>>)]) {
        for (circuit, policy) in policies {
            self.tell(Changed::CircuitPolicy(circuit, policy.as_ref()));
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}
