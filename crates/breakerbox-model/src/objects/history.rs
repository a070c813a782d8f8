//! What happened to circuits, as it is remembered.

use std::sync::Arc;

use breakerbox_core::Change;

/// A change of a circuit, once for each key and epoch.
#[derive(Clone, PartialEq, Debug)]
pub struct PastChange {
    /// Whose circuit.
    pub key: Arc<str>,
    /// What changed.
    pub change: Change,
}
