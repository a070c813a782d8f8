//! The directory: tenants, endpoints and API keys in memory, with decrypted secrets and defaults filled in.
//!
//! | part | content |
//! | --- | --- |
//! | [`Directory`] | lookups by lane, by tenant, by API key |
//! | [`TenantEntry`], [`EndpointEntry`] | the effective settings of a tenant or an endpoint |
//! | [`TenantEndpoints`] | a tenant with its endpoints, and which of them receive events of a type |
//! | [`Defaults`] | the gateway's defaults for settings that are not set |
//! | [`PolicyLayers`] | policies layered over each other, and the origin of each value |
//! | [`Directory::last_attempt`], [`Directory::last_attempt_of_circuit`] | the latest response of each endpoint and circuit |
//! | [`Watcher`], [`Changed`] | the observer of changes |
//!
//! Every delivery and every fan-out uses the directory, so a lookup takes one read lock and one hash, and returns an
//! `Arc` that does not change when the directory does.
//!
//! **Visibility.** The thread that writes to the database updates the directory right after each commit, in the order
//! of the commits, and before any caller gets its result. Therefore:
//!
//! - the fan-out of an event, which happens on that thread, never sees a change that is not durable, and sees every
//!   change whose caller had its result before the event was submitted;
//! - an attempt that begins after the caller of a change had its result uses the change; an attempt that began before
//!   ends with the old settings;
//! - changes in the same commit may or may not see each other, like two concurrent requests.
//!
//! At startup, the directory is loaded from the database before any request is served. It never writes to the
//! database and makes no decisions. Only the database writer and tests call the methods that change it.

mod circuits;
mod defaults;
mod entries;
mod last_attempts;
mod load;
mod policy;
mod tenant_endpoints;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use breakerbox_core::{Policy, Timestamp};
use breakerbox_model::delivery::LastAttempt;
use breakerbox_model::objects::{
    ApiKey, ApiKeyId, Endpoint, EndpointId, EventType, KeyHash, LaneId, Tenant, TenantId,
};
use subtle::ConstantTimeEq;

use self::circuits::Circuits;
pub use self::defaults::Defaults;
pub use self::entries::{EndpointEntry, ReminderEntry, TenantEntry};
use self::last_attempts::LastAttempts;
pub use self::policy::{BuiltPolicy, ExplainedValue, PolicyLayers, PolicyOrigin};
pub use self::tenant_endpoints::TenantEndpoints;
use super::WaitingLane;
use super::records::RecordsError;

/// Tenants, endpoints and API keys in memory, with defaults filled in.
#[derive(Default)]
pub struct Directory {
    defaults: Defaults,
    known: RwLock<Entries>,
    last_attempts: LastAttempts,
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

/// Receives changes after each commit and in commit order. It is called on the writer's thread, so it must not block.
pub trait Watcher: Send + Sync + 'static {
    /// Called once for each change.
    fn changed(&self, changed: Changed<'_>);
}

/// A change in the directory.
#[derive(Clone, Copy, Debug)]
pub enum Changed<'c> {
    /// A tenant was created or changed. Each of its endpoints is reported separately afterwards.
    Tenant(&'c Arc<TenantEntry>),
    /// A tenant was deleted.
    TenantGone(&'c TenantId),
    /// An endpoint was created or changed, for example its URL, its limits, or whether it is enabled.
    Endpoint(&'c Arc<EndpointEntry>),
    /// An endpoint was deleted. Deliveries in its lane must no longer be sent.
    EndpointGone(LaneId),
    /// A circuit's own policy changed. `None`: the circuit no longer has one, so the tenant's policy applies. This
    /// change is reported before the endpoint change that caused it.
    CircuitPolicy(&'c Arc<str>, Option<&'c Arc<Policy>>),
    /// New deliveries wait in this lane.
    Woken(&'c WaitingLane),
    /// A reminder must be checked by the scheduler. A backend that several processes share also reports this now and
    /// then, because another process may have changed a reminder.
    Reminders,
}

impl Directory {
    /// Creates an empty directory with these defaults.
    #[must_use]
    pub fn new(defaults: Defaults) -> Self {
        Self { defaults, ..Self::default() }
    }

    /// Returns the gateway's defaults for settings that are not set.
    #[must_use]
    pub const fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// Sets the watcher that is notified of changes. Returns `false`, and changes nothing, if there is one
    /// already.
    pub fn watch(&self, watcher: impl Watcher) -> bool {
        self.watcher.set(Box::new(watcher)).is_ok()
    }

    /// Returns the endpoint that a lane belongs to, or `None` if the lane is for dynamic URLs or its endpoint was
    /// deleted.
    #[must_use]
    pub fn endpoint(&self, lane: LaneId) -> Option<Arc<EndpointEntry>> {
        self.read().endpoints.get(&lane).cloned()
    }

    /// Returns the tenant with this name, if it exists.
    #[must_use]
    pub fn tenant(&self, id: &TenantId) -> Option<Arc<TenantEntry>> {
        self.read().tenants.get(id).map(|tenant_endpoints| Arc::clone(&tenant_endpoints.entry))
    }

    /// Returns the tenant's endpoints that receive events of this type, including disabled ones, whose deliveries are
    /// parked. `None`: the tenant does not exist.
    #[must_use]
    pub fn fan_out(&self, tenant: &TenantId, kind: &EventType) -> Option<Arc<[Arc<EndpointEntry>]>> {
        Some(self.tenant_endpoints(tenant)?.for_type(kind))
    }

    /// Returns the number of a tenant's endpoints, or 0 if the tenant does not exist.
    #[must_use]
    pub fn endpoint_count(&self, tenant: &TenantId) -> usize {
        self.tenant_endpoints(tenant).map_or(0, |tenant_endpoints| tenant_endpoints.endpoint_count())
    }

    /// Returns a tenant's endpoints, oldest first.
    #[must_use]
    pub fn endpoints_of(&self, tenant: &TenantId) -> Vec<Arc<EndpointEntry>> {
        self.tenant_endpoints(tenant)
            .map(|tenant_endpoints| tenant_endpoints.endpoints.clone())
            .unwrap_or_default()
    }

    /// Returns all tenants, ordered by name.
    #[must_use]
    pub fn tenants(&self) -> Vec<Arc<TenantEntry>> {
        self.tenants_after(None, usize::MAX)
    }

    /// Returns up to `limit` tenants, ordered by name, that follow `after`.
    #[must_use]
    pub fn tenants_after(&self, after: Option<&TenantId>, limit: usize) -> Vec<Arc<TenantEntry>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let known = self.read();
        let found = known.tenants.range::<TenantId, _>((from, Bound::Unbounded)).take(limit);
        found.map(|(_, tenant_endpoints)| Arc::clone(&tenant_endpoints.entry)).collect()
    }

    /// Returns all endpoints, oldest first.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Arc<EndpointEntry>> {
        self.read().endpoints.values().cloned().collect()
    }

    /// Returns whether any endpoint uses this circuit.
    #[must_use]
    pub fn has_circuit(&self, key: &str) -> bool {
        self.read().circuits.has(key)
    }

    /// Returns the endpoint whose own policy applies to this circuit, if any. If several endpoints have their own
    /// policy, that of the oldest applies.
    #[must_use]
    pub fn deciding(&self, key: &str) -> Option<Arc<EndpointEntry>> {
        self.read().circuits.deciding(key).cloned()
    }

    /// Records an attempt as the latest one in its lane, unless a later one is known. `circuit` is the key of the
    /// lane's circuit. Unlike all other changes, attempts are recorded by the dispatcher, before their commit: they were
    /// made in any case.
    pub fn note_attempt(&self, lane: LaneId, circuit: &str, attempt: LastAttempt) {
        // Under the lock, so that a deleted endpoint leaves nothing behind.
        let known = self.read();
        if known.endpoints.contains_key(&lane) {
            self.last_attempts.note_endpoint(lane, attempt);
        } else {
            drop(known);
            self.last_attempts.note_dynamic(circuit, attempt);
        }
    }

    /// Returns the latest attempt in an endpoint's lane. `None`: no attempt is known.
    #[must_use]
    pub fn last_attempt(&self, lane: LaneId) -> Option<LastAttempt> {
        self.last_attempts.of_endpoint(lane)
    }

    /// Returns the latest attempt through a circuit: of its endpoints, or of dynamic URLs. `None`: no attempt is known.
    #[must_use]
    pub fn last_attempt_of_circuit(&self, key: &str) -> Option<LastAttempt> {
        self.last_attempts.of_circuit(key, self.read().circuits.lanes(key))
    }

    /// Returns all circuits that have a policy of their own, with that policy.
    #[must_use]
    pub fn circuit_policies(&self) -> Vec<(Arc<str>, Arc<Policy>)> {
        self.read().circuits.policies()
    }

    /// Returns up to `limit` endpoints of one tenant, or of all tenants, that are older than `before`, newest first.
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

    /// Returns the API key with this hash, if it exists and is neither revoked nor expired.
    #[must_use]
    pub fn api_key(&self, hash: &KeyHash, now: Timestamp) -> Option<Arc<ApiKey>> {
        let key = self.read().keys_by_hash.get(hash).cloned()?;
        let is_it: bool = key.hash.0.ct_eq(&hash.0).into();
        let is_good = key.revoked_at.is_none() && key.expires_at.is_none_or(|expires_at| now < expires_at);
        (is_it && is_good).then_some(key)
    }

    /// Returns the API key with this id, even if it is revoked or expired, or `None` if it does not exist.
    #[must_use]
    pub fn api_key_named(&self, id: ApiKeyId) -> Option<Arc<ApiKey>> {
        self.read().keys.get(&id).cloned()
    }

    /// Returns up to `limit` API keys that are older than `before`, newest first: those bound to one tenant, or all.
    /// At most `looks` keys are read. If there may be more matches, the second result is the last key that was read.
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

    /// Computes a tenant's effective settings, without storing them.
    ///
    /// # Errors
    /// Returns an error if its policy is invalid.
    pub fn resolve_tenant(&self, tenant: Tenant, row: i64) -> Result<TenantEntry, RecordsError> {
        TenantEntry::resolve(tenant, row, &self.defaults)
    }

    /// Computes an endpoint's effective settings, without storing them.
    ///
    /// # Errors
    /// Returns an error if the tenant does not exist, or the policy or the URL is invalid.
    pub fn resolve_endpoint(&self, endpoint: Endpoint) -> Result<EndpointEntry, RecordsError> {
        let tenant = self.tenant(&endpoint.tenant);
        let tenant = tenant.ok_or_else(|| RecordsError::missing("tenant", &endpoint.tenant))?;
        EndpointEntry::resolve(endpoint, tenant, &self.defaults)
    }

    /// Computes the effective settings of a tenant's endpoints, given those of the tenant, without storing them.
    ///
    /// # Errors
    /// Returns an error if an endpoint's policy is no longer valid in combination with the tenant's.
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

    /// Adds or replaces a tenant and its endpoints in the directory, after their commit.
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

    /// Removes a deleted tenant and its API keys.
    pub fn remove_tenant(&self, id: &TenantId) {
        {
            let mut known = self.write();
            known.tenants.remove(id);
            known.keys.retain(|_, key| key.tenant.as_ref() != Some(id));
            known.keys_by_hash.retain(|_, key| key.tenant.as_ref() != Some(id));
            self.last_attempts.forget_tenant(id);
        }
        self.notify(Changed::TenantGone(id));
    }

    /// Adds or replaces an endpoint in the directory, after its commit.
    pub fn put_endpoint(&self, entry: EndpointEntry) {
        let entry = Arc::new(entry);
        let policies = {
            let mut known = self.write();
            if let Some(tenant_endpoints) = known.tenants.get_mut(&entry.tenant.id) {
                TenantEndpoints::change(tenant_endpoints).put(&entry);
            }
            let before = known.endpoints.insert(entry.lane(), Arc::clone(&entry));
            if before.as_ref().is_some_and(|before| before.url != entry.url) {
                // The latest response was another destination's.
                self.last_attempts.forget_endpoint(entry.lane());
            }
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
            self.last_attempts.forget_endpoint(id.into());
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

    /// Adds or replaces an API key in the directory, after its commit.
    pub fn put_api_key(&self, key: ApiKey) {
        let key = Arc::new(key);
        let mut known = self.write();
        known.keys.insert(key.id, Arc::clone(&key));
        known.keys_by_hash.insert(key.hash, key);
    }

    /// Notifies the watcher that new deliveries wait in a lane.
    pub fn woken(&self, lane: &WaitingLane) {
        self.notify(Changed::Woken(lane));
    }

    /// Notifies the watcher that a reminder must be checked by the scheduler.
    pub fn reminders_changed(&self) {
        self.notify(Changed::Reminders);
    }

    /// Returns a tenant and its current endpoints, or `None` if the tenant does not exist. Backends call this while
    /// they accept events.
    #[must_use]
    pub fn tenant_endpoints(&self, tenant: &TenantId) -> Option<Arc<TenantEndpoints>> {
        self.read().tenants.get(tenant).cloned()
    }

    /// Notifies the watcher of a change. Must not be called under the lock, because the watcher may perform lookups.
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
