//! The builder with which a registry is configured.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::fleet::Consistency;
use breakerbox_core::{Policy, Refusal};

use crate::breakerbox::{Breakerbox, DEFAULT_MAX_CIRCUITS};
use crate::clock::{AnyClock, Clock, Times};
use crate::fleet::{BackgroundTask, Fleet, OnStoreLoss, Runtime, Settings, Shared, StoredKeys};
use crate::observe::{CircuitChange, Observers, StoreHealth};
use crate::random::RandomSource;
use crate::registry::{Registry, TenantLimit};
use crate::store::Store;
use crate::telemetry::{DEFAULT_NAME, Telemetry};

/// Builds a [`Breakerbox`].
#[must_use]
pub struct BreakerboxBuilder {
    policy: Policy,
    clock: AnyClock,
    name: Arc<str>,
    observers: Observers,
    max_circuits: usize,
    of_tenant: Option<TenantLimit>,
    dry_run: bool,
    store: Option<Arc<dyn Store>>,
    settings: Settings,
    seed: Option<u64>,
    runtime: Option<Runtime>,
}

impl Default for BreakerboxBuilder {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            clock: AnyClock::system(),
            observers: Observers::default(),
            name: DEFAULT_NAME.into(),
            max_circuits: DEFAULT_MAX_CIRCUITS,
            of_tenant: None,
            dry_run: false,
            store: None,
            settings: Settings::default(),
            seed: None,
            runtime: None,
        }
    }
}

impl Breakerbox {
    /// Returns a builder with the default policy, the system clock and a limit of one million circuits.
    pub fn builder() -> BreakerboxBuilder {
        BreakerboxBuilder::default()
    }
}

impl BreakerboxBuilder {
    /// Sets the policy of all keys without a policy of their own. Default: the default [`Policy`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the registry's name in `tracing` events and metrics, for a service with several registries. Default:
    /// `default`. Has no effect without the features `tracing` and `metrics`.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Replaces the system clock, for example with a [`ManualClock`](crate::ManualClock) in tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = AnyClock::Custom(Arc::new(clock));
        self
    }

    /// Adds a function that receives every change after the change has happened, in the thread that caused it. The
    /// function should return quickly.
    pub fn observer(mut self, observer: impl Fn(&CircuitChange) + Send + Sync + 'static) -> Self {
        self.observers.add(observer);
        self
    }

    /// Sets the maximum number of circuits in the registry. Default: one million.
    pub fn max_circuits(mut self, max: usize) -> Self {
        self.max_circuits = max;
        self
    }

    /// Limits the number and memory of each tenant's circuits. Default: only the registry's limit applies. Beyond the
    /// limit, the registry first evicts idle circuits of the same tenant. If none can be evicted, this tenant's new
    /// keys get no circuit; other tenants' keys are not affected. Set this only if all keys begin with a tenant.
    pub fn tenant_limit(mut self, limit: TenantLimit) -> Self {
        self.of_tenant = Some(limit);
        self
    }

    /// Turns dry-run mode on. Circuits change their state as usual, but every call is admitted. `refused` receives the
    /// key and the refusal for each call that would have been refused. The outcomes of those calls are not counted.
    pub fn dry_run(mut self, refused: impl Fn(&str, &Refusal) + Send + Sync + 'static) -> Self {
        self.dry_run = true;
        self.observers.add_for_refusals(refused);
        self
    }

    /// Shares circuits with every process that uses the same store.
    ///
    /// The background tasks run on the tokio runtime in which [`build`](Self::build) is called. Outside a runtime, they
    /// run on a separate thread.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Sets how a fleet's processes agree on a circuit's state. Default: [`Consistency::LocalFirst`]. Set the same
    /// value in all processes.
    ///
    /// With [`Consistency::Strict`], each call accesses the store twice, before the call is made and before its result
    /// is returned. This requires waiting, so make calls with [`call`](crate::Circuit::call) and the middleware, or
    /// with [`acquire`](crate::Circuit::acquire) and [`settle_and_confirm`](crate::Permit::settle_and_confirm).
    /// Functions that do not wait refuse with [`Refusal::StoreRequired`].
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.settings.consistency = consistency;
        self
    }

    /// Declares that no other process shares this store. A trip then takes effect at once, because no other process can
    /// have unreported successes. Otherwise, with [`Consistency::LocalFirst`], a trip waits for other processes'
    /// reports for `flush_every`, at most 1 s, plus `store_timeout` (0.6 s by default).
    pub fn exclusive_store(mut self) -> Self {
        self.settings.is_exclusive = true;
        self
    }

    /// Sets the form in which keys are stored. Default: [`StoredKeys::Text`]. With [`StoredKeys::Hashed`], a key's
    /// text never reaches the store. Set the same value in all of a fleet's processes.
    pub fn stored_keys(mut self, stored: StoredKeys) -> Self {
        self.settings.stored_keys = stored;
        self
    }

    /// Sets the behaviour while the store is unavailable. Default: [`OnStoreLoss::Local`].
    pub fn on_store_loss(mut self, on_loss: OnStoreLoss) -> Self {
        self.settings.on_loss = on_loss;
        self
    }

    /// Sets the interval at which pending reports are sent to the store, in one batch. Default: 100 ms.
    pub fn flush_every(mut self, every: Duration) -> Self {
        self.settings.flush_every = every.max(Duration::from_millis(1));
        self
    }

    /// Sets the timeout for the store's responses. This is also the maximum time that
    /// an acquire waits. Default: [`DEFAULT_STORE_TIMEOUT`](crate::DEFAULT_STORE_TIMEOUT).
    /// The store's own timeout should be shorter, so that its error, which states the operation, comes first.
    pub fn store_timeout(mut self, limit: Duration) -> Self {
        self.settings.store_timeout = limit.max(Duration::from_millis(1));
        self
    }

    /// Sets the interval at which circuits that are not closed are read again from the store, in case a change was
    /// missed. Default: 2 s.
    pub fn reread_every(mut self, every: Duration) -> Self {
        self.settings.reread_every = every.max(Duration::from_millis(1));
        self
    }

    /// Adds a function that is called when the store becomes unavailable, and when it recovers.
    pub fn store_observer(mut self, observer: impl Fn(&StoreHealth) + Send + Sync + 'static) -> Self {
        self.observers.add_for_store(observer);
        self
    }

    /// Derives all random bits from this seed, and iterates over circuits in the order of their keys, for simulations.
    /// The same seed, clock and calls produce the same results. Never use this in production, because processes with
    /// the same seed generate the same versions and leases.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Runs the background tasks with `spawn`, for simulations that pause and kill processes. The tasks need tokio's
    /// timer.
    pub fn spawner(mut self, spawn: impl Fn(BackgroundTask) + Send + Sync + 'static) -> Self {
        self.runtime = Some(Runtime::custom(spawn));
        self
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.settings.consistency == Consistency::Strict
    }

    pub(crate) fn hashes_keys(&self) -> bool {
        self.settings.stored_keys == StoredKeys::Hashed
    }

    pub(crate) const fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// Builds the registry, and starts its background tasks if circuits are shared.
    ///
    /// # Panics
    /// If circuits are shared, this is called outside a tokio runtime, and the system cannot start another thread.
    #[must_use]
    pub fn build(mut self) -> Breakerbox {
        let telemetry = Telemetry::new(&self.name);
        self.observers.set_telemetry(telemetry.clone());
        let (settings, runtime) = (self.settings, self.runtime);
        let start = |store| Fleet::new(store, settings, runtime.unwrap_or_else(Runtime::current));
        let fleet = self.store.map(start);
        let times = Times::new(
            self.clock.or_paused(),
            fleet.as_ref().map(|_| settings.consistency),
            RandomSource::new(self.seed),
        );
        let times = times.exclusive(settings.is_exclusive).with_telemetry(telemetry);
        let registry = Registry::new(self.max_circuits, self.of_tenant, self.seed.is_some());
        let shared = Shared::new(self.policy, times, self.observers, registry, self.dry_run, fleet);
        Breakerbox::start(shared)
    }
}
