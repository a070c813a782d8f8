//! The names by which a store knows circuits. A fleet that only watches has names of its own, so that it changes nothing for
//! those that do not.

use std::sync::Arc;

use crate::breakerbox::Shared;
use crate::cell::Cell;
use crate::registry::Kept;

const DRY_RUN: &str = "dry-run ";

impl Shared {
    /// What the names of all circuits of this fleet begin with.
    pub(crate) const fn name_prefix(&self) -> &'static str {
        if self.dry_run { DRY_RUN } else { "" }
    }

    /// The name by which the store knows the circuit of a key.
    pub(crate) fn name_of(&self, key: &str) -> Arc<str> {
        if self.dry_run { format!("{DRY_RUN}{key}").into() } else { key.into() }
    }

    /// Whose circuit the store knows by this name; none if it is another fleet's.
    pub(crate) fn key_of<'n>(&self, name: &'n str) -> Option<&'n str> {
        match (self.dry_run, name.strip_prefix(DRY_RUN)) {
            (true, key) => key,
            (false, None) => Some(name),
            (false, Some(_)) => None,
        }
    }

    pub(super) fn store_key(&self, cell: &Cell) -> Arc<str> {
        self.name_of(cell.key())
    }
}
