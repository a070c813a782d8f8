//! The names by which a store knows circuits: the text of their keys, or a hash of it. A fleet that only watches has names of its
//! own, so that it changes nothing for those that do not.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use breakerbox_core::KeyId;

use crate::breakerbox::Shared;
use crate::cell::{Cell, tenant_of};
use crate::registry::Kept;

const DRY_RUN: &str = "dry-run ";

/// How many names of circuits that are gone may be kept besides those of circuits that are there.
const SLACK: usize = 1_024;

/// What a shared store holds of a circuit's key. All processes of a fleet must say the same, or they share no circuits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum StoredKeys {
    /// The text. The store can be listed by it, and by tenant.
    #[default]
    Text,
    /// `#` and the first 128 bits of the text's SHA-256 in hex, and no tenant: for keys that hold secrets, such as capability
    /// URLs. Whoever can read the store sees how many circuits there are and what state they are in, and not whose. A listing of
    /// the store shows hashes; only a process that has a circuit knows its key.
    Hashed,
}

/// In a fleet that hashes keys: which circuits of this process the hashes stand for.
#[derive(Default)]
pub(super) struct Names(RwLock<HashMap<Arc<str>, Weak<Cell>>>);

impl Names {
    /// The circuit with this name, which may have been evicted.
    fn find(&self, name: &str) -> Option<Arc<Cell>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(name)?.upgrade()
    }

    /// Remembers a circuit's name.
    fn note(&self, name: Arc<str>, cell: &Arc<Cell>, circuits: usize) {
        let mut names = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= 2 * circuits + SLACK {
            names.retain(|_, cell| cell.strong_count() > 0);
        }
        names.insert(name, Arc::downgrade(cell));
    }
}

impl Shared {
    /// What the names of all circuits of this fleet begin with.
    pub(crate) const fn name_prefix(&self) -> &'static str {
        if self.dry_run { DRY_RUN } else { "" }
    }

    /// The name by which the store knows the circuit of a key.
    pub(crate) fn name_of(&self, key: &str) -> Arc<str> {
        match (self.stored_keys(), self.dry_run) {
            (StoredKeys::Text, false) => key.into(),
            (StoredKeys::Text, true) => format!("{DRY_RUN}{key}").into(),
            (StoredKeys::Hashed, _) => format!("{}#{}", self.name_prefix(), KeyId::of(key)).into(),
        }
    }

    /// The key of the circuit that the store knows by this name; none if it is another fleet's. Only where names are texts.
    pub(crate) fn key_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        match (self.dry_run, name.strip_prefix(DRY_RUN)) {
            (true, key) => key,
            (false, None) => Some(name),
            (false, Some(_)) => None,
        }
    }

    /// The circuit that the store knows by this name, if this process has it.
    pub(super) fn cell_of(&self, name: &str) -> Option<Arc<Cell>> {
        match self.stored_keys() {
            StoredKeys::Text => self.registry.find(self.key_of(name)?),
            // The circuit may have been evicted and made again since.
            StoredKeys::Hashed => self.registry.find(self.fleet.as_ref()?.names.find(name)?.key()),
        }
    }

    pub(super) fn store_key(&self, cell: &Cell) -> Arc<str> {
        self.name_of(cell.key())
    }

    /// A circuit is in the registry. From now on, what others swap in for it is recognised.
    pub(crate) fn joined(&self, cell: &Arc<Cell>) {
        if let Some(fleet) = &self.fleet
            && self.stored_keys() == StoredKeys::Hashed
        {
            fleet.names.note(self.store_key(cell), cell, self.registry.len());
        }
    }

    /// The tenant that the store is told of a circuit.
    pub(super) fn stored_tenant(&self, cell: &Cell) -> Option<Arc<str>> {
        match self.stored_keys() {
            StoredKeys::Text => Some(tenant_of(cell.key()).into()),
            // A key without a tenant would be taken for one.
            StoredKeys::Hashed => None,
        }
    }

    fn stored_keys(&self) -> StoredKeys {
        self.fleet.as_ref().map(|fleet| fleet.settings.stored_keys).unwrap_or_default()
    }
}
