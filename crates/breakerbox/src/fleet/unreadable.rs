//! Circuits whose record in the store can't be read: another version wrote it, or somebody else. Each of them goes on alone,
//! from what this process knows, and is read again now and then; when it can be read, it joins the fleet. The others are not
//! concerned, and neither is the store's health.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Fleet;
use crate::breakerbox::Shared;
use crate::cell::Cell;
use crate::store::Unreadable;

/// By the name under which the store knows them: what is wrong with their records.
#[derive(Default)]
pub(super) struct Unread(Mutex<BTreeMap<Arc<str>, String>>);

impl Unread {
    /// These were read.
    pub(super) fn were_read<'k>(&self, keys: impl Iterator<Item = &'k Arc<str>>) {
        let mut unread = self.lock();
        if !unread.is_empty() {
            keys.for_each(|key| _ = unread.remove(key));
        }
    }

    fn keys(&self) -> Vec<Arc<str>> {
        self.lock().keys().map(Arc::clone).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fleet {
    /// What can't be read at the moment.
    pub(crate) fn unreadable(&self) -> Vec<Unreadable> {
        let unread = self.unread.lock();
        let said =
            |(key, reason): (&Arc<str>, &String)| Unreadable { key: key.to_string(), reason: reason.clone() };
        unread.iter().map(said).collect()
    }
}

impl Shared {
    /// A circuit's record can't be read: it goes on alone.
    pub(super) fn can_not_read(&self, fleet: &Fleet, cell: &Arc<Cell>, unreadable: &Unreadable) {
        fleet.unread.lock().insert(self.store_key(cell), unreadable.reason.clone());
        self.converse(cell, None, |member, _| member.leave());
        self.waiters.wake_one(cell);
    }

    /// Circuits that are to be read again because they could not be. Those that are gone are forgotten.
    pub(super) fn unread(&self, fleet: &Fleet) -> Vec<Arc<Cell>> {
        let found = |key: Arc<str>| {
            let cell = self.cell_of(&key);
            if cell.is_none() {
                fleet.unread.lock().remove(&key);
            }
            cell
        };
        fleet.unread.keys().into_iter().filter_map(found).collect()
    }
}
