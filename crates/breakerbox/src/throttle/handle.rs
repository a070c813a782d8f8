//! A handle to one throttle: ask, retry, and all that it needs for a call.

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
use super::observe::{Shown, ThrottleChange, ThrottleObservers};
use super::pass::Pass;
use crate::clock::{AnyClock, Clock};
use crate::registry::{Kept, TenantLimit};

/// A throttle in front of one destination. A handle is cheap to clone; all clones are the same throttle.
pub struct Throttle<C = Overload> {
    /// None if there was no room for it: every call is sent, none is counted and none is retried.
    cell: Option<Arc<Cell>>,
    means: Arc<Means<C>>,
}

/// The throttle of one key, in this process.
pub(super) struct Cell {
    key: Box<str>,
    throttle: core::Throttle,
    /// The state that observers know.
    shown: Shown,
}

/// What the throttles of all keys share.
pub(super) struct Means<C> {
    pub(super) clock: AnyClock,
    pub(super) classify: C,
    pub(super) observers: ThrottleObservers,
}

impl<C> Throttle<C> {
    pub(super) const fn of(cell: Option<Arc<Cell>>, means: Arc<Means<C>>) -> Self {
        Self { cell, means }
    }

    /// Asks to make one call now. Never waits. If the task carries a [priority](super::with_priority), that one counts.
    ///
    /// # Errors
    /// The call is shed: do not make it, and do not retry it at once.
    #[inline]
    pub fn try_acquire(&self, priority: Priority) -> Result<Pass<'_, C>, Shed> {
        Ok(Pass::new(Cow::Borrowed(self), self.take(priority)?))
    }

    /// The same, for a pass that outlives this handle.
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
        // The core looks at the upper bits.
        let draw = || RandomBits(u128::from(rand::random::<u64>()) << 64);
        let asked = cell.throttle.try_acquire_with(priority, draw, self.means.clock.now()).map(Some);
        // The state changes only while somebody asks.
        self.means.observers.look(&cell.key, &cell.throttle, &cell.shown);
        asked
    }

    #[inline]
    pub(super) fn settle(&self, pass: core::Pass, verdict: LoadSignal) {
        if let Some(cell) = &self.cell {
            cell.throttle.settle(pass, verdict, self.means.clock.now());
        }
    }

    /// Whether the retry budget has room for a retry; if so, it counts as made. Ask again before you make it.
    /// [`may_retry`](Self::may_retry) also looks at why.
    ///
    /// If there was no room for this throttle, nobody counts what was accepted, so there is no budget and no retry.
    #[must_use]
    pub fn take_retry(&self) -> bool {
        self.cell.as_ref().is_some_and(|cell| cell.throttle.retry(self.means.clock.now()))
    }

    /// Whether there is a throttle behind this handle. If not, there was no room for one.
    #[must_use]
    pub const fn is_controlled(&self) -> bool {
        self.cell.is_some()
    }

    /// What it does and has done: state, rate, and calls that were admitted, accepted, rejected and shed. It costs a few loads.
    /// None if there is no throttle behind this handle.
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

    /// Whether it sheds nothing now. With [`Strategy::Sre`](super::Strategy::Sre) always false: it decides anew for each call.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.cell.as_ref().is_none_or(|cell| cell.throttle.is_calm())
    }

    /// How many priorities there are; the standard four if there was no room for this throttle.
    #[must_use]
    pub fn levels(&self) -> Levels {
        self.cell.as_ref().map_or(Levels::STANDARD, |cell| cell.throttle.levels())
    }

    /// The key, if the throttle is one of many and is kept.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.cell.as_ref().map(|cell| cell.key()).filter(|key| !key.is_empty())
    }

    pub(super) fn classifier(&self) -> &C {
        &self.means.classify
    }
}

impl Throttle {
    /// A throttle in the making.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Default for Throttle {
    /// With the default policy, the system's clock, and [`Overload`] to judge results.
    fn default() -> Self {
        Self::builder().build()
    }
}

impl<C> Clone for Throttle<C> {
    fn clone(&self) -> Self {
        Self { cell: self.cell.clone(), means: Arc::clone(&self.means) }
    }
}

impl<C> fmt::Debug for Throttle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle").field("key", &self.key()).finish_non_exhaustive()
    }
}

impl Cell {
    pub(super) fn new(key: &str, policy: &ThrottlePolicy) -> Self {
        Self { key: key.into(), throttle: core::Throttle::new(policy), shown: Shown::default() }
    }
}

impl Kept for Cell {
    type Times = AnyClock;

    fn key(&self) -> &str {
        &self.key
    }

    fn may_go(&self, clock: &AnyClock) -> bool {
        self.throttle.is_forgettable(clock.now())
    }
}

/// Builds a [`Throttle`], or one for each key.
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
    /// The numbers.
    pub fn policy(mut self, policy: ThrottlePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Another clock, such as a [`ManualClock`](crate::ManualClock) in tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = AnyClock::Custom(Arc::new(clock));
        self
    }

    /// Who says what a result means. Without this: [`Overload`].
    pub fn classify<D>(self, classify: D) -> Builder<D> {
        let Self { policy, clock, of_tenant, observers, .. } = self;
        Builder { policy, clock, classify, of_tenant, observers }
    }

    /// A function that is called when a throttle begins to shed, when it ends, and when it begins or ends to probe; in the
    /// thread that asked. It should be quick. A throttle with [`Strategy::Sre`](super::Strategy::Sre) has no states, and tells
    /// of nothing.
    pub fn observer(mut self, observer: impl Fn(&ThrottleChange) + Send + Sync + 'static) -> Self {
        self.observers.add(observer);
        self
    }

    fn means(self) -> Means<C> {
        Means { clock: self.clock.or_paused(), classify: self.classify, observers: self.observers }
    }

    /// Where there is one throttle for each key: what one tenant may have of them, as for
    /// [circuits](crate::Builder::tenant_limit).
    pub fn tenant_limit(mut self, limit: TenantLimit) -> Self {
        self.of_tenant = Some(limit);
        self
    }

    /// One throttle.
    #[must_use]
    pub fn build(self) -> Throttle<C> {
        let cell = Arc::new(Cell::new("", &self.policy));
        Throttle::of(Some(cell), Arc::new(self.means()))
    }

    /// A throttle for each key, at most so many at a time.
    #[must_use]
    pub fn build_keyed(self, max: usize) -> Throttles<C> {
        let (policy, of_tenant) = (self.policy.clone(), self.of_tenant);
        Throttles::new(policy, self.means(), max, of_tenant)
    }
}
