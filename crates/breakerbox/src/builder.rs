//! What a service says about its circuits before there are any.

use std::sync::Arc;
use std::time::Duration;

use breakerbox_core::fleet::Consistency;
use breakerbox_core::{Policy, PolicyBuilder, Refusal};

use crate::breakerbox::{Breakerbox, DEFAULT_MAX_CIRCUITS, Shared};
use crate::clock::{AnyClock, Clock, Times};
use crate::draws::Draws;
use crate::fleet::{BackgroundTask, Fleet, OnStoreLoss, Runtime, Settings, StoreHealth, StoredKeys};
use crate::observe::{CircuitChange, Observers};
use crate::registry::{Registry, TenantLimit};
use crate::sampling::SamplingBuilder;
use crate::store::Store;

/// Builds a [`Breakerbox`].
#[must_use]
pub struct Builder {
    policy: Policy,
    clock: AnyClock,
    observers: Observers,
    max_circuits: usize,
    of_tenant: Option<TenantLimit>,
    dry_run: bool,
    store: Option<Arc<dyn Store>>,
    settings: Settings,
    seed: Option<u64>,
    runtime: Option<Runtime>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            clock: AnyClock::system(),
            observers: Observers::default(),
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

    /// What one tenant may have of them; as much as there is if nothing is said. Beyond it the tenant's own idle circuits go
    /// first. If none can go, its new keys have no circuit; other tenants' keys have theirs. Set it only where all keys begin
    /// with a tenant.
    pub fn tenant_limit(mut self, limit: TenantLimit) -> Self {
        self.of_tenant = Some(limit);
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

    /// How closely the processes keep together; [`Consistency::LocalFirst`] if nothing is said. All processes should say the
    /// same.
    ///
    /// Strictly, a call goes to the store twice: before it is made, and before its result is handed out. That takes waiting,
    /// so calls are made by [`call`](crate::Circuit::call) and the middleware, or by
    /// [`acquire`](crate::Circuit::acquire) and [`settle_and_confirm`](crate::Permit::settle_and_confirm). Whoever asks without
    /// waiting is refused with [`Refusal::StoreRequired`].
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.settings.consistency = consistency;
        self
    }

    /// No other process shares this store. Then nobody else's successes can be on their way, and a trip takes place at once: in
    /// a fleet, local-first, it waits for a second and a half for them.
    pub fn exclusive_store(mut self) -> Self {
        self.settings.is_exclusive = true;
        self
    }

    /// What the store holds of keys; [`StoredKeys::Text`] if nothing is said. With [`StoredKeys::Hashed`] no text of a key reaches
    /// the store. All processes of a fleet must say the same.
    pub fn stored_keys(mut self, stored: StoredKeys) -> Self {
        self.settings.stored_keys = stored;
        self
    }

    /// What to do while the store is away; [`OnStoreLoss::Local`] if nothing is said.
    pub fn on_store_loss(mut self, on_loss: OnStoreLoss) -> Self {
        self.settings.on_loss = on_loss;
        self
    }

    /// How often reports that are due go to the store, all together; every 100 ms if nothing is said.
    pub fn flush_every(mut self, every: Duration) -> Self {
        self.settings.flush_every = every.max(Duration::from_millis(1));
        self
    }

    /// How long the store may take to answer; [`DEFAULT_STORE_TIMEOUT`](crate::DEFAULT_STORE_TIMEOUT) if nothing is said. No ask
    /// waits longer. A store has a limit of its own, which should be shorter: it knows what it waits for, and says so.
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

    /// For simulations: all random bits come from this seed, and circuits are gone through in the order of their keys. With
    /// the same seed, clock and calls, everything happens again as it did. Never use it in production: versions and leases
    /// of processes with the same seed are the same.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// For simulations, which pause and kill: somebody else runs what goes on in the background. The tasks need tokio's timer.
    pub fn spawner(mut self, spawn: impl Fn(BackgroundTask) + Send + Sync + 'static) -> Self {
        self.runtime = Some(Runtime::custom(spawn));
        self
    }

    /// Circuits that are sampled, in place of circuits that hear of every call: what became of calls is in a table of yours
    /// already, and one process of the fleet looks there. See [`sampling`](crate::sampling). The policy takes the place
    /// of [`policy`](Self::policy).
    pub fn sampling(self, policy: PolicyBuilder) -> SamplingBuilder {
        SamplingBuilder::new(self, policy)
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

    /// The registry.
    ///
    /// # Panics
    /// If circuits are shared, this is not called in a tokio runtime, and the system has no thread left to start.
    #[must_use]
    pub fn build(self) -> Breakerbox {
        let (settings, runtime) = (self.settings, self.runtime);
        let start = |store| Fleet::new(store, settings, runtime.unwrap_or_else(Runtime::current));
        let fleet = self.store.map(start);
        let times = Times::new(
            self.clock.or_paused(),
            fleet.as_ref().map(|_| settings.consistency),
            Draws::new(self.seed),
        );
        let times = times.exclusive(settings.is_exclusive);
        let registry = Registry::new(self.max_circuits, self.of_tenant, self.seed.is_some());
        let shared = Shared::new(self.policy, times, self.observers, registry, self.dry_run, fleet);
        Breakerbox::start(shared)
    }
}
