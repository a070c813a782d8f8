//! All of a process's circuits, or all of its throttles, by key.
//!
//! Cells are entries in a table with many parts, each with its own readers-writer lock. The number of cells is
//! limited. Beyond the limit, cells without state worth keeping are evicted. If there are none, a few of the cells are
//! evicted whose only state is a run of failures; if there are none either, the new key gets no cell.
//!
//! Each tenant may have its own limit ([`TenantLimit`]). Beyond that, only the tenant's own cells are evicted.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::Duration;

use breakerbox_core::{KeyError, MAX_KEY_LENGTH, Timestamp};
use foldhash::fast::RandomState;
use hashbrown::HashTable;

pub use self::tenants::TenantLimit;
use self::tenants::Tenants;
use crate::clock::Clock;

mod tenants;

/// The number of shards in the table, each with its own lock.
const PARTS: usize = 64;

/// A search for evictable cells ends once it has examined more cells than this. It examines whole shards at a time.
const MAX_WALK: usize = 4_096;

/// A search for a tenant's evictable cells ends once it has examined more cells than this. It examines whole shards at
/// a time, and a shard of a large table may already have more.
const MAX_WALK_FOR_TENANT: usize = 256;

/// How long to wait before searching a shard again if the last search found almost no evictable cells.
const SEARCH_PAUSE: Duration = Duration::from_secs(1);

/// If a search finds fewer than one evictable cell among this many, the next search is delayed, because otherwise each
/// new key would cost a search.
const MIN_FOUND_ONE_IN: usize = 64;

/// A value that a registry can contain.
pub(crate) trait RegistryEntry {
    /// The clock by which the value's age is measured.
    type Times: Clock;

    fn key(&self) -> &str;

    /// Returns whether the value can be evicted without loss.
    fn is_evictable(&self, times: &Self::Times) -> bool;

    /// Returns whether the value can be evicted if no other value can be evicted without loss. The default is never.
    fn is_evictable_last(&self, _times: &Self::Times) -> bool {
        false
    }
}

/// Which cells a search evicts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Search {
    /// All cells that can be evicted without loss.
    Lossless,
    /// A few cells that are evicted [last](RegistryEntry::is_evictable_last).
    Last,
}

pub(crate) struct Registry<C> {
    parts: Box<[RwLock<Part<C>>]>,
    hasher: RandomState,
    count: AtomicUsize,
    max: usize,
    /// The number of cells per tenant; `None` if tenants have no separate limits.
    tenants: Option<Tenants>,
    /// The index of the shard that was last searched for evictable cells.
    searched: AtomicUsize,
    /// Whether to iterate in key order, for simulations, instead of the faster order in memory.
    in_order: bool,
}

struct Part<C> {
    cells: HashTable<Arc<C>>,
    /// For each kind of search, the time until which this shard is not searched, because the last search found almost
    /// no evictable cells.
    full_until: [Timestamp; 2],
}

impl<C> Default for Part<C> {
    fn default() -> Self {
        Self { cells: HashTable::default(), full_until: [Timestamp::ZERO; 2] }
    }
}

impl<C: RegistryEntry> Registry<C> {
    pub(crate) fn new(max: usize, of_tenant: Option<TenantLimit>, in_order: bool) -> Self {
        Self {
            parts: (0..PARTS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::default(),
            count: AtomicUsize::new(0),
            max,
            tenants: of_tenant.map(Tenants::new),
            searched: AtomicUsize::new(0),
            in_order,
        }
    }

    /// Returns this key's cell, if there is one.
    #[inline]
    pub(crate) fn find(&self, key: &str) -> Option<Arc<C>> {
        let hash = self.hash(key);
        self.read(hash).cells.find(hash, |cell| cell.key() == key).cloned()
    }

    /// Returns this key's cell, creating it if necessary; `None` if the registry is full, or the key's tenant has
    /// reached its limit.
    pub(crate) fn find_or_add(
        &self,
        key: &str,
        make: impl FnOnce() -> C,
        times: &C::Times,
    ) -> Option<Arc<C>> {
        let hash = self.hash(key);
        let mut part = self.write(hash);
        if let Some(cell) = part.cells.find(hash, |cell| cell.key() == key) {
            return Some(Arc::clone(cell));
        }
        let cell = Arc::new(make());
        if !self.make_room_of_tenant(&mut part, key, times) {
            return None;
        }
        if !self.make_room(&mut part, times) {
            self.release(key);
            return None;
        }
        part.cells.insert_unique(hash, Arc::clone(&cell), |cell| self.hash(cell.key()));
        Some(cell)
    }

    /// Reserves a slot for one more cell, evicting other cells if necessary. Returns false if no cell could be evicted.
    /// The caller holds the lock on `own`. Other shards are searched only if their lock is free, and only until more
    /// than [`MAX_WALK`] cells have been examined, because a new key must not cost a search through a million cells.
    fn make_room(&self, own: &mut Part<C>, times: &C::Times) -> bool {
        let take = |count: usize| (count < self.max).then_some(count + 1);
        let try_take = || self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if try_take() {
            return true;
        }
        let now = times.now();
        for search in [Search::Lossless, Search::Last] {
            if self.search(own, search, now, times) {
                break;
            }
        }
        try_take()
    }

    /// Searches for evictable cells, first in the shard `own`. Returns whether any was evicted.
    fn search(&self, own: &mut Part<C>, search: Search, now: Timestamp, times: &C::Times) -> bool {
        let mut walked = 0;
        let mut evicted = self.evict(own, search, now, times, &mut 0);
        for _ in 0..PARTS {
            if evicted > 0 || walked > MAX_WALK {
                break;
            }
            if let Some(mut part) = self.next_part() {
                evicted = self.evict(&mut part, search, now, times, &mut walked);
            }
        }
        evicted > 0
    }

    /// Returns the next shard to search; `None` if its lock is taken.
    fn next_part(&self) -> Option<RwLockWriteGuard<'_, Part<C>>> {
        let next = self.searched.fetch_add(1, Ordering::Relaxed) % PARTS;
        match self.parts[next].try_write() {
            Ok(part) => Some(part),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Reserves a slot for the key's tenant, evicting other cells of this tenant if necessary. Returns false if no cell
    /// could be evicted. After a search that finds almost no evictable cells, the next search is delayed and continues
    /// with the next shard, because a tenant at its limit must not slow down other tenants.
    fn make_room_of_tenant(&self, own: &mut Part<C>, key: &str, times: &C::Times) -> bool {
        let Some(tenants) = &self.tenants else { return true };
        if tenants.try_take(key) {
            return true;
        }
        let now = times.now();
        if !tenants.may_search(key, now) {
            return false;
        }
        let has_room = |search| {
            let mut walked = own.cells.len();
            let mut evicted = self.evict_of_tenant(own, key, search, times);
            for _ in 0..PARTS {
                if walked > MAX_WALK_FOR_TENANT {
                    break;
                }
                if let Some(mut part) = self.next_part() {
                    walked += part.cells.len();
                    evicted += self.evict_of_tenant(&mut part, key, search, times);
                }
            }
            if is_fruitless(evicted, walked) {
                tenants.searched_in_vain(key, now);
            }
            tenants.try_take(key)
        };
        [Search::Lossless, Search::Last].into_iter().any(has_room)
    }

    /// Evicts the tenant's cells in this shard that this kind of search evicts and that have no handle. Returns the
    /// number evicted.
    fn evict_of_tenant(&self, part: &mut Part<C>, key: &str, search: Search, times: &C::Times) -> usize {
        let is_of_tenant = |cell: &C| tenants::of(cell.key()) == tenants::of(key);
        self.remove(part, search, times, is_of_tenant)
    }

    /// Removes the cells in this shard that satisfy `is_wanted`, that this kind of search evicts, and that have no
    /// handle. Returns the number removed.
    fn remove(
        &self,
        part: &mut Part<C>,
        search: Search,
        times: &C::Times,
        is_wanted: impl Fn(&C) -> bool,
    ) -> usize {
        let before = part.cells.len();
        let mut left = match search {
            Search::Lossless => usize::MAX,
            // Enough that not every new key costs a search.
            Search::Last => before.div_ceil(MIN_FOUND_ONE_IN),
        };
        part.cells.retain(|cell| {
            let goes = left > 0
                && is_wanted(cell)
                && Arc::strong_count(cell) == 1
                && match search {
                    Search::Lossless => cell.is_evictable(times),
                    Search::Last => cell.is_evictable_last(times),
                };
            if goes {
                left -= 1;
                self.release(cell.key());
            }
            !goes
        });
        let removed = before - part.cells.len();
        self.count.fetch_sub(removed, Ordering::Relaxed);
        removed
    }

    /// Releases the tenant's slot for a cell that was evicted or not created.
    fn release(&self, key: &str) {
        if let Some(tenants) = &self.tenants {
            tenants.release(key);
        }
    }

    /// Returns whether this key's tenant has no free slot now.
    pub(crate) fn is_full_for(&self, key: &str) -> bool {
        self.tenants.as_ref().is_some_and(|tenants| !tenants.has_room(key))
    }

    /// Evicts this shard's cells that this kind of search evicts and that have no handle. Returns the number evicted.
    fn evict(
        &self,
        part: &mut Part<C>,
        search: Search,
        now: Timestamp,
        times: &C::Times,
        walked: &mut usize,
    ) -> usize {
        if now < part.full_until[search as usize] {
            return 0;
        }
        let before = part.cells.len();
        *walked += before;
        let evicted = self.remove(part, search, times, |_| true);
        if is_fruitless(evicted, before) {
            part.full_until[search as usize] = now + SEARCH_PAUSE;
        }
        evicted
    }

    /// Calls `visit` with every cell. Locks one shard at a time.
    pub(crate) fn for_each(&self, visit: impl FnMut(&Arc<C>)) {
        if self.in_order {
            self.all_in_order().iter().for_each(visit);
        } else {
            self.as_they_lie(visit);
        }
    }

    fn as_they_lie(&self, mut visit: impl FnMut(&Arc<C>)) {
        for part in &self.parts {
            part.read().unwrap_or_else(PoisonError::into_inner).cells.iter().for_each(&mut visit);
        }
    }

    fn all_in_order(&self) -> Vec<Arc<C>> {
        let mut cells = Vec::new();
        self.as_they_lie(|cell| cells.push(Arc::clone(cell)));
        cells.sort_unstable_by(|one, other| one.key().cmp(other.key()));
        cells
    }

    /// Iterates over the cells of one shard at a time, without holding a lock between shards.
    pub(crate) fn by_parts(&self) -> impl Iterator<Item = Vec<Arc<C>>> {
        let cells = |part: &RwLock<Part<C>>| {
            part.read().unwrap_or_else(PoisonError::into_inner).cells.iter().map(Arc::clone).collect()
        };
        let parts = if self.in_order { &[] } else { &self.parts[..] };
        let all = self.in_order.then(|| self.all_in_order());
        all.into_iter().chain(parts.iter().map(cells))
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn hash(&self, key: &str) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Returns the shard for a hash. The index uses bits in the middle of the hash, because hash tables use the lowest
    /// and highest bits.
    fn part(&self, hash: u64) -> &RwLock<Part<C>> {
        &self.parts[(hash >> 40) as usize % PARTS]
    }

    #[inline]
    fn read(&self, hash: u64) -> RwLockReadGuard<'_, Part<C>> {
        self.part(hash).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, hash: u64) -> RwLockWriteGuard<'_, Part<C>> {
        self.part(hash).write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a search among `walked` cells found so few evictable cells that the next search must be delayed.
const fn is_fruitless(evicted: usize, walked: usize) -> bool {
    evicted * MIN_FOUND_ONE_IN < walked || evicted == 0
}

/// Returns an error if a string is not a valid key.
#[inline]
pub(crate) const fn check_key(key: &str) -> Result<(), KeyError> {
    match key.len() {
        0 => Err(KeyError::Empty),
        1..=MAX_KEY_LENGTH => Ok(()),
        length => Err(KeyError::TooLong { length }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{AnyClock, ManualClock};

    struct Idle(String);

    impl RegistryEntry for Idle {
        type Times = AnyClock;

        fn key(&self) -> &str {
            &self.0
        }

        fn is_evictable(&self, _times: &AnyClock) -> bool {
            self.0.ends_with("idle")
        }

        fn is_evictable_last(&self, _times: &AnyClock) -> bool {
            self.0.ends_with("failing")
        }
    }

    #[test]
    fn circuits_with_a_run_of_failures_are_evicted_last() {
        let clock = AnyClock::Custom(Arc::new(ManualClock::new()));
        for of_tenant in [None, Some(TenantLimit { circuits: 200, bytes: usize::MAX })] {
            let registry = Registry::new(of_tenant.map_or(200, |_| 1_000), of_tenant, false);
            let add = |key: &str| registry.find_or_add(key, || Idle(key.to_owned()), &clock).is_some();
            let failing =
                || (0..100).filter(|n| registry.find(&format!("acme {n} failing")).is_some()).count();
            for n in 0..100 {
                assert!(add(&format!("acme {n} failing")) && add(&format!("acme {n} idle")));
            }
            for n in 0..100 {
                assert!(add(&format!("acme new {n}")));
            }
            assert_eq!(failing(), 100, "the idle ones made room");
            assert!(add("acme one more"), "with nothing else left, a few of them go");
            assert!((1..100).contains(&failing()), "{}", failing());
        }
    }

    #[test]
    fn a_tenant_without_room_can_not_make_every_new_key_walk() {
        use std::sync::atomic::{AtomicUsize, Ordering};

        struct Counted(String, Arc<AtomicUsize>);

        impl RegistryEntry for Counted {
            type Times = AnyClock;

            fn key(&self) -> &str {
                &self.0
            }

            fn is_evictable(&self, _times: &AnyClock) -> bool {
                self.1.fetch_add(1, Ordering::Relaxed);
                self.0.ends_with("idle")
            }
        }

        let clock = Arc::new(ManualClock::new());
        let times = AnyClock::Custom(Arc::clone(&clock) as _);
        let limit = TenantLimit { circuits: 10_000, bytes: usize::MAX };
        let registry = Registry::new(100_000, Some(limit), false);
        let looked_at = Arc::new(AtomicUsize::new(0));
        let add = |key: String| {
            let cell = Counted(key.clone(), Arc::clone(&looked_at));
            registry.find_or_add(&key, || cell, &times).is_some()
        };
        // One cell in a thousand is evictable: each search finds a few, and never many.
        for n in 0..10_000 {
            assert!(add(format!("acme {n} {}", if n % 1_000 == 0 { "idle" } else { "busy" })));
        }
        for n in 0..1_000 {
            add(format!("acme new {n}"));
        }
        let walked = looked_at.load(Ordering::Relaxed);
        assert!(walked < 4 * (MAX_WALK_FOR_TENANT + 10_000 / PARTS), "{walked} cells for 1,000 new keys");
        let found = (0..200).any(|n| {
            clock.advance(tenants::SEARCH_PAUSE);
            add(format!("acme later {n}"))
        });
        assert!(found, "it goes on where it ended, and finds those that could go");
    }

    /// Fills a registry so that no cell in the new key's shard is evictable. Returns whether the new key gets a slot.
    fn room_is_found(in_each_part: usize) -> bool {
        let clock = AnyClock::Custom(Arc::new(ManualClock::new()));
        let registry = Registry::new(PARTS * in_each_part, None, false);
        let part_of = |key: &str| (registry.hash(key) >> 40) as usize % PARTS;
        for n in 0..PARTS * in_each_part {
            let busy = format!("{n} busy");
            let key = if part_of(&busy) == part_of("new") { busy } else { format!("{n} idle") };
            registry.find_or_add(&key, || Idle(key.clone()), &clock);
        }
        registry.find_or_add("new", || Idle("new".into()), &clock).is_some()
    }

    #[test]
    fn room_is_found_in_other_parts_of_small_and_of_large_registries() {
        for in_each_part in [1, 10, MAX_WALK + 1] {
            assert!(room_is_found(in_each_part), "{in_each_part} cells in each part");
        }
    }
}
