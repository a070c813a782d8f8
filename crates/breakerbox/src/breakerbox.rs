//! The registry of circuits, of which a service builds one.

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

/// The registry of circuits by key. Build one for each service. Clones are cheap and share the circuits. Keep one while
/// the service runs.
#[derive(Clone)]
pub struct Breakerbox(Handle);

impl Breakerbox {
    /// Creates the first handle to a registry.
    pub(crate) fn start(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        fleet::start(&shared);
        Self(Handle::new(shared))
    }

    /// Creates another handle to an existing registry.
    pub(crate) fn of(shared: &Arc<Shared>) -> Self {
        Self(Handle::new(Arc::clone(shared)))
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        self.0.shared()
    }

    /// Returns the circuit for this key, creating it if necessary. Keep the handle if you use the same key often.
    ///
    /// If the registry is full and cannot evict a circuit, the handle has no circuit, and [admits every call and counts
    /// none](Circuit::is_controlled). To use a slot that becomes free later, get the handle again.
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

    /// Returns this key's circuit; `None` if this process has none. Unlike [`circuit`](Self::circuit), this never
    /// creates a circuit, so keys from untrusted sources cannot fill the registry.
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

    /// Returns whether this key's tenant has reached its [limit](crate::BreakerboxBuilder::tenant_limit), so that the key
    /// cannot get a circuit.
    #[must_use]
    pub fn tenant_is_full(&self, key: &str) -> bool {
        self.0.registry.is_full_for(key)
    }

    /// Returns the policy that governs this key, which is the key's own, its tenant's, or the default policy.
    #[must_use]
    pub fn policy_of(&self, key: &str) -> Arc<Policy> {
        self.0.policies().set_for(key)
    }

    /// Creates a handle for a key that gets no circuit, because the registry is full.
    #[cold]
    fn without_room(&self, key: &str) -> Circuit {
        let cell = Cell::new(key, self.0.policies().of(key), &self.0.times);
        Circuit::new(self.0.clone(), Arc::new(cell), false)
    }

    #[cold]
    fn add(&self, key: &str) -> Option<Arc<Cell>> {
        // Lock the policies before the registry, in the same order as when policies change, to avoid a deadlock. Hold
        // the lock until the circuit is added, so that a change either happens earlier or includes it.
        let policies = self.0.policies();
        let times = &self.0.times;
        let cell = self.0.registry.find_or_add(key, || Cell::new(key, policies.of(key), times), times)?;
        self.0.joined(&cell);
        Some(cell)
    }

    /// Returns the circuit for the key of an endpoint, a host or a tenant, creating it if necessary.
    #[must_use]
    pub fn circuit_of(&self, key: &Key) -> Circuit {
        self.circuit(key.text()).expect("a key is neither empty nor too long")
    }

    /// Changes the policy of all keys without a policy of their own. The new policy applies at once, and circuits keep
    /// their state.
    pub fn set_policy(&self, policy: Policy) {
        self.change_policies(|policies| policies.set_default(policy));
    }

    /// Changes the policy of a tenant's keys. `None` restores the default policy.
    ///
    /// # Errors
    /// If the tenant's name is not valid.
    pub fn set_tenant_policy(&self, tenant: &str, policy: Option<Policy>) -> Result<(), KeyError> {
        Key::of_tenant(tenant)?;
        self.change_policies(|policies| policies.set_for_tenant(tenant, policy));
        Ok(())
    }

    /// Changes one key's policy. `None` restores the tenant's policy or the default. For a URL, pass the [normalised
    /// text](Key::of) of its key.
    ///
    /// # Errors
    /// If the key is not valid.
    pub fn set_key_policy(&self, key: &str, policy: Option<Policy>) -> Result<(), KeyError> {
        check_key(key)?;
        // Update only this key's circuit: many keys may have policies of their own.
        let _turn = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.policies_mut().set_for_key(key, policy);
        if let Some(cell) = self.0.registry.find(key) {
            cell.set_policy(self.0.policies().of(key), &self.0.times);
            self.0.waiters.wake_one(&cell);
        }
        Ok(())
    }

    /// Suspends or resumes disabling: while it is suspended, no circuit is disabled after too many trips, whatever its
    /// policy says. For an [outage on this side](breakerbox_core::own_outage). Circuits keep their state, and disabled
    /// ones stay disabled.
    ///
    /// ```
    /// use breakerbox::{Breakerbox, Policy};
    ///
    /// let policy = Policy::builder().disable_after(10).build()?;
    /// let breakers = Breakerbox::builder().policy(policy).build();
    /// let circuit = breakers.circuit("https://api.example.com/orders")?;
    /// breakers.suspend_disabling(true);
    /// assert_eq!(circuit.policy().disable_after(), None);
    /// breakers.suspend_disabling(false);
    /// assert_eq!(circuit.policy().disable_after(), Some(10));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn suspend_disabling(&self, is_suspended: bool) {
        self.change_policies(|policies| policies.suspend_disabling(is_suspended));
    }

    fn change_policies(&self, change: impl FnOnce(&mut Policies)) {
        // Changes are serialised, so that the later of two wins.
        let _turn = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut self.0.policies_mut());
        // New circuits already have the new policies, and need not wait for the others to be updated.
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
    /// use breakerbox::{Breakerbox, CircuitStatus};
    ///
    /// let breakers = Breakerbox::builder().build();
    /// breakers.circuit("https://api.example.com/orders")?;
    /// let mut open = Vec::new();
    /// breakers.for_each(|circuit| {
    ///     if circuit.status() == CircuitStatus::Open {
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

    /// Releases memory that idle circuits do not need. Call this occasionally if new keys keep replacing old ones.
    pub fn tidy(&self) {
        self.0.registry.for_each(|cell| {
            cell.is_evictable(&self.0.times);
        });
    }

    /// Reports all settled outcomes to the store and waits for the resulting transitions. When this returns, a circuit
    /// with enough failures is open for the whole fleet. Use this in processes that end soon after a call, such as jobs
    /// and functions. Without a store this has no effect.
    ///
    /// A flush takes at most four times [`store_timeout`](crate::BreakerboxBuilder::store_timeout), plus the time in which other
    /// processes may contradict a trip that only this process has seen. If you drop the future, the flush continues in
    /// the background.
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
    /// If some outcomes could not be reported to the store.
    pub async fn flush(&self) -> Result<(), FlushError> {
        self.0.flush().await
    }

    /// [Flushes](Self::flush), then stops the background tasks. Call this before the process ends. Dropping the last
    /// handle or shutting down the runtime also flushes if possible, but blocks a thread, opens a new connection to the
    /// store, and cannot return an error. After closing, circuits remain usable, but are no longer shared.
    ///
    /// # Errors
    /// If some outcomes could not be reported to the store. The background tasks are stopped in any case.
    pub async fn close(&self) -> Result<(), FlushError> {
        self.0.close().await
    }

    /// Returns the number of circuits in the registry.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.registry.len()
    }

    /// Returns whether the registry has no circuits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the store's health; `None` without a store.
    #[must_use]
    pub fn store_health(&self) -> Option<StoreHealth> {
        self.0.fleet.as_ref().map(Fleet::health)
    }

    /// Returns the circuits whose records in the store cannot be read at present, by their names in the store (see
    /// [`StoredKeys`](crate::StoredKeys)), with the reasons. This process does not share these circuits until their
    /// records can be read.
    #[must_use]
    pub fn unreadable(&self) -> Vec<Unreadable> {
        self.0.fleet.as_ref().map(Fleet::unreadable).unwrap_or_default()
    }

    /// Returns counters of events that observers do not receive.
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

/// Counters of events that observers do not receive. They start at zero when the registry is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Results that arrived after their epoch or lease was over, and had no effect.
    pub late_results: u64,
    /// Calls that were admitted without a circuit, because the registry was full.
    pub uncontrolled: u64,
    /// Panics in observers, which the registry catches.
    pub observer_panics: u64,
    /// Probes that were in flight while another process was given a probe too. This happens only if a store loses
    /// writes or its clock steps, and cannot be detected while the store is unavailable.
    pub overlaps: u64,
    /// Reports to which the store did not respond. They are not sent again, so their counts may be lost.
    pub unanswered_reports: u64,
    /// The number of times that this process opened a circuit only for itself, because its own calls failed and other
    /// processes' did not. Observers are not notified of this.
    pub opened_locally: u64,
}

impl fmt::Debug for Breakerbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breakerbox").field("circuits", &self.len()).finish_non_exhaustive()
    }
}
