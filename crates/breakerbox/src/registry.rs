//! All circuits of a process, by key.
//!
//! Cells live in a table of many parts, each behind a lock of its own that readers share. There is a maximum number of
//! circuits. Beyond it, idle closed ones without memory go first; if none can go, the new key is admitted without a
//! circuit, and that is counted.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use breakerbox_core::{Policy, Timestamp};
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::cell::Cell;
use crate::clock::Clock;

/// How many parts the table has.
const PARTS: usize = 64;

pub(crate) struct Registry {
    parts: Box<[RwLock<Part>]>,
    hasher: RandomState,
    count: AtomicUsize,
    max: usize,
    /// How many asks found no room for their key's circuit.
    uncontrolled: AtomicU64,
}

#[derive(Default)]
struct Part {
    cells: HashTable<Arc<Cell>>,
    /// Until then a search for cells that could go is not worth while: the last one found none.
    full_until: Timestamp,
}

impl Registry {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            parts: (0..PARTS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::default(),
            count: AtomicUsize::new(0),
            max,
            uncontrolled: AtomicU64::new(0),
        }
    }

    /// The cell of this key, if there is one.
    #[inline]
    pub(crate) fn find(&self, key: &str) -> Option<Arc<Cell>> {
        let hash = self.hash(key);
        self.read(hash).cells.find(hash, |cell| cell.key() == key).cloned()
    }

    /// The cell of this key, new if need be. None if there is no room for one.
    pub(crate) fn find_or_add(
        &self,
        key: &str,
        policy: impl FnOnce() -> Arc<Policy>,
        clock: &impl Clock,
    ) -> Option<Arc<Cell>> {
        let hash = self.hash(key);
        let mut part = self.write(hash);
        if let Some(cell) = part.cells.find(hash, |cell| cell.key() == key) {
            return Some(Arc::clone(cell));
        }
        if !self.make_room(&mut part, clock) {
            self.uncontrolled.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let cell = Arc::new(Cell::new(key, policy(), clock.now()));
        part.cells.insert_unique(hash, Arc::clone(&cell), |cell| self.hash(cell.key()));
        Some(cell)
    }

    /// Takes a place for one more cell. Under the part's lock, and looking no further than this part: a new key must not
    /// cost a walk through a million others.
    fn make_room(&self, part: &mut Part, clock: &impl Clock) -> bool {
        let take = |count: usize| (count < self.max).then_some(count + 1);
        let try_take = || self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if try_take() {
            return true;
        }
        let now = clock.now();
        if now >= part.full_until {
            let evicted = self.evict(part, clock);
            if evicted == 0 {
                part.full_until = now + std::time::Duration::from_secs(1);
            }
        }
        try_take()
    }

    /// Removes every cell of this part that is idle, without memory, and in nobody's hands.
    fn evict(&self, part: &mut Part, clock: &impl Clock) -> usize {
        let before = part.cells.len();
        part.cells.retain(|cell| Arc::strong_count(cell) > 1 || !cell.tidy(clock));
        let evicted = before - part.cells.len();
        self.count.fetch_sub(evicted, Ordering::Relaxed);
        evicted
    }

    /// Calls `visit` with every cell, part by part.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Arc<Cell>)) {
        for part in &self.parts {
            part.read().unwrap_or_else(PoisonError::into_inner).cells.iter().for_each(&mut visit);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn uncontrolled(&self) -> u64 {
        self.uncontrolled.load(Ordering::Relaxed)
    }

    fn hash(&self, key: &str) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The part of a hash. Tables use its lowest and highest bits; these are in between.
    fn part(&self, hash: u64) -> &RwLock<Part> {
        &self.parts[(hash >> 40) as usize % PARTS]
    }

    #[inline]
    fn read(&self, hash: u64) -> RwLockReadGuard<'_, Part> {
        self.part(hash).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, hash: u64) -> RwLockWriteGuard<'_, Part> {
        self.part(hash).write().unwrap_or_else(PoisonError::into_inner)
    }
}
