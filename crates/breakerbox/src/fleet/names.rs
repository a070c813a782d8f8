//! The names of circuits in a store: the text of their keys, or a hash of it. A fleet in dry-run mode uses separate
//! names, so that it does not affect other fleets.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use breakerbox_core::KeyId;

use crate::cell::{Cell, tenant_of};
use crate::fleet::Shared;
use crate::registry::RegistryEntry;

const DRY_RUN: &str = "dry-run ";

/// The maximum number of names of evicted circuits that are kept in addition to the names of all present circuits.
const SLACK: usize = 1_024;

/// The form of keys in a shared store. Set the same value in all of a fleet's processes, because processes with
/// different values share no circuits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum StoredKeys {
    /// The key's text. The store can be listed by key and by tenant.
    #[default]
    Text,
    /// `#` and the first 128 bits of the text's SHA-256 in hex, without a tenant. Use this for keys that contain
    /// secrets, such as capability URLs. A reader of the store sees how many circuits there are and their states, but
    /// not their keys. Listings of the store show hashes, because only a process that uses a circuit knows its key.
    Hashed,
}

/// This process's circuits by their hashed names, for a fleet with hashed keys.
#[derive(Default)]
pub(super) struct Names(RwLock<HashMap<Arc<str>, Weak<Cell>>>);

impl Names {
    /// Returns the circuit with this name, if it still exists, even if it was evicted from the registry.
    fn find(&self, name: &str) -> Option<Arc<Cell>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name)?.upgrade()
    }

    /// Stores a circuit's name.
    fn note(&self, name: Arc<str>, cell: &Arc<Cell>, circuits: usize) {
        let mut names = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= 2 * circuits + SLACK {
            names.retain(|_, cell| cell.strong_count() > 0);
        }
        names.insert(name, Arc::downgrade(cell));
    }
}

impl Shared {
    /// Returns the prefix that all of this fleet's circuit names have.
    pub(crate) const fn name_prefix(&self) -> &'static str {
        if self.dry_run { DRY_RUN } else { "" }
    }

    /// Returns the store's name for the circuit with this key.
    pub(crate) fn name_of(&self, key: &str) -> Arc<str> {
        match (self.stored_keys(), self.dry_run) {
            (StoredKeys::Text, false) => key.into(),
            (StoredKeys::Text, true) => format!("{DRY_RUN}{key}").into(),
            (StoredKeys::Hashed, _) => format!("{}#{}", self.name_prefix(), KeyId::of(key)).into(),
        }
    }

    /// Returns the key for a circuit's name in the store, if names are not hashed; `None` if the name belongs to
    /// another fleet.
    pub(crate) fn key_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        match (self.dry_run, name.strip_prefix(DRY_RUN)) {
            (true, key) => key,
            (false, None) => Some(name),
            (false, Some(_)) => None,
        }
    }

    /// Returns the circuit with this name in the store, if this process has it.
    pub(super) fn cell_of(&self, name: &str) -> Option<Arc<Cell>> {
        match self.stored_keys() {
            StoredKeys::Text => self.registry.find(self.key_of(name)?),
            // The circuit may have been evicted and created again in the meantime.
            StoredKeys::Hashed => self.registry.find(self.fleet.as_ref()?.names.find(name)?.key()),
        }
    }

    pub(super) fn store_key(&self, cell: &Cell) -> Arc<str> {
        self.name_of(cell.key())
    }

    /// Registers a new circuit's name, so that other processes' changes are matched to the circuit.
    pub(crate) fn joined(&self, cell: &Arc<Cell>) {
        if let Some(fleet) = &self.fleet
            && self.stored_keys() == StoredKeys::Hashed
        {
            fleet.names.note(self.store_key(cell), cell, self.registry.len());
        }
    }

    /// Returns the tenant to store with a circuit; `None` if keys are hashed.
    pub(super) fn stored_tenant(&self, cell: &Cell) -> Option<Arc<str>> {
        match self.stored_keys() {
            StoredKeys::Text => Some(tenant_of(cell.key()).into()),
            // If a key has no tenant, its first word would be mistaken for one.
            StoredKeys::Hashed => None,
        }
    }

    fn stored_keys(&self) -> StoredKeys {
        self.fleet.as_ref().map(|fleet| fleet.settings.stored_keys).unwrap_or_default()
    }
}
