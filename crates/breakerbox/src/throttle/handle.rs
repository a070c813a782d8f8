//! A handle to one throttle: acquire, retry and inspect.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use breakerbox_core::RandomBits;
use breakerbox_core::throttle::{
    self as core, Levels, LoadSignal, Priority, Shed, ThrottlePolicy, ThrottleSnapshot,
};

use super::classify::Overload;
use super::context::context_priority;
use super::keyed::Throttles;
use super::observe::{LastNotified, ThrottleChange, ThrottleObservers};
use super::pass::Pass;
use crate::clock::{AnyClock, Clock};
use crate::registry::{RegistryEntry, TenantLimit};

/// A throttle in front of one destination. A handle is cheap to clone; all clones refer to the same throttle.
pub struct Throttle<C = Overload> {
    /// The throttle's state; `None` if the registry was full. In that case every call is sent, none is counted, and
    /// none may be retried.
    cell: Option<Arc<Cell>>,
    config: Arc<Config<C>>,
}

/// One key's throttle in this process.
pub(super) struct Cell {
    key: Box<str>,
    throttle: core::Throttle,
    /// The state that observers were last notified of.
    last_notified: LastNotified,
}

/// The settings that the throttles of all keys share.
pub(super) struct Config<C> {
    pub(super) clock: AnyClock,
    pub(super) classify: C,
    pub(super) observers: ThrottleObservers,
}

impl<C> Throttle<C> {
    pub(super) const fn of(cell: Option<Arc<Cell>>, config: Arc<Config<C>>) -> Self {
        Self { cell, config }
    }

    /// Acquires a pass to make one call now. Never waits. The task's [priority](super::with_priority), if set,
    /// overrides `priority`.
    ///
    /// # Errors
    /// If the call is shed: do not make it, and do not retry it at once.
    #[inline]
    pub fn try_acquire(&self, priority: Priority) -> Result<Pass<'_, C>, Shed> {
        Ok(Pass::new(Cow::Borrowed(self), self.take(priority)?))
    }

    /// Acquires as [`try_acquire`](Self::try_acquire) does, but returns a pass that outlives this handle.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire).
    pub fn try_acquire_owned(&self, priority: Priority) -> Result<Pass<'static, C>, Shed> {
        Ok(Pass::new(Cow::Owned(self.clone()), self.take(priority)?))
    }

    #[inline]
    fn take(&self, priority: Priority) -> Result<Option<core::Pass>, Shed> {
        let Some(cell) = &self.cell else { return Ok(None) };
        let priority = context_priority().unwrap_or(priority);
        // The core uses the upper bits.
        let draw = || RandomBits(u128::from(rand::random::<u64>()) << 64);
        let acquired = cell.throttle.try_acquire_with(priority, draw, self.config.clock.now()).map(Some);
        // A throttle's state changes only while a pass is being acquired.
        self.config.observers.notify_if_changed(&cell.key, &cell.throttle, &cell.last_notified);
        acquired
    }

    #[inline]
    pub(super) fn settle(&self, pass: core::Pass, signal: LoadSignal) {
        if let Some(cell) = &self.cell {
            cell.throttle.settle(pass, signal, self.config.clock.now());
        }
    }

    /// Takes a retry from the retry budget, and returns whether the budget allowed it. Acquire a pass before you make
    /// the retry. [`may_retry`](Self::may_retry) also checks the error.
    ///
    /// If the registry had no room for this throttle, accepted calls are not counted, so no retries are allowed.
    #[must_use]
    pub fn take_retry(&self) -> bool {
        self.cell.as_ref().is_some_and(|cell| cell.throttle.retry(self.config.clock.now()))
    }

    /// Returns whether this handle has a throttle. If not, the registry was full.
    #[must_use]
    pub const fn is_controlled(&self) -> bool {
        self.cell.is_some()
    }

    /// Returns the state, the rate, and the numbers of calls that were admitted, accepted, rejected and shed. This
    /// costs a few atomic loads. `None` if this handle has no throttle.
    ///
    /// ```
    /// use breakerbox::throttle::{Priority, Throttle, ThrottleState};
    ///
    /// let throttle = Throttle::default();
    /// throttle.try_acquire(Priority::HIGH).expect("nothing was rejected yet").accept();
    /// let snapshot = throttle.snapshot().expect("one throttle always has room");
    /// assert_eq!((snapshot.admitted, snapshot.shed_in_total()), (1, 0));
    /// assert_eq!(snapshot.state, Some(ThrottleState::Calm));
    /// ```
    #[must_use]
    pub fn snapshot(&self) -> Option<ThrottleSnapshot> {
        self.cell.as_ref().map(|cell| cell.throttle.snapshot())
    }

    /// Returns whether the throttle admits every call at present. Always false with
    /// [`Strategy::Sre`](super::Strategy::Sre), which decides each call separately.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.cell.as_ref().is_none_or(|cell| cell.throttle.is_calm())
    }

    /// Returns the number of priority levels; the standard four if this handle has no throttle.
    #[must_use]
    pub fn levels(&self) -> Levels {
        self.cell.as_ref().map_or(Levels::STANDARD, |cell| cell.throttle.levels())
    }

    /// Returns the throttle's key; `None` if the throttle is not one of [`Throttles`](super::Throttles), or the
    /// registry was full.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.cell.as_ref().map(|cell| cell.key()).filter(|key| !key.is_empty())
    }

    pub(super) fn classifier(&self) -> &C {
        &self.config.classify
    }
}

impl Throttle {
    /// Returns a builder for a throttle.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Default for Throttle {
    /// Creates a throttle with the default policy, the system clock and the classifier [`Overload`].
    fn default() -> Self {
        Self::builder().build()
    }
}

impl<C> Clone for Throttle<C> {
    fn clone(&self) -> Self {
        Self { cell: self.cell.clone(), config: Arc::clone(&self.config) }
    }
}

impl<C> fmt::Debug for Throttle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle").field("key", &self.key()).finish_non_exhaustive()
    }
}

impl Cell {
    pub(super) fn new(key: &str, policy: &ThrottlePolicy) -> Self {
        Self {
            key: key.into(),
            throttle: core::Throttle::new(policy),
            last_notified: LastNotified::default(),
        }
    }
}

impl RegistryEntry for Cell {
    type Times = AnyClock;

    fn key(&self) -> &str {
        &self.key
    }

    fn is_evictable(&self, clock: &AnyClock) -> bool {
        self.throttle.is_forgettable(clock.now())
    }
}

/// Builds a [`Throttle`], or a registry with one throttle for each key.
#[must_use]
pub struct Builder<C = Overload> {
    policy: ThrottlePolicy,
    clock: AnyClock,
    classify: C,
    of_tenant: Option<TenantLimit>,
    observers: ThrottleObservers,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            policy: ThrottlePolicy::default(),
            clock: AnyClock::system(),
            classify: Overload::default(),
            of_tenant: None,
            observers: ThrottleObservers::default(),
        }
    }
}

impl<C> Builder<C> {
    /// Sets the throttle's policy. Default: the default [`ThrottlePolicy`].
    pub fn policy(mut self, policy: ThrottlePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Replaces the system clock, for example with a [`ManualClock`](crate::ManualClock) in tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = AnyClock::Custom(Arc::new(clock));
        self
    }

    /// Sets the classifier for results. Default: [`Overload`].
    pub fn classify<D>(self, classify: D) -> Builder<D> {
        let Self { policy, clock, of_tenant, observers, .. } = self;
        Builder { policy, clock, classify, of_tenant, observers }
    }

    /// Adds a function that is called when a throttle's state changes between calm, shedding and probing. It runs in
    /// the thread that acquires a pass, and should return quickly. A throttle with
    /// [`Strategy::Sre`](super::Strategy::Sre) has no states, so the function is never called.
    pub fn observer(mut self, observer: impl Fn(&ThrottleChange) + Send + Sync + 'static) -> Self {
        self.observers.add(observer);
        self
    }

    fn config(self) -> Config<C> {
        Config { clock: self.clock.or_paused(), classify: self.classify, observers: self.observers }
    }

    /// Limits the number and memory of each tenant's throttles, as for [circuits](crate::BreakerboxBuilder::tenant_limit).
    /// Applies to [`build_keyed`](Self::build_keyed) only.
    pub fn tenant_limit(mut self, limit: TenantLimit) -> Self {
        self.of_tenant = Some(limit);
        self
    }

    /// Builds a single throttle.
    #[must_use]
    pub fn build(self) -> Throttle<C> {
        let cell = Arc::new(Cell::new("", &self.policy));
        Throttle::of(Some(cell), Arc::new(self.config()))
    }

    /// Builds a registry of at most `max` throttles by key.
    #[must_use]
    pub fn build_keyed(self, max: usize) -> Throttles<C> {
        let (policy, of_tenant) = (self.policy.clone(), self.of_tenant);
        Throttles::new(policy, self.config(), max, of_tenant)
    }
}
