//! The registry that a service builds once and asks for circuits.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use breakerbox_core::{Key, KeyError, Policy};

use crate::builder::Builder;
use crate::cell::Cell;
use crate::circuit::Circuit;
use crate::clock::Times;
use crate::fleet::{self, Fleet, FlushError, StoreHealth};
use crate::handle::Handle;
use crate::observe::Observers;
use crate::policies::Policies;
use crate::registry::{Kept, Registry, check_key};
use crate::store::Unreadable;
use crate::waiters::Waiters;

/// How many circuits a registry holds unless it is told otherwise.
pub const DEFAULT_MAX_CIRCUITS: usize = 1_000_000;

/// Circuits by key. Build one for a service, clone it freely, and keep it for as long as the service runs.
#[derive(Clone)]
pub struct Breakerbox(Handle);

/// What all handles share.
pub(crate) struct Shared {
    pub(crate) times: Times,
    pub(crate) observers: Observers,
    pub(crate) waiters: Waiters,
    pub(crate) registry: Registry<Cell>,
    /// None: circuits are this process's own.
    pub(crate) fleet: Option<Fleet>,
    policies: RwLock<Policies>,
    /// Held by whoever changes policies.
    changing: Mutex<()>,
    pub(crate) dry_run: bool,
    late: AtomicU64,
    uncontrolled: AtomicU64,
    unheard: AtomicU64,
    overlaps: AtomicU64,
    opened_locally: AtomicU64,
}

impl Breakerbox {
    /// All handles to these circuits begin here.
    pub(crate) fn start(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        fleet::start(&shared);
        Self(Handle::new(shared))
    }

    /// A handle to circuits that are there.
    pub(crate) fn of(shared: &Arc<Shared>) -> Self {
        Self(Handle::new(Arc::clone(shared)))
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        self.0.shared()
    }

    /// Starts with the default policy, the system's clock and room for a million circuits.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The circuit of this key. Keep the handle where the same key is asked for often.
    ///
    /// If there is no room for one more circuit and none can go, the handle has none: it [admits everything and counts
    /// nothing](Circuit::is_controlled). Ask for the handle again to find room.
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

    /// The circuit of this key, if this process has it. Asking makes none: whoever looks at keys that others name does not fill
    /// the registry.
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

    /// Whether the tenant of this key has as many circuits as its [limit](crate::Builder::tenant_limit) allows, so that there is no
    /// room for this one.
    #[must_use]
    pub fn tenant_is_full(&self, key: &str) -> bool {
        self.0.registry.is_full_for(key)
    }

    /// The policy that governs this key: its own, its tenant's, or the default one.
    #[must_use]
    pub fn policy_of(&self, key: &str) -> Arc<Policy> {
        self.0.policy_of(key)
    }

    /// A handle to a circuit that is nobody's.
    #[cold]
    fn without_room(&self, key: &str) -> Circuit {
        let cell = Cell::new(key, self.0.policies().of(key), &self.0.times);
        Circuit::new(self.0.clone(), Arc::new(cell), false)
    }

    #[cold]
    fn add(&self, key: &str) -> Option<Arc<Cell>> {
        // Taken before the registry's lock, as by a change of policies, or the two would wait for each other. Held until the
        // circuit is in, so that a change comes before it or finds it.
        let policies = self.0.policies();
        let times = &self.0.times;
        let cell = self.0.registry.find_or_add(key, || Cell::new(key, policies.of(key), times), times)?;
        self.0.joined(&cell);
        Some(cell)
    }

    /// The circuit of a tenant's endpoint, host, or whole tenant.
    #[must_use]
    pub fn circuit_of(&self, key: &Key) -> Circuit {
        self.circuit(key.text()).expect("a key is neither empty nor too long")
    }

    /// Changes the policy of all keys that have none of their own, at once and without losing state.
    pub fn set_policy(&self, policy: Policy) {
        self.change_policies(|policies| policies.set_default(policy));
    }

    /// Changes the policy of a tenant's keys; none: the default's again.
    ///
    /// # Errors
    /// If there can be no such tenant.
    pub fn set_tenant_policy(&self, tenant: &str, policy: Option<Policy>) -> Result<(), KeyError> {
        Key::of_tenant(tenant)?;
        self.change_policies(|policies| policies.set_for_tenant(tenant, policy));
        Ok(())
    }

    /// Changes the policy of one key; none: its tenant's or the default's again. The key of a URL is
    /// [written in its own way](Key::of): pass that text.
    ///
    /// # Errors
    /// If there can be no such key.
    pub fn set_key_policy(&self, key: &str, policy: Option<Policy>) -> Result<(), KeyError> {
        check_key(key)?;
        // Only this key's circuit has to hear of it: many keys may have policies of their own.
        let _turn = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.policies_mut().set_for_key(key, policy);
        if let Some(cell) = self.0.registry.find(key) {
            cell.set_policy(self.0.policies().of(key), &self.0.times);
            self.0.waiters.wake_one(&cell);
        }
        Ok(())
    }

    fn change_policies(&self, change: impl FnOnce(&mut Policies)) {
        // One after the other, so that of two changes the later one stays.
        let _turn = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut self.0.policies_mut());
        // New circuits have the new policies already, and need not wait until all others have.
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

    /// Shows every circuit there is, one after the other. What comes or goes meanwhile may be missed.
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

    /// Lets go of what idle circuits do not need. Worth calling now and then where keys come and go.
    pub fn tidy(&self) {
        self.0.registry.for_each(|cell| {
            cell.may_go(&self.0.times);
        });
    }

    /// Reports to the store everything that was settled before, and waits for what follows from it: a circuit whose failures
    /// are enough is open for the fleet when this returns. For processes that end soon after a call, such as jobs and
    /// functions. Without a store it does nothing.
    ///
    /// It takes at most four times [`store_timeout`](crate::Builder::store_timeout), and the time in which others may
    /// contradict a trip that only this process has seen. It goes on in the background if you stop waiting.
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
    /// If the store has not heard everything.
    pub async fn flush(&self) -> Result<(), FlushError> {
        self.0.flush().await
    }

    /// [Flushes](Self::flush), then stops the background tasks. Call it before the process ends: dropping the last handle and
    /// shutting the runtime down try the same, but they have to block a thread and to connect to the store anew, and can't
    /// return an error. Circuits can be used afterwards, but are not shared any more.
    ///
    /// # Errors
    /// If the store has not heard everything. The background tasks are stopped all the same.
    pub async fn close(&self) -> Result<(), FlushError> {
        self.0.close().await
    }

    /// How many circuits there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.registry.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How the store is doing; none if there is none.
    #[must_use]
    pub fn store_health(&self) -> Option<StoreHealth> {
        self.0.fleet.as_ref().map(Fleet::health)
    }

    /// The circuits whose record in the store can't be read at the moment, by the store's names for them (see
    /// [`StoredKeys`](crate::StoredKeys)), and why. They go on
    /// in this process alone until it can be.
    #[must_use]
    pub fn unreadable(&self) -> Vec<Unreadable> {
        self.0.fleet.as_ref().map(Fleet::unreadable).unwrap_or_default()
    }

    /// What happened that nobody was told of.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            late_results: self.0.late.load(Ordering::Relaxed),
            uncontrolled: self.0.uncontrolled.load(Ordering::Relaxed),
            observer_panics: self.0.observers.panics(),
            unheard: self.0.unheard.load(Ordering::Relaxed),
            overlaps: self.0.overlaps.load(Ordering::Relaxed),
            opened_locally: self.0.opened_locally.load(Ordering::Relaxed),
        }
    }
}

impl Shared {
    pub(crate) fn new(
        policy: Policy,
        times: Times,
        observers: Observers,
        registry: Registry<Cell>,
        dry_run: bool,
        fleet: Option<Fleet>,
    ) -> Self {
        Self {
            times,
            observers,
            waiters: Waiters::default(),
            registry,
            fleet,
            policies: RwLock::new(Policies::new(policy)),
            changing: Mutex::new(()),
            dry_run,
            late: AtomicU64::new(0),
            uncontrolled: AtomicU64::new(0),
            unheard: AtomicU64::new(0),
            overlaps: AtomicU64::new(0),
            opened_locally: AtomicU64::new(0),
        }
    }

    fn policies(&self) -> std::sync::RwLockReadGuard<'_, Policies> {
        self.policies.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn policies_mut(&self) -> std::sync::RwLockWriteGuard<'_, Policies> {
        self.policies.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The policy that governs this key.
    pub(crate) fn policy_of(&self, key: &str) -> Arc<Policy> {
        self.policies().of(key)
    }

    #[cold]
    pub(crate) fn count_uncontrolled(&self) {
        self.uncontrolled.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_overlap(&self) {
        self.overlaps.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_opened_here(&self) {
        self.opened_locally.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_unheard(&self) {
        self.unheard.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_late(&self, results: u64) {
        self.late.fetch_add(results, Ordering::Relaxed);
    }
}

/// What happened that nobody was told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Results that came after their epoch or lease, and changed nothing.
    pub late_results: u64,
    /// Calls that were admitted without a circuit, because there was no room for one.
    pub uncontrolled: u64,
    /// Observers that panicked.
    pub observer_panics: u64,
    /// Probes beside which somebody else was given one. It takes a store that lost writes, or whose clock stepped; while a
    /// store is away nobody can tell.
    pub overlaps: u64,
    /// How often counts of a circuit were told to a store that did not answer. They may be lost; they are not told again.
    pub unheard: u64,
    /// How often this process opened a circuit for itself alone, because its own calls failed and the fleet's did not. No
    /// observer hears of it.
    pub opened_locally: u64,
}

impl fmt::Debug for Breakerbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breakerbox").field("circuits", &self.len()).finish_non_exhaustive()
    }
}
