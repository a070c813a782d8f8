//! The registry that a service builds once and asks for circuits.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use breakerbox_core::{Key, KeyError, Policy, Refusal};

use crate::cell::{Cell, tenant_of};
use crate::circuit::Circuit;
use crate::clock::{AnyClock, Clock, Times};
use crate::fleet::{self, Fleet, OnStoreLoss, Settings, StoreHealth};
use crate::observe::{CircuitChange, Observers};
use crate::registry::{Kept, Registry, check_key};
use crate::store::Store;
use crate::waiters::Waiters;

/// How many circuits a registry holds unless it is told otherwise.
pub const DEFAULT_MAX_CIRCUITS: usize = 1_000_000;

/// Circuits by key. Build one for a service, clone it freely, and keep it for as long as the service runs.
#[derive(Clone)]
pub struct Breakerbox(Arc<Shared>);

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
}

/// Which policy governs which key: its own, its tenant's, or the default.
struct Policies {
    default: Arc<Policy>,
    by_tenant: HashMap<Box<str>, Arc<Policy>>,
    by_key: HashMap<Box<str>, Arc<Policy>>,
}

impl Policies {
    fn of(&self, key: &str) -> Arc<Policy> {
        let of_tenant = || self.by_tenant.get(tenant_of(key)?);
        Arc::clone(self.by_key.get(key).or_else(of_tenant).unwrap_or(&self.default))
    }
}

impl Breakerbox {
    /// Starts with the default policy, the system's clock and room for a million circuits.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The circuit of this key. Keep the handle where the same key is asked for often.
    ///
    /// # Errors
    /// If the key is empty or too long.
    #[inline]
    pub fn circuit(&self, key: &str) -> Result<Circuit, KeyError> {
        check_key(key)?;
        let cell = self.0.registry.find(key).or_else(|| self.add(key));
        Ok(Circuit::new(Arc::clone(&self.0), cell, self.0.dry_run))
    }

    #[cold]
    fn add(&self, key: &str) -> Option<Arc<Cell>> {
        // Taken before the registry's lock, as by a change of policies, or the two would wait for each other. Held until the
        // circuit is in, so that a change comes before it or finds it.
        let policies = self.0.policies();
        let times = &self.0.times;
        self.0.registry.find_or_add(key, || Cell::new(key, policies.of(key), times), times)
    }

    /// The circuit of a tenant's endpoint, host, or whole tenant.
    #[must_use]
    pub fn circuit_of(&self, key: &Key) -> Circuit {
        self.circuit(key.text()).expect("a key is neither empty nor too long")
    }

    /// Changes the policy of all keys that have none of their own, at once and without losing state.
    pub fn set_policy(&self, policy: Policy) {
        self.change_policies(|policies| policies.default = Arc::new(policy));
    }

    /// Changes the policy of a tenant's keys; none: the default's again.
    ///
    /// # Errors
    /// If there can be no such tenant.
    pub fn set_tenant_policy(&self, tenant: &str, policy: Option<Policy>) -> Result<(), KeyError> {
        Key::of_tenant(tenant)?;
        self.change_policies(|policies| put(&mut policies.by_tenant, tenant, policy));
        Ok(())
    }

    /// Changes the policy of one key; none: its tenant's or the default's again.
    ///
    /// # Errors
    /// If there can be no such key.
    pub fn set_key_policy(&self, key: &str, policy: Option<Policy>) -> Result<(), KeyError> {
        check_key(key)?;
        self.change_policies(|policies| put(&mut policies.by_key, key, policy));
        Ok(())
    }

    fn change_policies(&self, change: impl FnOnce(&mut Policies)) {
        // One after the other, so that of two changes the later one stays.
        let _turn = self.0.changing.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut self.0.policies.write().unwrap_or_else(PoisonError::into_inner));
        // New circuits have the new policies already, and need not wait until all others have.
        let policies = self.0.policies();
        self.0.registry.for_each(|cell| {
            let policy = policies.of(cell.key());
            if !Arc::ptr_eq(&policy, &cell.policy()) {
                cell.set_policy(policy, &self.0.times);
                self.0.waiters.wake_one(cell);
            }
        });
    }

    /// Lets go of what idle circuits do not need. Worth calling now and then where keys come and go.
    pub fn tidy(&self) {
        self.0.registry.for_each(|cell| {
            cell.may_go(&self.0.times);
        });
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

    /// What happened that nobody was told of.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            late_results: self.0.late.load(Ordering::Relaxed),
            uncontrolled: self.0.registry.uncontrolled(),
            observer_panics: self.0.observers.panics(),
        }
    }
}

fn put(policies: &mut HashMap<Box<str>, Arc<Policy>>, name: &str, policy: Option<Policy>) {
    match policy {
        Some(policy) => policies.insert(name.into(), Arc::new(policy)),
        None => policies.remove(name),
    };
}

impl Shared {
    fn policies(&self) -> std::sync::RwLockReadGuard<'_, Policies> {
        self.policies.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count_late(&self) {
        self.late.fetch_add(1, Ordering::Relaxed);
    }
}

/// What happened that nobody was told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Results that came after their epoch or lease, and changed nothing.
    pub late_results: u64,
    /// Asks for a circuit that found no room for one.
    pub uncontrolled: u64,
    /// Observers that panicked.
    pub observer_panics: u64,
}

impl fmt::Debug for Breakerbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breakerbox").field("circuits", &self.len()).finish_non_exhaustive()
    }
}

/// Builds a [`Breakerbox`].
#[must_use]
pub struct Builder {
    policy: Policy,
    clock: AnyClock,
    observers: Observers,
    max_circuits: usize,
    dry_run: bool,
    store: Option<Arc<dyn Store>>,
    settings: Settings,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            clock: AnyClock::System,
            observers: Observers::default(),
            max_circuits: DEFAULT_MAX_CIRCUITS,
            dry_run: false,
            store: None,
            settings: Settings::default(),
        }
    }
}

impl Builder {
    /// The policy of all keys that get none of their own.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Another clock, such as a [`ManualClock`](crate::ManualClock) in tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = AnyClock::Custom(Arc::new(clock));
        self
    }

    /// Somebody who hears of every change, after the fact, in the thread that caused it. It should be quick.
    pub fn observer(mut self, observer: impl Fn(&CircuitChange) + Send + Sync + 'static) -> Self {
        self.observers.add(observer);
        self
    }

    /// How many circuits there may be; a million if nothing is said.
    pub fn max_circuits(mut self, max: usize) -> Self {
        self.max_circuits = max;
        self
    }

    /// Observe only: circuits live their whole life, every call is admitted, and `refused` hears of those that would have
    /// been refused. They count nowhere.
    pub fn dry_run(mut self, refused: impl Fn(&str, &Refusal) + Send + Sync + 'static) -> Self {
        self.dry_run = true;
        self.observers.add_for_refusals(refused);
        self
    }

    /// Shares circuits with every process that uses the same store.
    ///
    /// What goes on in the background runs on the tokio runtime that [`build`](Self::build) is called in, or else on a thread
    /// of its own.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// What to do while the store is away; [`OnStoreLoss::Local`] if nothing is said.
    pub fn on_store_loss(mut self, on_loss: OnStoreLoss) -> Self {
        self.settings.on_loss = on_loss;
        self
    }

    /// How often failures are told to the store; every 100 ms if nothing is said.
    pub fn flush_every(mut self, every: Duration) -> Self {
        self.settings.flush_every = every.max(Duration::from_millis(1));
        self
    }

    /// How long the store may take to answer; 500 ms if nothing is said.
    pub fn store_timeout(mut self, limit: Duration) -> Self {
        self.settings.store_timeout = limit.max(Duration::from_millis(1));
        self
    }

    /// How often circuits that are not closed are read again, in case a change was missed; every 2 s if nothing is said.
    pub fn reread_every(mut self, every: Duration) -> Self {
        self.settings.reread_every = every.max(Duration::from_millis(1));
        self
    }

    /// Somebody who hears when the store goes away and when it comes back.
    pub fn store_observer(mut self, observer: impl Fn(&StoreHealth) + Send + Sync + 'static) -> Self {
        self.observers.add_for_store(observer);
        self
    }

    /// The registry.
    #[must_use]
    pub fn build(self) -> Breakerbox {
        let policies =
            Policies { default: Arc::new(self.policy), by_tenant: HashMap::new(), by_key: HashMap::new() };
        let settings = self.settings;
        let fleet = self.store.map(|store| Fleet::new(store, settings, fleet::runtime()));
        let shared = Arc::new(Shared {
            times: Times::new(self.clock, fleet.is_some()),
            observers: self.observers,
            waiters: Waiters::default(),
            registry: Registry::new(self.max_circuits),
            policies: RwLock::new(policies),
            changing: Mutex::new(()),
            dry_run: self.dry_run,
            late: AtomicU64::new(0),
            fleet,
        });
        fleet::start(&shared);
        Breakerbox(shared)
    }
}
