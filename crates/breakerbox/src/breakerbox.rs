//! The registry of circuits, which a service builds once.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use breakerbox_core::{Key, KeyError, Policy};

use crate::cell::Cell;
use crate::circuit::Circuit;
use crate::fleet::{self, Fleet, FlushError, Shared};
use crate::handle::Handle;
use crate::observe::StoreHealth;
use crate::policies::Policies;
use crate::registry::{RegistryEntry, check_key};
use crate::store::Unreadable;

/// The default maximum number of circuits in a registry.
pub const DEFAULT_MAX_CIRCUITS: usize = 1_000_000;

/// The registry: circuits by key. Build one per service, clone it freely, and keep it for as long as the service runs.
#[derive(Clone)]
pub struct Breakerbox(Handle);

impl Breakerbox {
    /// Creates the first handle to these circuits.
    pub(crate) fn start(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        fleet::start(&shared);
        Self(Handle::new(shared))
    }

    /// Creates a further handle to existing circuits.
    pub(crate) fn of(shared: &Arc<Shared>) -> Self {
        Self(Handle::new(Arc::clone(shared)))
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        self.0.shared()
    }

    /// Returns the circuit of this key, and creates it if necessary. Keep the handle if you need the same key often.
    ///
    /// If the registry is full and can evict nothing, the handle has no circuit: it [admits every call and counts
    /// none](Circuit::is_controlled). Get the handle again later to use a free slot.
    ///
    /// # Errors
    /// If the key is empty or too long.
    #[inline]
    pub fn circuit(&self, key: &str) -> Result<Circuit, KeyError> {
        check_key(key)?;
        Ok(match self.0.registry.find(key).or_else(|| self.add(key)) {
            Some(cell) => Circuit::new(self.0.clone(), cell, true),
            None => self.without_room(key),
        })
    }

    /// Returns the circuit of this key if this process has it. It creates none, so looking up keys that others supply
    /// does not fill the registry.
    ///
    /// ```
    /// use breakerbox::Breakerbox;
    ///
    /// let breakers = Breakerbox::builder().build();
    /// assert!(breakers.find("https://api.example.com/orders").is_none());
    /// breakers.circuit("https://api.example.com/orders")?;
    /// assert!(breakers.find("https://api.example.com/orders").is_some());
    /// # Ok::<(), breakerbox::KeyError>(())
    /// ```
    #[must_use]
    pub fn find(&self, key: &str) -> Option<Circuit> {
        check_key(key).ok()?;
        self.0.registry.find(key).map(|cell| Circuit::new(self.0.clone(), cell, true))
    }

    /// Returns whether the tenant of this key has reached its [limit](crate::Builder::tenant_limit), so that this key
    /// can get no circuit.
    #[must_use]
    pub fn tenant_is_full(&self, key: &str) -> bool {
        self.0.registry.is_full_for(key)
    }

    /// Returns the policy that governs this key: its own, that of its tenant, or the default.
    #[must_use]
    pub fn policy_of(&self, key: &str) -> Arc<Policy> {
        self.0.policy_of(key)
    }

    /// Creates a handle whose circuit is not in the registry.
    #[cold]
    fn without_room(&self, key: &str) -> Circuit {
        let cell = Cell::new(key, self.0.policies().of(key), &self.0.times);
        Circuit::new(self.0.clone(), Arc::new(cell), false)
    }

    #[cold]
    fn add(&self, key: &str) -> Option<Arc<Cell>> {
        // Lock policies before the registry, in the same order as a change of policies, to avoid a deadlock. Hold the
        // lock until the circuit is added, so that a change happens before it or finds it.
        let policies = self.0.policies();
        let times = &self.0.times;
        let cell = self.0.registry.find_or_add(key, || Cell::new(key, policies.of(key), times), times)?;
        self.0.joined(&cell);
        Some(cell)
    }

    /// Returns the circuit of an endpoint, a host or a whole tenant.
    #[must_use]
    pub fn circuit_of(&self, key: &Key) -> Circuit {
        self.circuit(key.text()).expect("a key is neither empty nor too long")
    }

    /// Changes the policy of all keys that have no policy of their own, at once and without losing state.
    pub fn set_policy(&self, policy: Policy) {
        self.change_policies(|policies| policies.set_default(policy));
    }

    /// Changes the policy of a tenant's keys. None restores the default policy.
    ///
    /// # Errors
    /// If the tenant name is not valid.
    pub fn set_tenant_policy(&self, tenant: &str, policy: Option<Policy>) -> Result<(), KeyError> {
        Key::of_tenant(tenant)?;
        self.change_policies(|policies| policies.set_for_tenant(tenant, policy));
        Ok(())
    }

    /// Changes the policy of one key. None restores the policy of its tenant or the default. The key of a URL has a
    /// [normalised text](Key::of): pass that text.
    ///
    /// # Errors
    /// If the key is not valid.
    pub fn set_key_policy(&self, key: &str, policy: Option<Policy>) -> Result<(), KeyError> {
        check_key(key)?;
        // Update only the circuit of this key: many keys may have policies of their own.
        let _turn = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.policies_mut().set_for_key(key, policy);
        if let Some(cell) = self.0.registry.find(key) {
            cell.set_policy(self.0.policies().of(key), &self.0.times);
            self.0.waiters.wake_one(&cell);
        }
        Ok(())
    }

    fn change_policies(&self, change: impl FnOnce(&mut Policies)) {
        // Serialised, so that the later of two changes wins.
        let _turn = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut self.0.policies_mut());
        // New circuits already have the new policies, and need not wait for the others.
        for cells in self.0.registry.by_parts() {
            for cell in &cells {
                let policy = self.0.policies().of(cell.key());
                if !Arc::ptr_eq(&policy, &cell.policy()) {
                    cell.set_policy(policy, &self.0.times);
                    self.0.waiters.wake_one(cell);
                }
            }
        }
    }

    /// Calls `visit` with each circuit. Circuits that are added or evicted meanwhile may be missed.
    ///
    /// ```
    /// use breakerbox::{Breakerbox, Status};
    ///
    /// let breakers = Breakerbox::builder().build();
    /// breakers.circuit("https://api.example.com/orders")?;
    /// let mut open = Vec::new();
    /// breakers.for_each(|circuit| {
    ///     if circuit.status() == Status::Open {
    ///         open.push(circuit.key().to_owned());
    ///     }
    /// });
    /// assert!(open.is_empty());
    /// # Ok::<(), breakerbox::KeyError>(())
    /// ```
    pub fn for_each(&self, mut visit: impl FnMut(&Circuit)) {
        for cell in self.0.registry.by_parts().flatten() {
            visit(&Circuit::new(self.0.clone(), cell, true));
        }
    }

    /// Releases the memory that idle circuits do not need. Call it now and then if keys come and go.
    pub fn tidy(&self) {
        self.0.registry.for_each(|cell| {
            cell.is_evictable(&self.0.times);
        });
    }

    /// Reports all settled outcomes to the store, and waits for the resulting transitions: a circuit with enough
    /// failures is open for the fleet when this returns. For processes that end soon after a call, such as jobs and
    /// functions. Without a store it does nothing.
    ///
    /// It takes at most four times [`store_timeout`](crate::Builder::store_timeout), plus the time in which other
    /// processes may contradict a trip that only this process has seen. If you drop the future, it continues in the
    /// background.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// use breakerbox::Breakerbox;
    /// use breakerbox::store::MemoryStore;
    ///
    /// let breakers = Breakerbox::builder().store(MemoryStore::new()).build();
    /// let circuit = breakers.circuit("acme https://hooks.acme.example/in")?;
    /// let _ = circuit.call(async { Err::<(), _>("connection refused") }).await;
    /// breakers.flush().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If not everything was reported to the store.
    pub async fn flush(&self) -> Result<(), FlushError> {
        self.0.flush().await
    }

    /// [Flushes](Self::flush), then stops the background tasks. Call it before the process ends: dropping the last
    /// handle and shutting down the runtime attempt the same, but they must block a thread and open a new connection to
    /// the store, and can't return an error. Circuits stay usable afterwards, but are no longer shared.
    ///
    /// # Errors
    /// If not everything was reported to the store. The background tasks are stopped in any case.
    pub async fn close(&self) -> Result<(), FlushError> {
        self.0.close().await
    }

    /// Returns the number of circuits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.registry.len()
    }

    /// Returns whether there are no circuits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the health of the store; none without a store.
    #[must_use]
    pub fn store_health(&self) -> Option<StoreHealth> {
        self.0.fleet.as_ref().map(Fleet::health)
    }

    /// Returns the circuits whose record in the store can't be read at present, by their names in the store (see
    /// [`StoredKeys`](crate::StoredKeys)), with the reasons. Until the record can be read, this process does not share
    /// them.
    #[must_use]
    pub fn unreadable(&self) -> Vec<Unreadable> {
        self.0.fleet.as_ref().map(Fleet::unreadable).unwrap_or_default()
    }

    /// Returns the counters of occurrences that are reported nowhere else.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            late_results: self.0.late.load(Ordering::Relaxed),
            uncontrolled: self.0.uncontrolled.load(Ordering::Relaxed),
            observer_panics: self.0.observers.panics(),
            unanswered_reports: self.0.unanswered_reports.load(Ordering::Relaxed),
            overlaps: self.0.overlaps.load(Ordering::Relaxed),
            opened_locally: self.0.opened_locally.load(Ordering::Relaxed),
        }
    }
}

/// Counters of occurrences that are reported nowhere else, since the registry was built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Results that arrived after their epoch or lease, and changed nothing.
    pub late_results: u64,
    /// Calls that were admitted without a circuit, because the registry was full.
    pub uncontrolled: u64,
    /// Panics of observers.
    pub observer_panics: u64,
    /// Probes that ran while another process was given a probe too. This happens only if a store lost writes or its
    /// clock stepped. While a store is unavailable, it can't be detected.
    pub overlaps: u64,
    /// Reports of counts to which the store did not respond. The counts may be lost; they are not reported again.
    pub unanswered_reports: u64,
    /// Times that this process opened a circuit for itself alone, because its own calls failed and those of the fleet
    /// did not. No observer receives this.
    pub opened_locally: u64,
}

impl fmt::Debug for Breakerbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breakerbox").field("circuits", &self.len()).finish_non_exhaustive()
    }
}
