//! The stored history of circuits.

use std::sync::Arc;

use breakerbox_core::Change;

/// A stored change of a circuit. There is one for each key and epoch.
#[derive(Clone, PartialEq, Debug)]
pub struct PastChange {
    /// The key of the circuit.
    pub key: Arc<str>,
    /// The change.
    pub change: Change,
}
