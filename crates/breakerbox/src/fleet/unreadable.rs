//! Circuits whose records in the store cannot be read, because another version or another program wrote them. For
//! each of them this process decides by itself, from what it knows, and rereads the record periodically; when it can
//! be read, the circuit rejoins the fleet. Neither other circuits nor the store's health are affected.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Fleet;
use crate::cell::Cell;
use crate::fleet::Shared;
use crate::store::Unreadable;

/// The reasons why records cannot be read, by the circuit's name in the store.
#[derive(Default)]
pub(super) struct Unread(Mutex<BTreeMap<Arc<str>, String>>);

impl Unread {
    /// Removes the entries of circuits whose records have been read.
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
    /// Returns the circuits whose records cannot be read at present.
    pub(crate) fn unreadable(&self) -> Vec<Unreadable> {
        let unread = self.unread.lock();
        let said =
            |(key, reason): (&Arc<str>, &String)| Unreadable { key: key.to_string(), reason: reason.clone() };
        unread.iter().map(said).collect()
    }
}

impl Shared {
    /// Handles a record that cannot be read. The circuit is not shared until its record can be read.
    pub(super) fn can_not_read(&self, fleet: &Fleet, cell: &Arc<Cell>, unreadable: &Unreadable) {
        fleet.unread.lock().insert(self.store_key(cell), unreadable.reason.clone());
        self.step_member(cell, None, |member, _| member.leave());
        self.waiters.wake_one(cell);
    }

    /// Returns the circuits to reread, because their records could not be read. Evicted circuits are forgotten.
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
