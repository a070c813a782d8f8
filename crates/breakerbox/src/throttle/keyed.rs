//! Throttles by key: one for each destination.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use breakerbox_core::KeyError;
use breakerbox_core::throttle::ThrottlePolicy;

use super::classify::Overload;
use super::handle::{Cell, Config, Throttle};
use crate::registry::{Registry, TenantLimit, check_key};

/// The default maximum number of throttles in a registry.
pub const DEFAULT_MAX_THROTTLES: usize = 100_000;

/// A registry with one throttle for each key. A registry is cheap to clone.
///
/// ```
/// use breakerbox::throttle::{Priority, Throttle};
///
/// let throttles = Throttle::builder().build_keyed(10_000);
/// let orders = throttles.throttle("https://api.example.com/orders")?;
/// orders.try_acquire(Priority::HIGH).expect("nothing was rejected yet").accept();
/// # Ok::<(), breakerbox::KeyError>(())
/// ```
pub struct Throttles<C = Overload>(Arc<Shared<C>>);

struct Shared<C> {
    policy: ThrottlePolicy,
    config: Arc<Config<C>>,
    registry: Registry<Cell>,
    uncontrolled: AtomicU64,
}

impl<C> Throttles<C> {
    pub(super) fn new(
        policy: ThrottlePolicy,
        config: Config<C>,
        max: usize,
        of_tenant: Option<TenantLimit>,
    ) -> Self {
        Self(Arc::new(Shared {
            policy,
            config: Arc::new(config),
            registry: Registry::new(max, of_tenant, false),
            uncontrolled: AtomicU64::new(0),
        }))
    }

    /// Returns the throttle for this key, creating it if necessary. Keep the handle if you use the same key often;
    /// while a handle exists, its throttle is not evicted.
    ///
    /// Beyond the maximum, throttles that were not used for a while are evicted first. If none can be evicted, the
    /// handle has no throttle. Every call through such a handle is sent, none is counted, and none may be retried. To
    /// use a slot that becomes free later, get the handle again.
    ///
    /// # Errors
    /// If the key is empty or too long.
    pub fn throttle(&self, key: &str) -> Result<Throttle<C>, KeyError> {
        check_key(key)?;
        let Shared { policy, config, registry, uncontrolled } = &*self.0;
        let add = || registry.find_or_add(key, || Cell::new(key, policy), &config.clock);
        let cell = registry.find(key).or_else(add);
        if cell.is_none() {
            uncontrolled.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Throttle::of(cell, Arc::clone(config)))
    }

    /// Returns the throttle for this key; `None` if there is none. Unlike [`throttle`](Self::throttle), this never
    /// creates one.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<Throttle<C>> {
        let cell = self.0.registry.find(key)?;
        Some(Throttle::of(Some(cell), Arc::clone(&self.0.config)))
    }

    /// Calls `visit` with each throttle, for example to take its [snapshot](Throttle::snapshot). Throttles that are
    /// added or evicted meanwhile may be missed.
    ///
    /// ```
    /// use breakerbox::throttle::{Priority, Throttle};
    ///
    /// let throttles = Throttle::builder().build_keyed(10_000);
    /// throttles.throttle("https://api.example.com/orders")?.try_acquire(Priority::HIGH)?.accept();
    /// let mut admitted = 0;
    /// throttles.for_each(|throttle| admitted += throttle.snapshot().map_or(0, |snapshot| snapshot.admitted));
    /// assert_eq!(admitted, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_each(&self, mut visit: impl FnMut(&Throttle<C>)) {
        for cell in self.0.registry.by_parts().flatten() {
            visit(&Throttle::of(Some(cell), Arc::clone(&self.0.config)));
        }
    }

    /// Returns the number of throttles in the registry.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.registry.len()
    }

    /// Returns whether the registry has no throttles.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many handles were returned without a throttle, because the registry was full.
    #[must_use]
    pub fn uncontrolled(&self) -> u64 {
        self.0.uncontrolled.load(Ordering::Relaxed)
    }
}

impl Default for Throttles {
    fn default() -> Self {
        Throttle::builder().build_keyed(DEFAULT_MAX_THROTTLES)
    }
}

impl<C> Clone for Throttles<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> fmt::Debug for Throttles<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttles").field("throttles", &self.len()).finish_non_exhaustive()
    }
}
